//! A file: which meta page counts, its pages and its buckets.

use super::node::Node;
use super::source::ReadAt;
use super::walk::BucketWalk;
use crate::error::ReadError;
use crate::format::{META_BYTES, MetaPage, PAGE_HEADER_BYTES, PageHeader};

/// Where bbolt looks for the second meta page: after a page of each size that it knows.
const SECOND_META_SHIFTS: std::ops::RangeInclusive<u32> = 10..=24;

/// The pages before the first that may be part of a tree.
const META_PAGES: u64 = 2;

/// A database file.
pub struct DbFile<R> {
    source: R,
    bytes: u64,
    meta: MetaPage,
}

impl<R: ReadAt> DbFile<R> {
    /// Reads the meta pages; the intact one of the later transaction counts. What follows the last page is not looked
    /// at, as the SHA-256 behind a snapshot.
    ///
    /// # Errors
    /// [`ReadError::NoMeta`], [`ReadError::Short`], [`ReadError::Source`]
    pub fn open(source: R) -> Result<DbFile<R>, ReadError> {
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
        Ok(DbFile { source, bytes: expected, meta })
    }

    /// The length of its pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The pairs of a bucket, in order; `None` without a bucket of that name.
    ///
    /// # Errors
    /// Those of reading a page.
    pub fn bucket(&self, name: &str) -> Result<Option<BucketWalk<'_, R>>, ReadError> {
        let mut buckets = self.root()?;
        while let Some((found, head)) = buckets.next_bucket()? {
            if found == name.as_bytes() {
                return BucketWalk::of_bucket(self, head).map(Some);
            }
        }
        Ok(None)
    }

    /// The names of the buckets, in order.
    ///
    /// # Errors
    /// Those of reading a page.
    pub fn bucket_names(&self) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut buckets = self.root()?;
        let mut names = Vec::new();
        while let Some((name, _)) = buckets.next_bucket()? {
            names.push(name.to_vec());
        }
        Ok(names)
    }

    fn root(&self) -> Result<BucketWalk<'_, R>, ReadError> {
        BucketWalk::of_root(self, self.meta.root)
    }

    /// The number of pages.
    pub(super) fn pages(&self) -> u64 {
        self.meta.pages
    }

    /// Reads a page of a tree, with its overflow.
    pub(super) fn node(&self, page: u64) -> Result<Node, ReadError> {
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
        Node::new(header, bytes).map_err(damaged)
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
