//! Inputs that are sequences: small numbers and byte strings, one after the other. Every input is a valid script.
//!
//! ```text
//! 00 | 02 | 03 00 | 61 62 63      byte 0 (a frame), byte 2 (from peer 2), 3 bytes "abc"
//! ```

/// Reads a script.
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// Starts at the beginning of a script.
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        Script(bytes)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// What is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The next two bytes.
    pub fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }

    /// Bytes, after their length of two bytes; fewer at the end of the script.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.half()?).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(bytes)
    }
}

/// Appends bytes after their length of two bytes.
///
/// # Panics
/// When there are 64 KiB or more.
pub fn put_bytes(script: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("they are shorter than 64 KiB");
    script.extend(length.to_le_bytes());
    script.extend(bytes);
}
