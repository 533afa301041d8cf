//! The header of a page, and the sizes of what follows it.
//!
//! ```text
//! page      | number 8 | kind 2 | count 2 | overflow 4 | elements, 16 bytes each | keys and values |
//! branch    element: | offset of the key 4 | key length 4 | page of the child 8 |
//! leaf      element: | flags 4 | offset of the key 4 | key length 4 | value length 4 |
//! bucket    value of a leaf element whose flags are 1: | root page 8 | sequence 8 | leaf, if the root page is 0 |
//! ```
//!
//! An offset counts from the first byte of its element. A page with an overflow of n takes the n pages after it, too.

/// Bytes of the pages that are written: those of the processor's pages, where bbolt writes.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Bytes of a page's header.
pub(crate) const PAGE_HEADER_BYTES: usize = 16;

/// Bytes of an element, of a leaf or of a branch.
pub(crate) const ELEMENT_BYTES: usize = 16;

/// Bytes of the head of a bucket, in the value of its element.
pub(crate) const BUCKET_BYTES: usize = 16;

/// The longest key, as bbolt has it.
pub(crate) const MAX_KEY_BYTES: usize = 32_768;

/// The flag of a leaf's element whose value is a bucket.
pub(crate) const BUCKET_FLAG: u32 = 1;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Branch = 1,
    Leaf = 2,
    Meta = 4,
    Freelist = 16,
}

/// The header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub(crate) page: u64,
    pub(crate) kind: PageKind,
    /// The number of elements.
    pub(crate) count: u16,
    /// The number of pages that follow and belong to it.
    pub(crate) overflow: u32,
}

impl PageHeader {
    pub(crate) fn encode(&self) -> [u8; PAGE_HEADER_BYTES] {
        let mut bytes = [0; PAGE_HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.page.to_le_bytes());
        bytes[8..10].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[10..12].copy_from_slice(&self.count.to_le_bytes());
        bytes[12..].copy_from_slice(&self.overflow.to_le_bytes());
        bytes
    }

    /// `None` for a page of no known kind.
    pub(crate) fn decode(bytes: &[u8; PAGE_HEADER_BYTES]) -> Option<PageHeader> {
        let kind = match u16::from_le_bytes([bytes[8], bytes[9]]) {
            1 => PageKind::Branch,
            2 => PageKind::Leaf,
            4 => PageKind::Meta,
            16 => PageKind::Freelist,
            _ => return None,
        };
        let count = u16::from_le_bytes([bytes[10], bytes[11]]);
        Some(PageHeader { page: u64_at(bytes, 0), kind, count, overflow: u32_at(bytes, 12) })
    }
}

/// The number at an offset of bytes that are long enough.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// The number at an offset of bytes that are long enough.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// Pages that so many bytes take.
pub(crate) fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}
