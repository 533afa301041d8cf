//! Checkpoints: the state machine's small state at an applied index, in files of opaque chunks.
//!
//! A *base* is whole; a *delta* holds what changed since the checkpoint before it. The manifest names one
//! base and the deltas after it, and nothing else counts: replacing the manifest is the commit point, a file
//! it does not name is unfinished or superseded and goes away. `docs/internals/checkpoint.md` has the formats
//! to the byte.

mod manifest;
mod source;
mod writer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) use manifest::{Link, Manifest};
pub use source::{Checkpoint, Chunk, Chunks};
pub use writer::{CheckpointDone, CheckpointWriter};

use crate::error::JobError;
use crate::log::Log;
use crate::prepare::SegmentFactory;
use crate::types::LogId;

/// Largest chunk, so that a reader knows what it may have to allocate.
pub const MAX_CHUNK_BYTES: usize = 16 << 20;

/// What a checkpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CheckpointKind {
    /// Everything.
    Base = 1,
    /// What changed since the checkpoint before.
    Delta = 2,
}

impl CheckpointKind {
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            CheckpointKind::Base => "base",
            CheckpointKind::Delta => "delta",
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<CheckpointKind> {
        match byte {
            1 => Some(CheckpointKind::Base),
            2 => Some(CheckpointKind::Delta),
            _ => None,
        }
    }
}

/// The owner's view of its checkpoints.
pub(crate) struct Checkpoints {
    /// What the manifest on disk says; whoever replaces it holds the lock. The owner never takes it.
    pub(crate) manifest: Arc<Mutex<Manifest>>,
    /// The owner's copy of the chain.
    pub(crate) chain: Vec<Link>,
    /// Files without a reference when each running checkpoint was begun.
    begun: BTreeMap<u32, Vec<u32>>,
}

impl Checkpoints {
    pub(crate) fn new(manifest: Manifest) -> Checkpoints {
        let chain = manifest.chain.clone();
        Checkpoints { manifest: Arc::new(Mutex::new(manifest)), chain, begun: BTreeMap::new() }
    }

    /// Where to read the newest checkpoint, if there is one.
    pub(crate) fn source(&self, workshop: &SegmentFactory) -> Option<Checkpoint> {
        let newest = self.chain.last()?;
        Some(Checkpoint {
            id: newest.id,
            disk: workshop.disk.clone(),
            layout: workshop.layout.clone(),
            identity: workshop.identity,
            links: self.chain.clone(),
        })
    }
}

impl Log {
    /// Begins a checkpoint of the state after applying `id`, without I/O. The references it will hold must be
    /// those that are retained now, or newer ones: files that nobody references now are freed when it is
    /// done.
    pub fn begin_checkpoint(&mut self, kind: CheckpointKind, id: LogId) -> CheckpointWriter {
        let parent = self.checkpoints.chain.last().map(|link| link.number);
        assert!(kind == CheckpointKind::Base || parent.is_some(), "a delta needs a checkpoint before it");
        let number = self.numbers.next();
        self.checkpoints.begun.insert(number, self.without_references(id.index));
        let parent = if kind == CheckpointKind::Delta { parent } else { None };
        CheckpointWriter::new(&self.workshop, &self.checkpoints.manifest, number, kind, id, parent)
    }

    /// Takes in what became of a checkpoint. If it failed, the one before is still good.
    pub fn checkpoint_done(&mut self, done: CheckpointDone) -> Result<(), JobError> {
        let unreferenced = self.take_checkpoint(done)?;
        self.unreferenced.extend(unreferenced);
        self.retire_unreferenced();
        Ok(())
    }

    /// Adopts a durable checkpoint and returns the files that were without a reference when it was begun.
    pub(crate) fn take_checkpoint(&mut self, done: CheckpointDone) -> Result<Vec<u32>, JobError> {
        let unreferenced = self.checkpoints.begun.remove(&done.number).unwrap_or_default();
        self.removable.extend(done.leftover);
        let chain = done.result?;
        self.adopt_chain(chain);
        Ok(unreferenced)
    }

    /// Index and term of the newest durable checkpoint.
    pub fn checkpoint_id(&self) -> Option<LogId> {
        self.checkpoints.chain.last().map(|link| link.id)
    }

    /// Bytes of the base and of all deltas, to decide when a new base is due.
    pub fn checkpoint_bytes(&self) -> (u64, u64) {
        let (mut base, mut deltas) = (0, 0);
        for link in &self.checkpoints.chain {
            match link.kind {
                CheckpointKind::Base => base += link.length,
                CheckpointKind::Delta => deltas += link.length,
            }
        }
        (base, deltas)
    }

    /// How many deltas follow the base: each is a file to be read at the next start.
    pub fn checkpoint_deltas(&self) -> usize {
        self.checkpoints.chain.len().saturating_sub(1)
    }

    pub(crate) fn adopt_chain(&mut self, chain: Vec<Link>) {
        let layout = &self.workshop.layout;
        let gone =
            self.checkpoints.chain.iter().filter(|old| !chain.iter().any(|new| new.number == old.number));
        let paths: Vec<PathBuf> = gone.map(|link| link.path(layout)).collect();
        self.removable.extend(paths);
        self.checkpoints.chain = chain;
    }
}
