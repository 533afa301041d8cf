//! The bytes of pages, without what is in them.
//!
//! Numbers are little-endian, because bbolt maps its structures onto the file as the processor has them.
//!
//! | file | holds |
//! |---|---|
//! | `page` | the header of a page, and the sizes of what follows it |
//! | `meta` | the meta pages, by which the rest is found |
//!
//! Which pairs are on which page is decided in [`crate::write`], and checked in [`crate::read`]. Nothing here
//! looks at more than one page, or at what a key or a value means. bbolt's own description of the format is its code:
//! `internal/common` of version 1.5, which etcd 3.7 uses. The format's version has been 2 since 2014.

mod meta;
mod page;

pub(crate) use meta::{META_BYTES, MetaPage};
pub(crate) use page::{
    BUCKET_BYTES, BUCKET_FLAG, ELEMENT_BYTES, MAX_KEY_BYTES, PAGE_BYTES, PAGE_HEADER_BYTES, PageHeader,
    PageKind, pages_of, u32_at, u64_at,
};
