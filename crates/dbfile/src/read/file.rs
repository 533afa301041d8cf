//! A file and its buckets.

use super::pages::FilePages;
use super::source::ReadAt;
use super::walk::BucketWalk;
use crate::error::ReadError;

/// A database file.
pub struct DbFile<R> {
    pages: FilePages<R>,
}

impl<R: ReadAt> DbFile<R> {
    /// Reads the meta pages; the intact one of the later transaction counts. What follows the last page is not looked
    /// at, as the SHA-256 behind a snapshot.
    ///
    /// # Errors
    /// [`ReadError::NoMeta`], [`ReadError::Short`], [`ReadError::Source`]
    pub fn open(source: R) -> Result<DbFile<R>, ReadError> {
        Ok(DbFile { pages: FilePages::open(source)? })
    }

    /// The length of its pages.
    pub fn bytes(&self) -> u64 {
        self.pages.bytes()
    }

    /// The pairs of a bucket, in order; `None` without a bucket of that name.
    ///
    /// # Errors
    /// Those of reading a page.
    pub fn bucket(&self, name: &str) -> Result<Option<BucketWalk<'_, R>>, ReadError> {
        let mut buckets = BucketWalk::of_root(&self.pages, self.pages.root())?;
        while let Some((found, head)) = buckets.next_bucket()? {
            if found == name.as_bytes() {
                return BucketWalk::of_bucket(&self.pages, head).map(Some);
            }
        }
        Ok(None)
    }

    /// The names of the buckets, in order.
    ///
    /// # Errors
    /// Those of reading a page.
    pub fn bucket_names(&self) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut buckets = BucketWalk::of_root(&self.pages, self.pages.root())?;
        let mut names = Vec::new();
        while let Some((name, _)) = buckets.next_bucket()? {
            names.push(name.to_vec());
        }
        Ok(names)
    }
}
