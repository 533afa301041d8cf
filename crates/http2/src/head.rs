//! The head of a request, and what makes it malformed.
//!
//! The rules are those of grpc-go and of the library below it: names are tokens in lower case, values have no control
//! characters, pseudo-headers come first, once, and are those of a request. What `:authority` and `:path` say is not
//! looked at: a client may send any text.

use crate::hpack::{FIELD_OVERHEAD_BYTES, FieldSink};
use crate::limits::{MAX_HEADER_LIST_BYTES, MAX_LIST_TO_BLOCK_RATIO, MAX_SMALL_LIST_BYTES};

/// The headers of a request, in order, in one buffer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    bytes: Vec<u8>,
    fields: Vec<HeadField>,
    /// How many of the fields are pseudo-headers.
    pseudo: usize,
}

/// Where the parts of a field end; it begins where the one before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeadField {
    name_end: u32,
    end: u32,
}

impl RequestHead {
    /// The head of a call that did not come over a connection: its path, and its headers with names in lower case.
    pub fn of_call<'a>(path: &str, headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> RequestHead {
        let mut head = RequestHead::default();
        head.push(b":path", path.as_bytes());
        head.pseudo = 1;
        headers.into_iter().for_each(|(name, value)| head.push(name.as_bytes(), value));
        head
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.fields.push(HeadField { name_end, end: self.bytes.len() as u32 });
    }

    /// The method; empty if there is none.
    pub fn method(&self) -> &[u8] {
        self.pseudo(":method").unwrap_or_default()
    }

    /// The path, which may be any text; empty if there is none.
    pub fn path(&self) -> &[u8] {
        self.pseudo(":path").unwrap_or_default()
    }

    /// A pseudo-header.
    pub fn pseudo(&self, name: &str) -> Option<&[u8]> {
        self.pairs().take(self.pseudo).find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    /// The first header of a name in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    /// The first header of each of these names in lower case, found in one pass.
    pub fn get_each<const N: usize>(&self, names: [&str; N]) -> [Option<&[u8]>; N] {
        let mut found = [None; N];
        for (name, value) in self.fields() {
            if let Some(at) = names.iter().position(|wanted| wanted.as_bytes() == name) {
                found[at] = found[at].or(Some(value));
            }
        }
        found
    }

    /// All headers of a name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields().filter(move |(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    /// All headers but the pseudo-headers: names and values, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs().skip(self.pseudo)
    }

    fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.fields.iter().map(move |field| {
            let (name_end, end) = (field.name_end as usize, field.end as usize);
            let name = &self.bytes[start..name_end];
            start = end;
            (name, &self.bytes[name_end..end])
        })
    }

    /// The name and the value of the field at a position; pseudo-headers have positions too.
    pub(crate) fn at(&self, position: usize) -> Option<(&[u8], &[u8])> {
        self.pairs().nth(position)
    }

    /// The same head with another value at a position.
    ///
    /// # Panics
    /// When there is no such position.
    pub(crate) fn with_value(&self, position: usize, value: &[u8]) -> RequestHead {
        let HeadField { name_end, end } = self.fields[position];
        let parts = [&self.bytes[..name_end as usize], value, &self.bytes[end as usize..]];
        let mut fields = self.fields.clone();
        let moved = |at: u32| at - end + name_end + value.len() as u32;
        fields[position].end = moved(end);
        for field in &mut fields[position + 1..] {
            *field = HeadField { name_end: moved(field.name_end), end: moved(field.end) };
        }
        RequestHead { bytes: parts.concat(), fields, pseudo: self.pseudo }
    }

    /// Whether there is any pseudo-header: trailers have none.
    pub(crate) fn has_pseudo(&self) -> bool {
        self.pseudo > 0
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.fields.len() * size_of::<HeadField>()
    }
}

/// What a header block turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadOutcome {
    Good(RequestHead),
    /// It broke a rule; its stream is reset.
    Malformed,
    /// The list is larger than [`MAX_HEADER_LIST_BYTES`], or than its block may mean.
    TooLarge,
}

/// Makes a head from fields. What follows a fault is not kept.
#[derive(Debug)]
pub(crate) struct HeadBuilder {
    head: RequestHead,
    list_bytes: usize,
    max_list_bytes: usize,
    is_malformed: bool,
}

impl FieldSink for HeadBuilder {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.list_bytes = self.list_bytes.saturating_add(name.len() + value.len() + FIELD_OVERHEAD_BYTES);
        if self.is_malformed || self.list_bytes > self.max_list_bytes {
            return;
        }
        if !self.is_allowed(name, value) {
            self.is_malformed = true;
            return;
        }
        self.head.pseudo += usize::from(name[0] == b':');
        self.head.push(name, value);
    }
}

