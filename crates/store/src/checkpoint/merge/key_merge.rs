//! Merges the checkpoints of a chain, or some that follow each other in it, in one pass over their keys.
//!
//! All of them list their keys in order, so the merge takes the least key that any of them has next, and applies to it
//! what each says about it, oldest first:
//!
//! ```text
//! base    a@5      b@6  c@7            d@8
//! delta   a@120         relocated c              removed d
//! delta                 c@130  (whole)
//!         a@5 a@120 | b@6 | c@130 | d: nothing      key by key
//! ```
//!
//! Nothing is looked up, and memory holds a few frames of each checkpoint. Frames are read and decoded ahead, in
//! rounds: while one task merges what was decoded in the last round, others decode what the next one needs. How the
//! work is divided into rounds and tasks has no effect on the result.

use std::cmp::Ordering;
use std::collections::VecDeque;

use bytes::Bytes;

use super::contents::{CheckpointContents, KeysReader, ListCursor};
use super::decoded_keys::{DecodedKeys, KeyWithVersions, OUT_OF_ORDER};
use crate::checkpoint::error::RestoreError;
use crate::checkpoint::header::CheckpointKind;
use crate::index::Version;
use crate::parallel::{Parallel, Task};
use crate::types::Revision;

/// A checkpoint from which nothing was merged for so many rounds is not read further ahead.
const IDLE_ROUNDS: u32 = 3;

/// What the merged checkpoints say about one key.
#[derive(Default)]
pub(in crate::checkpoint) struct MergedKey {
    pub(in crate::checkpoint) key: Vec<u8>,
    /// Whether the versions replace those from before the merged checkpoints; otherwise they follow them.
    pub(in crate::checkpoint) whole: bool,
    /// New log addresses of versions from before the merged checkpoints, oldest checkpoint first: of a version that was
    /// relocated several times the last one counts.
    pub(in crate::checkpoint) relocated: Vec<(Revision, u64)>,
    /// Oldest first.
    pub(in crate::checkpoint) versions: Vec<Version>,
}

impl MergedKey {
    fn begin(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.replace();
        self.whole = false;
    }

    /// Becomes the entry of one checkpoint alone.
    pub(in crate::checkpoint) fn set(&mut self, entry: &KeyWithVersions<'_>) {
        self.begin(entry.key);
        self.whole = entry.whole;
        self.versions.extend_from_slice(entry.versions);
    }

    /// What was before is gone.
    fn replace(&mut self) {
        self.whole = true;
        self.relocated.clear();
        self.versions.clear();
    }

    fn relocate(&mut self, revision: Revision, address: u64) {
        match self.versions.binary_search_by_key(&revision, |version| version.revision) {
            Ok(at) if self.versions[at].value.len > 0 => self.versions[at].value.address = address,
            Ok(_) => {}
            Err(_) if self.whole => {}
            Err(_) => self.relocated.push((revision, address)),
        }
    }

    fn add(&mut self, entry: &KeyWithVersions<'_>) -> Result<(), RestoreError> {
        if entry.whole {
            self.replace();
        }
        let last = self.versions.last();
        if last.is_some_and(|last| last.revision >= entry.versions[0].revision) {
            return Err(OUT_OF_ORDER);
        }
        self.versions.extend_from_slice(entry.versions);
        Ok(())
    }

    /// Drops the versions that are superseded when history is purged up to `purged`, as [`purge`](crate::purge) does.
    /// In a delta, a tombstone stays: a checkpoint before may have the key.
    pub(in crate::checkpoint) fn purge(&mut self, purged: i64, kind: CheckpointKind) {
        let until = self.versions.partition_point(|version| version.revision.main <= purged);
        let Some(newest) = until.checked_sub(1) else { return };
        let version = &self.versions[newest];
        let is_gone =
            version.is_tombstone() && version.revision.main < purged && kind == CheckpointKind::Base;
        self.versions.drain(..if is_gone { until } else { newest });
        self.whole = true;
        self.relocated.clear();
    }
}

/// One checkpoint, as far as it is merged.
struct MergeSource<I> {
    removed: ListCursor<I>,
    relocated: ListCursor<I>,
    /// Decoded frames, with the bytes that each had in the file.
    frames: VecDeque<(DecodedKeys, usize)>,
    /// The position in the first of them.
    at: usize,
    /// Bytes of all of them.
    bytes: usize,
    /// Whether no more frames will come.
    is_last: bool,
    /// Rounds since something was merged from it.
    idle_rounds: u32,
}

