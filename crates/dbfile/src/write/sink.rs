//! What the pages of a file go to.

use crate::error::WriteError;

/// A page, as its parent will name it.
pub(super) struct Child<K> {
    /// The first key of the page.
    pub(super) first: K,
    pub(super) page: u64,
}

/// Takes pages in the order of their numbers: writes them, or only counts.
pub(super) trait PageSink {
    /// A pair, or only its lengths.
    type Pair<'a>: Copy;
    /// What is kept of the first key of a page until its parent is written.
    type Key;

    /// A pair of which the bytes are known.
    fn pair<'a>(key: &'a [u8], value: &'a [u8]) -> Self::Pair<'a>;

    /// The lengths of key and value.
    fn lengths(pair: Self::Pair<'_>) -> (usize, usize);

    /// The key of a pair that begins a page.
    fn first_key(pair: Self::Pair<'_>) -> Self::Key;

    fn key_bytes(key: &Self::Key) -> usize;

    /// Adds a pair to the leaf that is being filled.
    ///
    /// # Errors
    /// [`WriteError::Order`]
    fn put(&mut self, flags: u32, pair: Self::Pair<'_>) -> Result<(), WriteError>;

    /// The leaf that was filled, with `count` pairs, becomes a page and `overflow` more. A new one begins.
    ///
    /// # Errors
    /// [`WriteError::Output`], [`WriteError::Plan`]
    fn leaf(&mut self, page: u64, count: u16, overflow: u32) -> Result<(), WriteError>;

    /// The leaf that was filled becomes the value of its bucket's record instead. A new one begins.
    fn inline_leaf(&mut self, count: u16) -> Vec<u8>;

    /// A branch with these children.
    ///
    /// # Errors
    /// [`WriteError::Output`], [`WriteError::Plan`]
    fn branch(&mut self, page: u64, overflow: u32, children: &[Child<Self::Key>]) -> Result<(), WriteError>;

    /// Another bucket begins: its keys begin again.
    fn begin_bucket(&mut self);
}
