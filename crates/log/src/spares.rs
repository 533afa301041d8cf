//! Spare segments: prepared ahead, off the hot path, out of recycled files when there are any.
//!
//! One spare is the next segment; the others are the reserve that lets raft, deletes and compaction go on
//! when the disk is full. Numbers only grow along the log, so a spare that was overtaken is recycled under a
//! new number.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::files::ValueFile;

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

pub(crate) struct Spare {
    pub(crate) file: Arc<ValueFile>,
    /// Blocks up to here have been written before.
    pub(crate) zeroed: u64,
    /// A job is zeroing it: it must not be written meanwhile.
    pub(crate) busy: bool,
}

impl Spare {
    fn can_follow(&self, newest: Option<u32>) -> bool {
        !self.busy && newest.is_none_or(|newest| self.file.number > newest)
    }
}

/// The spares and what they can be made of.
#[derive(Default)]
pub(crate) struct Spares {
    /// By ascending number.
    ready: VecDeque<Spare>,
    /// Old files in the WAL directory, under their old names.
    old: Vec<PathBuf>,
    pub(crate) preparing: usize,
    /// The last preparation failed for want of space; tried again when space may have come back.
    pub(crate) full: bool,
    wanted: usize,
}

impl Spares {
    pub(crate) fn new(wanted: usize, old: Vec<PathBuf>) -> Spares {
        Spares { wanted, old, ..Spares::default() }
    }

    /// The next segment, if one is ready. It must follow `newest`.
    pub(crate) fn take(&mut self, newest: Option<u32>) -> Option<Arc<ValueFile>> {
        let at = self.ready.iter().position(|spare| spare.can_follow(newest))?;
        let taken = self.ready.remove(at).expect("it was just found").file;
        self.drop_overtaken(taken.number);
        Some(taken)
    }

    /// Spares with lower numbers than the newest segment can only be recycled.
    fn drop_overtaken(&mut self, newest: u32) {
        let (overtaken, ready): (VecDeque<Spare>, VecDeque<Spare>) = std::mem::take(&mut self.ready)
            .into_iter()
            .partition(|spare| spare.file.number < newest && !spare.busy);
        self.ready = ready;
        self.old.extend(overtaken.iter().filter_map(|spare| spare.file.path()));
    }

    pub(crate) fn add(&mut self, spare: Spare, newest: Option<u32>) {
        let at = self.ready.partition_point(|other| other.file.number < spare.file.number);
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

    pub(crate) fn take_old(&mut self) -> Option<PathBuf> {
        self.old.pop()
    }

    /// Old files beyond need.
    pub(crate) fn take_surplus(&mut self) -> Option<PathBuf> {
        if self.old.len() > self.wanted { self.old.pop() } else { None }
    }

    pub(crate) fn add_old(&mut self, path: PathBuf) {
        self.old.push(path);
    }

    /// A spare whose blocks have not all been written before.
    pub(crate) fn next_to_zero(&mut self, segment_bytes: u64) -> Option<&mut Spare> {
        self.ready.iter_mut().find(|spare| !spare.busy && spare.zeroed < segment_bytes)
    }

    pub(crate) fn zeroed(&mut self, number: u32, up_to: u64, newest: Option<u32>) {
        if let Some(spare) = self.ready.iter_mut().find(|spare| spare.file.number == number) {
            spare.busy = false;
            spare.zeroed = up_to;
        }
        self.drop_overtaken(newest.unwrap_or(0));
    }

    /// Whether nothing is missing, and the next segment can be taken at once.
    pub(crate) fn is_complete(&self, newest: Option<u32>) -> bool {
        self.ready.len() >= self.wanted && self.ready.iter().any(|spare| spare.can_follow(newest))
    }

    /// Whether the reserve is being used up and cannot be filled again.
    pub(crate) fn is_low(&self) -> bool {
        self.full && self.ready.len() < self.wanted
    }
}
