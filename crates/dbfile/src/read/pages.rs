//! The pages of a file: which meta page counts, and the nodes of its trees.

use super::node::TreeNode;
use super::source::ReadAt;
use crate::error::ReadError;
use crate::format::{META_BYTES, MetaPage, PAGE_HEADER_BYTES, PageHeader};

/// Where bbolt looks for the second meta page: after a page of each size that it knows.
const SECOND_META_SHIFTS: std::ops::RangeInclusive<u32> = 10..=24;

/// The pages before the first that may be part of a tree.
const META_PAGES: u64 = 2;

/// A file, as pages.
pub(super) struct FilePages<R> {
    source: R,
    meta: MetaPage,
}

impl<R: ReadAt> FilePages<R> {
    /// Reads the meta pages; the intact one of the later transaction counts.
    pub(super) fn open(source: R) -> Result<FilePages<R>, ReadError> {
        let size = source.size();
        let bytes = size.map_err(|source| ReadError::Source { offset: 0, bytes: 0, source })?;
        let first = meta_at(&source, bytes, 0)?;
        let mut second = None;
        for shift in SECOND_META_SHIFTS {
            let found = meta_at(&source, bytes, 1 << shift)?;
            second = second.or(found.filter(|meta| meta.page_size == 1 << shift));
        }
        let of_later = |meta: &MetaPage| meta.transaction;
        let meta = first.into_iter().chain(second).max_by_key(of_later).ok_or(ReadError::NoMeta)?;
        let expected = meta.pages.saturating_mul(u64::from(meta.page_size));
        if expected > bytes {
            return Err(ReadError::Short { bytes, pages: meta.pages, expected });
        }
        Ok(FilePages { source, meta })
    }

    /// Bytes of all pages.
    pub(super) fn bytes(&self) -> u64 {
        // It is not more than the source has.
        self.meta.pages * u64::from(self.meta.page_size)
    }

    /// The number of pages.
    pub(super) fn count(&self) -> u64 {
        self.meta.pages
    }

    /// The root page of the root bucket.
    pub(super) fn root(&self) -> u64 {
        self.meta.root
    }

    /// Reads a page of a tree, with its overflow.
    pub(super) fn node(&self, page: u64) -> Result<TreeNode, ReadError> {
        let damaged = |problem| ReadError::Page { page, problem };
        if page < META_PAGES || page >= self.meta.pages {
            return Err(damaged("the file has no such page for data"));
        }
        let mut header = [0; PAGE_HEADER_BYTES];
        // It is inside of the file, so the product has no overflow.
        let page_size = u64::from(self.meta.page_size);
        self.read(page * page_size, &mut header)?;
        let header = PageHeader::decode(&header).ok_or(damaged("it has no kind that is known"))?;
        if header.page != page {
            return Err(damaged("its header has the number of another page"));
        }
        let pages = 1 + u64::from(header.overflow);
        if pages > self.meta.pages - page {
            return Err(damaged("its overflow goes beyond the end of the file"));
        }
        let mut bytes = vec![0; (pages * page_size) as usize];
        self.read(page * page_size, &mut bytes)?;
        TreeNode::new(header, bytes).map_err(damaged)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ReadError> {
        let bytes = into.len() as u64;
        self.source.read_at(offset, into).map_err(|source| ReadError::Source { offset, bytes, source })
    }
}

/// The meta page at an offset; `None` if there is none that is intact.
fn meta_at(source: &impl ReadAt, size: u64, offset: u64) -> Result<Option<MetaPage>, ReadError> {
    if size < offset.saturating_add(META_BYTES as u64) {
        return Ok(None);
    }
    let mut bytes = [0; META_BYTES];
    let read = source.read_at(offset, &mut bytes);
    read.map_err(|source| ReadError::Source { offset, bytes: META_BYTES as u64, source })?;
    Ok(MetaPage::decode(&bytes))
}
