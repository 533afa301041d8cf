//! Loading a file: buckets in order, pairs in order. The layout and the writer do the same here.

use super::MAX_VALUE_BYTES;
use super::sink::PageSink;
use super::tree::{PageNumbers, Tree};
use crate::error::WriteError;
use crate::format::{BUCKET_BYTES, BUCKET_FLAG, MAX_KEY_BYTES};

/// A file that is being loaded into a sink.
pub(super) struct Load<S: PageSink> {
    sink: S,
    numbers: PageNumbers,
    /// The records of the root bucket so far: names and values.
    buckets: Vec<(String, Vec<u8>)>,
    /// The bucket being filled.
    current: Option<(String, Tree<S::Key>)>,
}

/// A file that was loaded: the sink, the page of its root bucket, and how many pages it has.
pub(super) struct Loaded<S> {
    pub(super) sink: S,
    pub(super) root: u64,
    pub(super) pages: u64,
}

impl<S: PageSink> Load<S> {
    pub(super) fn into(sink: S) -> Load<S> {
        Load { sink, numbers: PageNumbers::default(), buckets: Vec::new(), current: None }
    }

    /// Begins a bucket.
    ///
    /// # Errors
    /// [`WriteError::Order`], [`WriteError::KeyLength`], and those of the sink.
    pub(super) fn bucket(&mut self, name: &str) -> Result<(), WriteError> {
        self.end_bucket()?;
        check_lengths(name.len(), 0)?;
        if self.buckets.last().is_some_and(|(before, _)| before.as_str() >= name) {
            return Err(WriteError::Order("the names of buckets"));
        }
        self.sink.begin_bucket();
        self.current = Some((name.to_owned(), Tree::default()));
        Ok(())
    }

    /// Adds a pair to the bucket.
    ///
    /// # Errors
    /// [`WriteError::NoBucket`], [`WriteError::KeyLength`], [`WriteError::ValueLength`], and those of the sink.
    pub(super) fn pair(&mut self, pair: S::Pair<'_>) -> Result<(), WriteError> {
        let (_, tree) = self.current.as_mut().ok_or(WriteError::NoBucket)?;
        let (key, value) = S::lengths(pair);
        check_lengths(key, value)?;
        tree.add((&mut self.sink, &mut self.numbers), 0, pair)
    }

    /// Writes the root bucket.
    ///
    /// # Errors
    /// Those of the sink.
    pub(super) fn finish(mut self) -> Result<Loaded<S>, WriteError> {
        self.end_bucket()?;
        self.sink.begin_bucket();
        let mut root = Tree::default();
        for (name, value) in &self.buckets {
            root.add((&mut self.sink, &mut self.numbers), BUCKET_FLAG, S::pair(name.as_bytes(), value))?;
        }
        let root = root.finish((&mut self.sink, &mut self.numbers))?;
        Ok(Loaded { sink: self.sink, root, pages: self.numbers.end() })
    }

    fn end_bucket(&mut self) -> Result<(), WriteError> {
        let Some((name, tree)) = self.current.take() else { return Ok(()) };
        let value = match tree.inline_count() {
            Some(count) => {
                let mut value = vec![0; BUCKET_BYTES];
                value.extend(self.sink.inline_leaf(count));
                value
            }
            None => {
                let root = tree.finish((&mut self.sink, &mut self.numbers))?;
                let mut value = root.to_le_bytes().to_vec();
                value.resize(BUCKET_BYTES, 0);
                value
            }
        };
        self.buckets.push((name, value));
        Ok(())
    }
}

fn check_lengths(key: usize, value: usize) -> Result<(), WriteError> {
    match (key, value) {
        (1..=MAX_KEY_BYTES, 0..=MAX_VALUE_BYTES) => Ok(()),
        (1..=MAX_KEY_BYTES, _) => Err(WriteError::ValueLength(value)),
        _ => Err(WriteError::KeyLength(key)),
    }
}
