//! The tables of HPACK (RFC 7541): the static one, and the dynamic one, which a client's encoder fills.

use std::collections::VecDeque;

/// Fields that both sides know (appendix A); the first has index 1.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// What a field counts besides its bytes (section 4.1).
pub(crate) const FIELD_OVERHEAD_BYTES: usize = 32;

/// The fields that a client's encoder has added, the newest first.
#[derive(Debug)]
pub(super) struct DynamicTable {
    fields: VecDeque<TableField>,
    bytes: usize,
    max_bytes: usize,
    /// How many fields were ever added.
    added: u64,
}

/// A field in one buffer: its name, then its value.
#[derive(Debug)]
struct TableField {
    bytes: Box<[u8]>,
    name_length: usize,
}

impl TableField {
    fn size(&self) -> usize {
        self.bytes.len() + FIELD_OVERHEAD_BYTES
    }
}

impl DynamicTable {
    /// An empty table of so many bytes.
    pub(super) fn new(max_bytes: usize) -> DynamicTable {
        DynamicTable { fields: VecDeque::new(), bytes: 0, max_bytes, added: 0 }
    }

    /// Whether it has no fields.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Changes its size; removes the oldest fields.
    pub(super) fn resize(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
        self.evict(0);
    }

    /// The name and the value at an index (section 2.3.3).
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        if let Some((name, value)) = STATIC.get(index.checked_sub(1)?) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let field = self.fields.get(index - 1 - STATIC.len())?;
        Some(field.bytes.split_at(field.name_length))
    }

    /// The number of the field at an index: the index itself in the static table; behind it fields are counted as they
    /// were added. An index means another field when one was added since, and a number never does.
    pub(super) fn number(&self, index: usize) -> Option<u64> {
        let at = index.checked_sub(1)?;
        match at.checked_sub(STATIC.len()) {
            None => Some(index as u64),
            Some(age) if age < self.fields.len() => Some(STATIC.len() as u64 + self.added - age as u64),
            Some(_) => None,
        }
    }

    /// The name and the value of the field with a number, if it is still there.
    pub(super) fn numbered(&self, number: u64) -> Option<(&[u8], &[u8])> {
        let newest = STATIC.len() as u64 + self.added;
        let is_static = number <= STATIC.len() as u64;
        let index = if is_static { number } else { STATIC.len() as u64 + 1 + newest.checked_sub(number)? };
        self.get(usize::try_from(index).ok()?)
    }

    /// Adds a field. One that is larger than the table empties it (section 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        self.evict(size);
        if size <= self.max_bytes {
            self.bytes += size;
            self.added += 1;
            let field = TableField { bytes: [name, value].concat().into(), name_length: name.len() };
            self.fields.push_front(field);
        }
    }

    /// Removes the oldest fields until there is room for `more` bytes, or none is left.
    fn evict(&mut self, more: usize) {
        while self.bytes + more > self.max_bytes
            && let Some(oldest) = self.fields.pop_back()
        {
            self.bytes -= oldest.size();
        }
    }
}
