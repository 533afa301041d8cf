//! The tree of one bucket: which pairs share a leaf, and which pages share a branch.
//!
//! A leaf takes pairs while they fit into a page; one pair alone may take several pages. A branch has two children at
//! least, because bbolt expects that. So the last three children of a level wait until more come, or until the end:
//!
//! ```text
//! fit into a branch: 4        a b c d e     5 children wait
//!                             a b c d e f   a b c become a branch: d e f wait, and whatever comes, two are left
//! ```

use super::FIRST_PAGE;
use super::sink::{Child, PageSink};
use crate::error::WriteError;
use crate::format::{ELEMENT_BYTES, PAGE_BYTES, PAGE_HEADER_BYTES, pages_of};

/// The largest leaf that stays in the record of its bucket: a quarter of a page, as in bbolt.
const MAX_INLINE_BYTES: u64 = PAGE_BYTES / 4;

/// Children that wait at each level.
const MIN_WAITING: usize = 3;

/// Gives out the numbers of pages.
pub(super) struct PageNumbers(u64);

impl Default for PageNumbers {
    fn default() -> PageNumbers {
        PageNumbers(FIRST_PAGE)
    }
}

impl PageNumbers {
    /// The number of a page of so many bytes, and how many pages it takes besides the first.
    fn take(&mut self, bytes: u64) -> (u64, u32) {
        let page = self.0;
        let pages = pages_of(bytes);
        self.0 += pages;
        // One pair at most takes more than a page, and its lengths are checked.
        (page, (pages - 1) as u32)
    }

    /// The number of pages so far.
    pub(super) fn end(&self) -> u64 {
        self.0
    }
}

/// A bucket that is being filled.
pub(super) struct Tree<K> {
    /// Bytes of the leaf that is being filled, and its pairs.
    leaf_bytes: u64,
    count: u16,
    first: Option<K>,
    /// The children that have no parent yet; those of leaves first.
    levels: Vec<Level<K>>,
}

/// The pages of one level that have no parent yet.
struct Level<K> {
    children: Vec<Child<K>>,
    /// Bytes of their elements and keys.
    bytes: u64,
}

impl<K> Default for Level<K> {
    fn default() -> Level<K> {
        Level { children: Vec::new(), bytes: 0 }
    }
}

impl<K> Default for Tree<K> {
    fn default() -> Tree<K> {
        Tree { leaf_bytes: PAGE_HEADER_BYTES as u64, count: 0, first: None, levels: Vec::new() }
    }
}

impl<K> Tree<K> {
    /// Adds a pair.
    ///
    /// # Errors
    /// Those of the sink.
    pub(super) fn add<S: PageSink<Key = K>>(
        &mut self,
        (sink, numbers): (&mut S, &mut PageNumbers),
        flags: u32,
        pair: S::Pair<'_>,
    ) -> Result<(), WriteError> {
        let (key, value) = S::lengths(pair);
        let bytes = (ELEMENT_BYTES + key + value) as u64;
        if self.count > 0 && self.leaf_bytes + bytes > PAGE_BYTES {
            self.end_leaf(sink, numbers)?;
        }
        sink.put(flags, pair)?;
        if self.count == 0 {
            self.first = Some(S::first_key(pair));
        }
        self.count += 1;
        self.leaf_bytes += bytes;
        Ok(())
    }

    /// The pairs of a bucket that is so small that it has no page.
    pub(super) fn inline_count(&self) -> Option<u16> {
        (self.levels.is_empty() && self.leaf_bytes <= MAX_INLINE_BYTES).then_some(self.count)
    }