impl HeadBuilder {
    /// A builder for the fields of a block of so many bytes.
    pub(crate) fn new(block_bytes: usize) -> HeadBuilder {
        let from_block = MAX_SMALL_LIST_BYTES + block_bytes.saturating_mul(MAX_LIST_TO_BLOCK_RATIO);
        HeadBuilder {
            head: RequestHead::default(),
            list_bytes: 0,
            max_list_bytes: from_block.min(MAX_HEADER_LIST_BYTES),
            is_malformed: false,
        }
    }

    fn is_allowed(&self, name: &[u8], value: &[u8]) -> bool {
        if !is_value(value) {
            return false;
        }
        let head = &self.head;
        match name {
            // The last is one of answers. As in grpc-go's library it is no mistake alone, but beside those of requests.
            b":method" | b":path" | b":scheme" | b":authority" | b":protocol" | b":status" => {
                let is_beside = |other: &[u8]| other != name && other != b":status" && name != b":status";
                head.pseudo == head.fields.len() && head.pairs().all(|(other, _)| is_beside(other))
            }
            _ => !name.is_empty() && name.iter().all(is_token),
        }
    }

    /// The head of a request.
    pub(crate) fn finish(self) -> HeadOutcome {
        match self {
            _ if self.is_malformed => HeadOutcome::Malformed,
            _ if self.list_bytes > self.max_list_bytes => HeadOutcome::TooLarge,
            _ => HeadOutcome::Good(self.head),
        }
    }
}

/// Whether a field may have a value: one without control characters. All bytes are looked at, many at a time: long
/// values are right, or sent to cost us time.
pub(crate) fn is_value(value: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ') & (byte != b'\t') | (byte == 0x7f);
    !value.iter().fold(false, |found, byte| found | is_control(*byte))
}

/// Whether a byte may be in a name: those of a token (RFC 9110, section 5.6.2), without upper case.
fn is_token(byte: &u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(byte)
}

#[cfg(test)]
mod tests {
    //! Which lists are a request's head.
    use super::*;

    fn outcome(fields: &[(&str, &str)]) -> HeadOutcome {
        let mut builder = HeadBuilder::new(1 << 20);
        fields.iter().for_each(|(name, value)| builder.field(name.as_bytes(), value.as_bytes()));
        builder.finish()
    }

    #[test]
    fn any_authority_and_path_are_taken() {
        for text in [
            "",
            "a",
            "#initially=[host:port]",
            "127.0.0.1:2379,127.0.0.1:22379",
            "a%2Cb",
            "a b",
            "a/b",
            "/tmp/s",
        ] {
            let HeadOutcome::Good(head) =
                outcome(&[(":authority", text), (":path", text), ("te", "x"), ("te", "y")])
            else {
                panic!("{text:?} was refused")
            };
            assert_eq!((head.pseudo(":authority"), head.path()), (Some(text.as_bytes()), text.as_bytes()));
            assert_eq!(head.all("te").collect::<Vec<_>>(), [b"x", b"y"]);
            assert_eq!(head.get("te"), Some(&b"x"[..]));
            assert_eq!((head.method(), head.get("a")), (&b""[..], None));
        }
    }

    #[test]
    fn what_grpc_go_refuses_is_malformed() {
        let cases: [&[(&str, &str)]; 12] = [
            &[(":status", "200"), (":path", "/")],
            &[(":path", "/"), (":status", "200")],
            &[(":other", "")],
            &[(":path", "/"), (":path", "/")],
            &[("a", ""), (":path", "/")],
            &[("A", "")],
            &[("", "")],
            &[("a b", "")],
            &[("a:b", "")],
            &[("a", "b\nc")],
            &[("a", "b\0")],
            &[("a", "b\x7f")],
        ];
        for fields in cases {
            assert_eq!(outcome(fields), HeadOutcome::Malformed, "{fields:?}");
        }
        assert!(matches!(outcome(&[(":status", "200"), ("a", "")]), HeadOutcome::Good(_)));
        assert!(matches!(outcome(&[("a", "tab\tand \u{e9}")]), HeadOutcome::Good(_)));
    }

    #[test]
    fn a_list_is_limited_and_what_is_beyond_it_is_not_kept() {
        let value = "x".repeat(1 << 20);
        let fits = vec![("a", value.as_str()); 15];
        assert!(matches!(outcome(&fits), HeadOutcome::Good(_)));
        let mut builder = HeadBuilder::new(1 << 20);
        (0..100).for_each(|_| builder.field(b"a", value.as_bytes()));
        assert!(builder.head.bytes.len() <= MAX_HEADER_LIST_BYTES);
        assert_eq!(builder.finish(), HeadOutcome::TooLarge);
        // A small block does not mean a large list.
        let mut builder = HeadBuilder::new(1_000);
        (0..1_000).for_each(|_| builder.field(b"a", &[b'x'; 4_000]));
        assert!(builder.head.bytes.len() <= MAX_SMALL_LIST_BYTES + 1_000 * MAX_LIST_TO_BLOCK_RATIO);
        assert_eq!(builder.finish(), HeadOutcome::TooLarge);
    }
}
