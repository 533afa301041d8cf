//! The bytes of pages, without what is in them.
//!
//! Numbers are little-endian, because bbolt maps its structures onto the file as the processor has them.

mod meta;
mod page;

pub(crate) use meta::{META_BYTES, MetaPage};
pub(crate) use page::{
    BUCKET_BYTES, BUCKET_FLAG, ELEMENT_BYTES, MAX_KEY_BYTES, PAGE_BYTES, PAGE_HEADER_BYTES, PageHeader, PageKind,
};

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