    /// Writes what is left. Returns the root.
    ///
    /// # Errors
    /// Those of the sink.
    pub(super) fn finish<S: PageSink<Key = K>>(
        mut self,
        (sink, numbers): (&mut S, &mut PageNumbers),
    ) -> Result<u64, WriteError> {
        if self.levels.is_empty() {
            let (page, overflow) = numbers.take(self.leaf_bytes);
            sink.leaf(page, self.count, overflow)?;
            return Ok(page);
        }
        self.end_leaf(sink, numbers)?;
        let mut level = 0;
        loop {
            if let (true, [root]) = (level + 1 == self.levels.len(), &self.levels[level].children[..]) {
                return Ok(root.page);
            }
            while !self.levels[level].children.is_empty() {
                let count = self.levels[level].next_branch(S::key_bytes);
                self.end_branch(sink, numbers, level, count)?;
            }
            level += 1;
        }
    }

    fn end_leaf<S: PageSink<Key = K>>(
        &mut self,
        sink: &mut S,
        numbers: &mut PageNumbers,
    ) -> Result<(), WriteError> {
        let (page, overflow) = numbers.take(self.leaf_bytes);
        sink.leaf(page, self.count, overflow)?;
        let first = self.first.take();
        (self.leaf_bytes, self.count) = (PAGE_HEADER_BYTES as u64, 0);
        first.map_or(Ok(()), |first| self.add_child(sink, numbers, 0, Child { first, page }))
    }

    /// Adds a page to a level, and writes a branch if enough wait there.
    fn add_child<S: PageSink<Key = K>>(
        &mut self,
        sink: &mut S,
        numbers: &mut PageNumbers,
        level: usize,
        child: Child<K>,
    ) -> Result<(), WriteError> {
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        let waiting = &mut self.levels[level];
        waiting.bytes += child_bytes::<S>(&child);
        waiting.children.push(child);
        match waiting.full_branch(child_bytes::<S>) {
            Some(count) => self.end_branch(sink, numbers, level, count),
            None => Ok(()),
        }
    }

    /// The first `count` children of a level become a branch, which is a child at the next level.
    fn end_branch<S: PageSink<Key = K>>(
        &mut self,
        sink: &mut S,
        numbers: &mut PageNumbers,
        level: usize,
        count: usize,
    ) -> Result<(), WriteError> {
        let children: Vec<Child<K>> = self.levels[level].children.drain(..count).collect();
        let bytes: u64 = children.iter().map(child_bytes::<S>).sum();
        self.levels[level].bytes -= bytes;
        let (page, overflow) = numbers.take(PAGE_HEADER_BYTES as u64 + bytes);
        sink.branch(page, overflow, &children)?;
        let first = children.into_iter().next();
        first.map_or(Ok(()), |child| {
            self.add_child(sink, numbers, level + 1, Child { first: child.first, page })
        })
    }
}

/// Bytes of a child in its parent.
fn child_bytes<S: PageSink>(child: &Child<S::Key>) -> u64 {
    (ELEMENT_BYTES + S::key_bytes(&child.first)) as u64
}

impl<K> Level<K> {
    /// How many children become a branch, if more wait than fit into one and must be left over.
    fn full_branch(&self, bytes_of: impl Fn(&Child<K>) -> u64) -> Option<usize> {
        let count = self.children.len().checked_sub(MIN_WAITING).filter(|count| *count >= 2)?;
        let left: u64 = self.children[count + 1..].iter().map(bytes_of).sum();
        (PAGE_HEADER_BYTES as u64 + self.bytes - left > PAGE_BYTES).then_some(count)
    }

    /// How many children the next branch has, when no more come: two at least, and not all but one.
    fn next_branch(&self, key_bytes: impl Fn(&K) -> usize) -> usize {
        let mut bytes = PAGE_HEADER_BYTES;
        let fitting = self.children.iter().take_while(|child| {
            bytes += ELEMENT_BYTES + key_bytes(&child.first);
            bytes as u64 <= PAGE_BYTES
        });
        let count = fitting.count().max(2).min(self.children.len());
        match self.children.len() - count {
            1 if count > 2 => count - 1,
            1 => self.children.len(),
            _ => count,
        }
    }
}