impl<I: Iterator<Item = Bytes>> MergeSource<I> {
    fn entry(&self) -> Option<KeyWithVersions<'_>> {
        self.frames.front().map(|(frame, _)| frame.entry(self.at))
    }

    /// The next key about which it says anything.
    fn key(&self) -> Option<&[u8]> {
        let entry = self.entry().map(|entry| entry.key);
        let removed = self.removed.head().map(|head| &head.key[..]);
        let relocated = self.relocated.head().map(|head| &head.key[..]);
        match (removed, relocated) {
            (None, None) => entry,
            lists => [entry, lists.0, lists.1].into_iter().flatten().min(),
        }
    }

    /// Whether its next key is not known before frames are read.
    fn is_dry(&self) -> bool {
        self.frames.is_empty() && !self.is_last
    }

    /// Applies what it says about the key, and goes to the next.
    fn apply(&mut self, merged: &mut MergedKey) -> Result<(), RestoreError> {
        self.idle_rounds = 0;
        while self.removed.head().is_some_and(|head| head.key == merged.key) {
            merged.replace();
            self.removed.advance()?;
        }
        while let Some(head) = self.relocated.head().filter(|head| head.key == merged.key) {
            merged.relocate(head.relocated.0, head.relocated.1);
            self.relocated.advance()?;
        }
        if let Some(entry) = self.entry().filter(|entry| entry.key == merged.key) {
            merged.add(&entry)?;
            self.advance();
        }
        Ok(())
    }

    fn advance(&mut self) {
        self.at += 1;
        if let Some((_, bytes)) = self.frames.pop_front_if(|(frame, _)| frame.len() == self.at) {
            self.bytes -= bytes;
            self.at = 0;
        }
    }

    fn add_frames(&mut self, frames: Vec<(DecodedKeys, usize)>) {
        let frames = frames.into_iter().filter(|(frame, _)| frame.len() > 0);
        for (frame, bytes) in frames {
            self.bytes += bytes;
            self.frames.push_back((frame, bytes));
        }
    }
}

/// What a step of a merge came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checkpoint) enum MergeStep {
    /// The next key is merged.
    Key,
    /// A checkpoint has no decoded frame left: others must be read first.
    Dry,
    /// There are no more keys.
    End,
}

/// The checkpoints being merged, and their order by their next keys.
struct Merger<I> {
    sources: Vec<MergeSource<I>>,
    /// Sources by descending next key and age, so that the next one is the last here: the first bytes of its key, its
    /// number. Those without a next key are not here.
    order: Vec<(u64, usize)>,
    /// Sources that are to be put into the order.
    unplaced: Vec<usize>,
    merged: MergedKey,
    /// Whether a key was merged.
    has_begun: bool,
}

impl<I: Iterator<Item = Bytes>> Merger<I> {
    /// Merges the next key.
    fn step(&mut self) -> Result<MergeStep, RestoreError> {
        while let Some(source) = self.unplaced.last() {
            if self.sources[*source].is_dry() {
                return Ok(MergeStep::Dry);
            }
            let source = *source;
            self.unplaced.pop();
            self.put_in_order(source)?;
        }
        let Some((first_bytes, first)) = self.order.pop() else { return Ok(MergeStep::End) };
        self.has_begun = true;
        let Merger { sources, order, unplaced, merged, .. } = self;
        merged.begin(sources[first].key().expect("a source in the order has a key"));
        sources[first].apply(merged)?;
        unplaced.push(first);
        while let Some((_, next)) = order
            .pop_if(|(bytes, next)| *bytes == first_bytes && sources[*next].key() == Some(&merged.key[..]))
        {
            sources[next].apply(merged)?;
            unplaced.push(next);
        }
        Ok(MergeStep::Key)
    }

    /// Puts a source into the order.
    fn put_in_order(&mut self, source: usize) -> Result<(), RestoreError> {
        let Some(key) = self.sources[source].key() else { return Ok(()) };
        if self.has_begun && self.merged.key.as_slice() >= key {
            return Err(OUT_OF_ORDER);
        }
        let own = (beginning(key), source);
        let is_later = |other: &(u64, usize)| {
            let by_key = || self.sources[other.1].key().cmp(&Some(key));
            let order = other.0.cmp(&own.0).then_with(by_key).then(other.1.cmp(&source));
            order == Ordering::Greater
        };
        let at = match self.order.last().is_none_or(is_later) {
            true => self.order.len(),
            false => self.order.partition_point(is_later),
        };
        self.order.insert(at, own);
        Ok(())
    }
}

