//! Cuts a stream of bytes into JSON values.
//!
//! A request's body is one JSON value, and that of a stream is many, one after the other, with white space between them
//! or without. They arrive in parts of any size, so something must say where a value ends before it can be parsed.
//! Example: `{"a":"}"}{"b":1}` arrives as `{"a":"}`, `"}{"b"`, `:1}`. After the second part there is one value, after
//! the third another. Each byte is looked at once, and within a string at most once more with its neighbours, however
//! many parts there are.
//!
//! What is looked at: brackets and braces, and the strings around them. Whether a value is good JSON is for its parser
//! to say. A value that begins with neither bracket nor brace is never a message, so it is handed out as it is, up to
//! white space or to the end of what has come: its parser says why it is none.

use bytes::{Bytes, BytesMut};

/// Values in the JSON of a message: braces, brackets and commas outside of strings. A message takes some 900 bytes
/// for each message in it, however little that says, so 4 MB of `{"key":""},` would take 340 MB. A put in a
/// transaction with a key and a value has four, a comparison five: 10,000 of each are allowed, of which
/// `--max-txn-ops` allows 128.
pub const MAX_JSON_VALUES: usize = 1 << 17;

/// JSON with more than [`MAX_JSON_VALUES`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("received JSON with more than max values ({MAX_JSON_VALUES})")]
pub struct TooManyValues;

/// Collects bytes and hands out whole values.
#[derive(Debug, Default)]
pub struct JsonValues {
    bytes: BytesMut,
    /// How many of the bytes were looked at.
    seen: usize,
    /// Open brackets and braces before that.
    depth: usize,
    /// Braces, brackets and commas before that.
    values: usize,
    in_string: bool,
    /// A backslash came before.
    is_escaped: bool,
}

impl JsonValues {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that were pushed and not handed out.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no bytes are kept: after [`JsonValues::next_value`] has returned `None`, whether the stream may end
    /// here.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next whole value; `None` if more bytes are needed.
    ///
    /// # Errors
    /// When it has too many values in it. Nothing can be asked after that.
    pub fn next_value(&mut self) -> Result<Option<Bytes>, TooManyValues> {
        if self.seen == 0 {
            let space = self.bytes.iter().take_while(|byte| is_space(**byte)).count();
            let _ = self.bytes.split_to(space);
            let Some(first) = self.bytes.first() else { return Ok(None) };
            if !matches!(first, b'{' | b'[') {
                let end = self.bytes.iter().position(|byte| is_space(*byte)).unwrap_or(self.bytes.len());
                return Ok(Some(self.take(end)));
            }
        }
        while self.seen < self.bytes.len() {
            if self.in_string && !self.is_escaped && self.seen.is_multiple_of(STRING_PART) {
                self.seen += inside_of_string(&self.bytes[self.seen..]);
            }
            let Some(&byte) = self.bytes.get(self.seen) else { break };
            self.seen += 1;
            if self.ends_with(byte) {
                let end = std::mem::take(&mut self.seen);
                self.values = 0;
                return Ok(Some(self.take(end)));
            }
            if self.values > MAX_JSON_VALUES {
                return Err(TooManyValues);
            }
        }
        Ok(None)
    }

    /// The first bytes. An empty rest does not keep their memory.
    fn take(&mut self, count: usize) -> Bytes {
        if count == self.bytes.len() {
            return std::mem::take(&mut self.bytes).freeze();
        }
        self.bytes.split_to(count).freeze()
    }

    /// Whether the value ends with this byte.
    fn ends_with(&mut self, byte: u8) -> bool {
        if std::mem::take(&mut self.is_escaped) {
            return false;
        }
        self.values += usize::from(!self.in_string && matches!(byte, b'{' | b'[' | b','));
        match byte {
            b'"' => self.in_string = !self.in_string,
            b'\\' if self.in_string => self.is_escaped = true,
            _ if self.in_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0 && !self.in_string
    }
}

/// Bytes of a string that are looked at together: nearly all of a large request are of one string, in base64.
const STRING_PART: usize = 64;

/// How many of the bytes, in parts of that size, neither end the string that they are in nor escape.
fn inside_of_string(bytes: &[u8]) -> usize {
    let is_inside = |part: &&[u8; STRING_PART]| {
        !part.iter().fold(false, |found, byte| found | (*byte == b'"') | (*byte == b'\\'))
    };
    bytes.as_chunks().0.iter().take_while(is_inside).count() * STRING_PART
}

/// JSON's white space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
