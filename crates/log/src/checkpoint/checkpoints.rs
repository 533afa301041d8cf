//! The owner's view of its checkpoints: the chain on disk, and the checkpoints that are being written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::manifest::{CheckpointKind, Manifest, ManifestLink};
use super::reader::{Checkpoint, CheckpointFile};
use super::reserve::{CheckpointReserve, ReserveDone, ReserveJob};
use super::writer::{ChainPosition, CheckpointDone, CheckpointWriter};
use crate::error::JobError;
use crate::segments::{FileNumbers, SegmentFactory};
use crate::types::LogId;

/// The chain of checkpoints.
pub(crate) struct Checkpoints {
    factory: SegmentFactory,
    numbers: FileNumbers,
    /// The manifest on disk. A writer holds the lock while it replaces the manifest; the owner never takes it.
    manifest: Arc<Mutex<Manifest>>,
    /// The owner's copy of the chain.
    chain: Vec<ManifestLink>,
    /// Bytes of the base, and of all deltas, of that chain.
    bytes: (u64, u64),
    /// Of each running checkpoint, by file number: the files without a reference when it began.
    begun: BTreeMap<u32, Vec<u32>>,
    reserve: CheckpointReserve,
}

/// What changes when a checkpoint is done.
pub(crate) struct CheckpointEffects {
    /// Files that can be removed.
    pub(crate) removable: Vec<PathBuf>,
    /// If the checkpoint is durable, the files without a reference when it began.
    pub(crate) result: Result<Vec<u32>, JobError>,
}

impl Checkpoints {
    pub(crate) fn new(factory: SegmentFactory, numbers: FileNumbers, manifest: Manifest) -> Checkpoints {
        let chain = manifest.chain.clone();
        let (manifest, bytes) = (Arc::new(Mutex::new(manifest)), chain_bytes(&chain));
        let reserve = CheckpointReserve::new(factory.clone());
        Checkpoints { factory, numbers, manifest, chain, bytes, begun: BTreeMap::new(), reserve }
    }

    /// The newest durable checkpoint, for reading.
    pub(crate) fn newest(&self) -> Option<Checkpoint> {
        Checkpoint::of_chain(&self.factory, &self.chain)
    }

    /// Index and term of the newest durable checkpoint.
    pub(crate) fn newest_id(&self) -> Option<LogId> {
        self.chain.last().map(|link| link.id)
    }

    /// Index of the newest durable checkpoint; 0 if there is none.
    pub(crate) fn newest_index(&self) -> u64 {
        self.newest_id().map_or(0, |id| id.index)
    }

    /// Bytes of the base, and of all deltas.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        self.bytes
    }

    /// Begins a checkpoint of the state after applying `id`. `unreferenced` are the files without a reference now.
    pub(crate) fn begin(
        &mut self,
        kind: CheckpointKind,
        id: LogId,
        unreferenced: Vec<u32>,
    ) -> CheckpointWriter {
        let position = match (kind, self.chain.last()) {
            (CheckpointKind::Base, _) => ChainPosition::Whole,
            (CheckpointKind::Delta, last) => {
                ChainPosition::Behind(last.expect("a delta needs a checkpoint before it").number)
            }
        };
        let number = self.numbers.next();
        self.begun.insert(number, unreferenced);
        let reserve = Some(self.reserve.lend(self.last_delta_bytes()));
        CheckpointWriter::new(&self.factory, &self.manifest, reserve, (number, kind, id), position)
    }

    /// Begins a checkpoint in place of these, by their positions in the chain. Returns them, for reading. It frees no
    /// file of the log, and does not use the reserve.
    pub(crate) fn begin_merge(&mut self, merged: Range<usize>) -> (CheckpointWriter, Checkpoint) {
        let kind = self.chain[merged.start].kind;
        let links = &self.chain[merged];
        let checkpoint = Checkpoint::of_chain(&self.factory, links).expect("one at least is merged");
        let position = ChainPosition::InPlaceOf(links.iter().map(|link| link.number).collect());
        let number = self.numbers.next();
        let link = (number, kind, checkpoint.id);
        (CheckpointWriter::new(&self.factory, &self.manifest, None, link, position), checkpoint)
    }

    /// Where the chain has the file of this number.
    pub(crate) fn position(&self, number: u32) -> Option<usize> {
        self.chain.iter().position(|link| link.number == number)
    }

    /// The file at a position of the chain.
    pub(crate) fn file(&self, position: usize) -> Option<CheckpointFile> {
        self.chain.get(position).map(|link| CheckpointFile::new(&self.factory, *link))
    }

    /// The length of each checkpoint of the chain, base first.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u64> + '_ {
        self.chain.iter().map(|link| link.length)
    }

    /// Takes the result of a checkpoint. If it failed, the chain stays as it was.
    pub(crate) fn done(&mut self, done: CheckpointDone) -> CheckpointEffects {
        // A merge was not noted here: it has nothing to do with the reserve, nor with files of the log.
        let begun = self.begun.remove(&done.number);
        if begun.is_some() {
            let was_full = done.result.as_ref().is_err_and(JobError::is_full);
            self.reserve.checkpoint_ended(done.gave_up_reserve, was_full);
        }
        let unreferenced = begun.unwrap_or_default();
        let mut removable: Vec<PathBuf> = done.leftover.into_iter().collect();
        let result = done.result.map(|chain| {
            removable.extend(self.replace_chain(chain));
            unreferenced
        });
        CheckpointEffects { removable, result }
    }

    /// Plans to make the reserve for checkpoints on a full disk, if it is missing and none is being written.
    pub(crate) fn next_reserve(&mut self) -> Option<ReserveJob> {
        let last_delta = self.last_delta_bytes();
        if self.begun.is_empty() { self.reserve.next_job(last_delta) } else { None }
    }

    /// Takes the result of making the reserve.
    pub(crate) fn reserved(&mut self, done: ReserveDone) -> Result<(), JobError> {
        self.reserve.made(done)
    }

    /// Bytes of the newest checkpoint, if it is a delta.
    fn last_delta_bytes(&self) -> u64 {
        let last = self.chain.last().filter(|link| link.kind == CheckpointKind::Delta);
        last.map_or(0, |link| link.length)
    }

    /// Replaces the chain and returns the files that it does not name any more.
    fn replace_chain(&mut self, chain: Vec<ManifestLink>) -> Vec<PathBuf> {
        let old = std::mem::replace(&mut self.chain, chain);
        self.bytes = chain_bytes(&self.chain);
        let is_gone = |old: &&ManifestLink| !self.chain.iter().any(|link| link.number == old.number);
        old.iter().filter(is_gone).map(|link| link.path(&self.factory.layout)).collect()
    }

    /// Walks the chain: one base, then deltas, at ascending entries.
    pub(crate) fn check_all(&self) {
        let is_base = |link: &ManifestLink| link.kind == CheckpointKind::Base;
        assert!(self.chain.iter().skip(1).all(|link| !is_base(link)), "deltas follow the base");
        assert!(self.chain.first().is_none_or(is_base), "a chain begins with a base");
        assert!(self.chain.iter().is_sorted_by_key(|link| link.id.index), "checkpoints ascend");
        assert!(self.bytes == chain_bytes(&self.chain), "the bytes of the chain are counted");
    }
}

/// Bytes of the base, and of all deltas.
fn chain_bytes(chain: &[ManifestLink]) -> (u64, u64) {
    let (mut base, mut deltas) = (0, 0);
    for link in chain {
        match link.kind {
            CheckpointKind::Base => base += link.length,
            CheckpointKind::Delta => deltas += link.length,
        }
    }
    (base, deltas)
}