/// The first bytes of a key as a number that orders keys as they do, but for equal ones.
fn beginning(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// A merge of checkpoints that follow each other.
pub(in crate::checkpoint) struct Merge<I> {
    readers: Vec<KeysReader<I>>,
    merger: Merger<I>,
    /// Bytes of frames that are decoded in a round, for all checkpoints together.
    round_bytes: usize,
}

impl<I: Iterator<Item = Bytes> + Clone + Send> Merge<I> {
    /// Merges checkpoints of these contents, in rounds of `round_bytes`.
    pub(in crate::checkpoint) fn new(contents: Vec<CheckpointContents<I>>, round_bytes: usize) -> Merge<I> {
        let unplaced = (0..contents.len()).collect();
        let (mut readers, mut sources) = (Vec::new(), Vec::new());
        for CheckpointContents { removed, relocated, keys, .. } in contents {
            readers.push(keys);
            let frames = VecDeque::new();
            let (at, bytes, is_last, idle_rounds) = (0, 0, false, 0);
            sources.push(MergeSource { removed, relocated, frames, at, bytes, is_last, idle_rounds });
        }
        let merged = MergedKey::default();
        let merger = Merger { sources, order: Vec::new(), unplaced, merged, has_begun: false };
        Merge { readers, merger, round_bytes }
    }

    /// Merges the next key, reading on the caller's thread what is needed; `None` behind the last.
    pub(in crate::checkpoint) fn next(&mut self) -> Result<Option<&mut MergedKey>, RestoreError> {
        loop {
            match self.merger.step()? {
                MergeStep::Key => return Ok(Some(&mut self.merger.merged)),
                MergeStep::End => return Ok(None),
                MergeStep::Dry => {
                    self.plan_reads();
                    self.readers.iter_mut().filter(|reader| reader.wanted > 0).for_each(KeysReader::read);
                    self.take_frames()?;
                }
            }
        }
    }

    /// Merges all keys, in rounds of parallel tasks; calls `visit` with each, in order.
    pub(in crate::checkpoint) fn run(
        mut self,
        parallel: &dyn Parallel,
        visit: &mut (dyn FnMut(&mut MergedKey) -> Result<(), RestoreError> + Send),
    ) -> Result<(), RestoreError> {
        loop {
            self.plan_reads();
            let mut step = Ok(MergeStep::Dry);
            let Merge { readers, merger, .. } = &mut self;
            let mut due: Vec<_> = readers.iter_mut().filter(|reader| reader.wanted > 0).collect();
            let others = due.len().div_ceil(parallel.width().saturating_sub(1).max(1)).max(1);
            let mut tasks: Vec<Task<'_>> = Vec::new();
            for some in due.chunks_mut(others) {
                tasks.push(Box::new(|| some.iter_mut().for_each(|reader| reader.read())));
            }
            tasks.push(Box::new(|| step = merger.merge_all(visit)));
            parallel.run(tasks);
            if step? == MergeStep::End {
                return Ok(());
            }
            self.take_frames()?;
        }
    }

    /// Decides how much of each checkpoint is to be read next.
    fn plan_reads(&mut self) {
        let sources = &mut self.merger.sources;
        let is_active = |source: &MergeSource<I>| {
            !source.is_last && (source.frames.is_empty() || source.idle_rounds < IDLE_ROUNDS)
        };
        let active = sources.iter().filter(|source| is_active(source)).count();
        let share = self.round_bytes / active.max(1);
        for (source, reader) in sources.iter_mut().zip(&mut self.readers) {
            reader.wanted = if is_active(source) && source.bytes <= share { share.max(1) } else { 0 };
            source.idle_rounds += 1;
        }
    }

    /// Gives what was read to the sources.
    fn take_frames(&mut self) -> Result<(), RestoreError> {
        for (source, reader) in self.merger.sources.iter_mut().zip(&mut self.readers) {
            let batch = reader.take()?;
            source.is_last |= batch.is_last;
            source.add_frames(batch.frames);
        }
        Ok(())
    }
}

impl<I: Iterator<Item = Bytes>> Merger<I> {
    /// Merges keys until a source is dry.
    fn merge_all(
        &mut self,
        visit: &mut (dyn FnMut(&mut MergedKey) -> Result<(), RestoreError> + Send),
    ) -> Result<MergeStep, RestoreError> {
        loop {
            match self.step()? {
                MergeStep::Key => visit(&mut self.merged)?,
                step => return Ok(step),
            }
        }
    }
}
