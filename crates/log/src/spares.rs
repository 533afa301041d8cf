//! Spare segments: prepared ahead, off the hot path, out of recycled files when there are any.
//!
//! One spare is the next segment; the others are the reserve that lets raft, deletes and compaction go on
//! when the disk is full. Numbers only grow along the log, so a spare that was overtaken is recycled under a
//! new number.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::files::ValueFile;
use crate::prepare::Used;

/// Hands out file numbers; shared with jobs that make files.
#[derive(Clone)]
pub(crate) struct Numbers(Arc<AtomicU32>);

impl Numbers {
    pub(crate) fn after(last: u32) -> Numbers {
        Numbers(Arc::new(AtomicU32::new(last + 1)))
    }

    pub(crate) fn next(&self) -> u32 {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(number < u32::MAX, "four billion files were used up");
        number
    }
}

fn can_follow(spare: &ValueFile, newest: Option<u32>) -> bool {
    newest.is_none_or(|newest| spare.number > newest)
}

/// The spares and what they can be made of.
#[derive(Default)]
pub(crate) struct PreallocatedSegments {
    /// By ascending number.
    ready: VecDeque<Arc<ValueFile>>,
    /// Old files in the WAL directory, under their old names.
    old: Vec<Used>,
    pub(crate) preparing: usize,
    /// The last preparation failed for want of space; tried again when space may have come back.
    pub(crate) full: bool,
    wanted: usize,
}

impl PreallocatedSegments {
    pub(crate) fn new(wanted: usize, old: Vec<Used>) -> PreallocatedSegments {
        PreallocatedSegments { wanted, old, ..PreallocatedSegments::default() }
    }

    /// The next segment, if one is ready. It must follow `newest`.
    pub(crate) fn take(&mut self, newest: Option<u32>) -> Option<Arc<ValueFile>> {
        let at = self.ready.iter().position(|spare| can_follow(spare, newest))?;
        let taken = self.ready.remove(at).expect("it was just found");
        self.drop_overtaken(taken.number);
        Some(taken)
    }

    /// PreallocatedSegments with lower numbers than the newest segment can only be recycled.
    fn drop_overtaken(&mut self, newest: u32) {
        while let Some(overtaken) = self.ready.pop_front_if(|spare| spare.number < newest) {
            let written = overtaken.written();
            self.old.extend(overtaken.path().map(|path| Used { path, written }));
        }
    }

    pub(crate) fn add(&mut self, spare: Arc<ValueFile>, newest: Option<u32>) {
        let at = self.ready.partition_point(|other| other.number < spare.number);
        self.ready.insert(at, spare);
        self.drop_overtaken(newest.unwrap_or(0));
    }

    pub(crate) fn wants_more(&self) -> bool {
        self.ready.len() + self.preparing < self.wanted && !self.full
    }

    /// Whether old files would be of use.
    pub(crate) fn wants_old(&self) -> bool {
        self.ready.len() + self.preparing + self.old.len() < self.wanted
    }

    pub(crate) fn take_old(&mut self) -> Option<Used> {
        self.old.pop()
    }

    /// Old files beyond need.
    pub(crate) fn take_surplus(&mut self) -> Option<Used> {
        if self.old.len() > self.wanted { self.old.pop() } else { None }
    }

    pub(crate) fn add_old(&mut self, old: Used) {
        self.old.push(old);
    }

    /// Whether nothing is missing, and the next segment can be taken at once.
    pub(crate) fn is_complete(&self, newest: Option<u32>) -> bool {
        self.ready.len() >= self.wanted && self.ready.iter().any(|spare| can_follow(spare, newest))
    }

    /// Whether the reserve is being used up and cannot be filled again.
    pub(crate) fn is_low(&self) -> bool {
        self.full && self.ready.len() < self.wanted
    }
}
