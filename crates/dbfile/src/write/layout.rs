//! The first pass: lengths in, the number of pages out.

use super::load::{Load, Loaded};
use super::sink::{Child, PageSink};
use crate::error::WriteError;
use crate::format::{ELEMENT_BYTES, PAGE_BYTES, PAGE_HEADER_BYTES};

/// Counts the pages of a file from the lengths of its pairs. Buckets and pairs come in the order in which they are
/// written later.
pub struct FileLayout {
    load: Load<PageCount>,
}

/// The length of a file, and what its meta pages say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlan {
    pub(super) pages: u64,
    pub(super) root: u64,
}

impl FilePlan {
    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.pages * PAGE_BYTES
    }
}

impl Default for FileLayout {
    fn default() -> FileLayout {
        FileLayout { load: Load::into(PageCount::default()) }
    }
}

impl FileLayout {
    /// Begins a bucket.
    ///
    /// # Errors
    /// [`WriteError::Order`], [`WriteError::KeyLength`]
    pub fn bucket(&mut self, name: &str) -> Result<(), WriteError> {
        self.load.bucket(name)
    }

    /// Adds a pair to the bucket, by the lengths of its key and value.
    ///
    /// # Errors
    /// [`WriteError::NoBucket`], [`WriteError::KeyLength`], [`WriteError::ValueLength`]
    pub fn pair(&mut self, key_bytes: usize, value_bytes: usize) -> Result<(), WriteError> {
        self.load.pair((key_bytes, value_bytes))
    }

    /// The length of the file.
    ///
    /// # Errors
    /// None: it has those of the writer.
    pub fn finish(self) -> Result<FilePlan, WriteError> {
        let Loaded { pages, root, .. } = self.load.finish()?;
        Ok(FilePlan { pages, root })
    }
}

/// Keeps only the length of the leaf that is being filled.
#[derive(Default)]
struct PageCount {
    leaf_bytes: usize,
}

impl PageSink for PageCount {
    type Pair<'a> = (usize, usize);
    type Key = usize;

    fn pair<'a>(key: &'a [u8], value: &'a [u8]) -> (usize, usize) {
        (key.len(), value.len())
    }

    fn lengths(pair: (usize, usize)) -> (usize, usize) {
        pair
    }

    fn first_key((key, _): (usize, usize)) -> usize {
        key
    }

    fn key_bytes(key: &usize) -> usize {
        *key
    }

    fn put(&mut self, _: u32, (key, value): (usize, usize)) -> Result<(), WriteError> {
        self.leaf_bytes += ELEMENT_BYTES + key + value;
        Ok(())
    }

    fn leaf(&mut self, _: u64, _: u16, _: u32) -> Result<(), WriteError> {
        self.leaf_bytes = 0;
        Ok(())
    }

    fn inline_leaf(&mut self, _: u16) -> Vec<u8> {
        vec![0; PAGE_HEADER_BYTES + std::mem::take(&mut self.leaf_bytes)]
    }

    fn branch(&mut self, _: u64, _: u32, _: &[Child<usize>]) -> Result<(), WriteError> {
        Ok(())
    }

    fn begin_bucket(&mut self) {}
}
