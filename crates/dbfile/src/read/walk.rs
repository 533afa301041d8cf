//! A walk over the pairs of a bucket.

use super::node::{Element, Problem, TreeNode, root_of};
use super::pages::FilePages;
use super::source::ReadAt;
use crate::error::ReadError;

/// The deepest tree that is read; bbolt's have a handful of levels.
const MAX_DEPTH: usize = 64;

/// A key and its value.
pub type RawPair<'a> = (&'a [u8], &'a [u8]);

/// The pairs of a bucket, in order.
pub struct BucketWalk<'a, R> {
    pages: &'a FilePages<R>,
    /// The path to the next element: each page with the number of the element that comes next there.
    path: Vec<(TreeNode, usize)>,
    /// Pages read so far.
    read: u64,
    last_key: Vec<u8>,
}

impl<'a, R: ReadAt> BucketWalk<'a, R> {
    /// The records of the root bucket, which are the buckets.
    pub(super) fn of_root(pages: &'a FilePages<R>, root: u64) -> Result<BucketWalk<'a, R>, ReadError> {
        let mut walk = BucketWalk { pages, path: Vec::new(), read: 0, last_key: Vec::new() };
        walk.descend(root)?;
        Ok(walk)
    }

    /// The pairs of the bucket with this head.
    pub(super) fn of_bucket(pages: &'a FilePages<R>, head: &[u8]) -> Result<BucketWalk<'a, R>, ReadError> {
        let damaged = |problem| ReadError::Page { page: 0, problem };
        match root_of(head).map_err(damaged)? {
            Ok(root) => BucketWalk::of_root(pages, root),
            Err(leaf) => Ok(BucketWalk { pages, path: vec![(leaf, 0)], read: 0, last_key: Vec::new() }),
        }
    }

    /// The next pair; `None` after the last.
    ///
    /// # Errors
    /// [`ReadError::Page`], [`ReadError::Source`]. The walk must not go on.
    pub fn next_pair(&mut self) -> Result<Option<RawPair<'_>>, ReadError> {
        self.next_record(|element| match element {
            Element::Pair(key, value) => Ok((key, value)),
            Element::Bucket(..) | Element::Child(_) => Err("a bucket of pairs holds a bucket"),
        })
    }

    /// The name and head of the next bucket, of a walk over the root bucket.
    pub(super) fn next_bucket(&mut self) -> Result<Option<RawPair<'_>>, ReadError> {
        self.next_record(|element| match element {
            Element::Bucket(name, head) => Ok((name, head)),
            Element::Pair(..) | Element::Child(_) => Err("the root bucket holds a pair"),
        })
    }

    fn next_record<'w>(
        &'w mut self,
        wanted: impl FnOnce(Element<'w>) -> Result<RawPair<'w>, Problem>,
    ) -> Result<Option<RawPair<'w>>, ReadError> {
        let Some(number) = self.seek_record()? else { return Ok(None) };
        let BucketWalk { path, last_key, .. } = self;
        let Some((leaf, _)) = path.last() else { return Ok(None) };
        let damaged = |problem| ReadError::Page { page: leaf.page(), problem };
        let Some(element) = leaf.element(number).map_err(damaged)? else { return Ok(None) };
        let (key, value) = wanted(element).map_err(damaged)?;
        if last_key.as_slice() >= key {
            return Err(damaged("its keys do not ascend"));
        }
        last_key.clear();
        last_key.extend_from_slice(key);
        Ok(Some((key, value)))
    }

    /// Goes to the leaf that has the next record, and returns the record's number there; `None` after the last.
    fn seek_record(&mut self) -> Result<Option<usize>, ReadError> {
        loop {
            let Some((node, next)) = self.path.last_mut() else { return Ok(None) };
            let page = node.page();
            let number = *next;
            *next += 1;
            match node.element(number).map_err(|problem| ReadError::Page { page, problem })? {
                None => drop(self.path.pop()),
                Some(Element::Child(child)) => self.descend(child)?,
                Some(_) => return Ok(Some(number)),
            }
        }
    }

    fn descend(&mut self, page: u64) -> Result<(), ReadError> {
        if self.path.len() == MAX_DEPTH {
            return Err(ReadError::Page { page, problem: "it lies deeper than any tree is" });
        }
        let node = self.pages.node(page)?;
        self.read = self.read.saturating_add(node.pages());
        if self.read > self.pages.count() {
            return Err(ReadError::Page { page, problem: "the page tree has a cycle" });
        }
        self.path.push((node, 0));
        Ok(())
    }
}
