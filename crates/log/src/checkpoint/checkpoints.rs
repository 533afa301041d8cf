//! The owner's view of its checkpoints: the chain on disk, and the checkpoints that are being written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::manifest::{CheckpointKind, Manifest, ManifestLink};
use super::reader::Checkpoint;
use super::reserve::{CheckpointReserve, ReserveDone, ReserveJob};
use super::writer::{CheckpointDone, CheckpointWriter};
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

    /// Number of deltas after the base.
    pub(crate) fn deltas(&self) -> usize {
        self.chain.len().saturating_sub(1)
    }

    /// Begins a checkpoint of the state after applying `id`. `unreferenced` are the files without a reference now.
    pub(crate) fn begin(
        &mut self,
        kind: CheckpointKind,
        id: LogId,
        unreferenced: Vec<u32>,
    ) -> CheckpointWriter {
        let parent = self.chain.last().map(|link| link.number);
        assert!(kind == CheckpointKind::Base || parent.is_some(), "a delta needs a checkpoint before it");
        let number = self.numbers.next();
        self.begun.insert(number, unreferenced);
        let parent = if kind == CheckpointKind::Delta { parent } else { None };
        let reserve = self.reserve.lend(self.last_delta_bytes());
        CheckpointWriter::new(&self.factory, &self.manifest, reserve, number, kind, id, parent)
    }

    /// Takes the result of a checkpoint. If it failed, the chain stays as it was.
    pub(crate) fn done(&mut self, done: CheckpointDone) -> CheckpointEffects {
        let unreferenced = self.begun.remove(&done.number).unwrap_or_default();
        let was_full = done.result.as_ref().is_err_and(JobError::is_full);
        self.reserve.checkpoint_ended(done.gave_up_reserve, was_full);
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

#[cfg(test)]
mod tests {
    //! How the chain grows, and which files it leaves behind.
    use super::*;
    use crate::checkpoint::CheckpointKind::{Base, Delta};
    use crate::testing::Parts;

    fn bench() -> (Parts, Checkpoints) {
        let parts = Parts::new().expect("an empty disk");
        let manifest = Manifest { identity: parts.factory.identity, next_number: 1, chain: Vec::new() };
        let checkpoints = Checkpoints::new(parts.factory.clone(), parts.numbers.clone(), manifest);
        (parts, checkpoints)
    }

    fn begin(checkpoints: &mut Checkpoints, kind: CheckpointKind, index: u64) -> CheckpointWriter {
        checkpoints.begin(kind, LogId { index, term: 1 }, vec![index as u32])
    }

    /// Makes a checkpoint and returns the names of the files that can be removed then.
    fn make(checkpoints: &mut Checkpoints, kind: CheckpointKind, index: u64) -> Vec<String> {
        let done = begin(checkpoints, kind, index).finish();
        let effects = checkpoints.done(done);
        assert_eq!(effects.result.expect("it is durable"), [index as u32], "what was noted when it began");
        checkpoints.check_all();
        names(&effects.removable)
    }

    fn names(paths: &[PathBuf]) -> Vec<String> {
        paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
    }

    #[test]
    fn deltas_extend_the_chain_and_a_base_replaces_it() {
        let (_, mut checkpoints) = bench();
        assert_eq!((checkpoints.newest_id(), checkpoints.newest_index(), checkpoints.deltas()), (None, 0, 0));
        assert!(make(&mut checkpoints, Base, 10).is_empty());
        assert!(make(&mut checkpoints, Delta, 20).is_empty());
        assert!(make(&mut checkpoints, Delta, 20).is_empty(), "two may be of the same entry");
        assert_eq!((checkpoints.newest_index(), checkpoints.deltas()), (20, 2));
        let (base, deltas) = checkpoints.bytes();
        assert_eq!(deltas, 2 * base, "all three are without chunks");
        let superseded = make(&mut checkpoints, Base, 30);
        assert_eq!(superseded, ["00000001.base", "00000002.delta", "00000003.delta"]);
        assert_eq!(
            (checkpoints.newest_index(), checkpoints.deltas(), checkpoints.bytes()),
            (30, 0, (base, 0))
        );
    }

    #[test]
    fn a_checkpoint_counts_when_its_result_is_taken() {
        let (_, mut checkpoints) = bench();
        let done = begin(&mut checkpoints, Base, 10).finish();
        assert!(checkpoints.newest().is_none());
        assert!(checkpoints.done(done).result.is_ok());
        assert_eq!(checkpoints.newest().map(|checkpoint| checkpoint.id.index), Some(10));
    }

    #[test]
    fn a_failed_checkpoint_leaves_the_chain_and_its_own_file() {
        let (_, mut checkpoints) = bench();
        make(&mut checkpoints, Base, 10);
        let done = begin(&mut checkpoints, Delta, 20).abandon(JobError::Superseded);
        let effects = checkpoints.done(done);
        assert!(effects.result.is_err(), "what was noted is not freed");
        assert_eq!(names(&effects.removable), ["00000002.delta"]);
        assert_eq!((checkpoints.newest_index(), checkpoints.deltas()), (10, 0));
        assert!(make(&mut checkpoints, Delta, 30).is_empty(), "the next extends the same chain");
    }

    #[test]
    fn a_delta_of_a_chain_that_was_replaced_is_superseded() {
        let (parts, mut checkpoints) = bench();
        make(&mut checkpoints, Base, 10);
        let late = begin(&mut checkpoints, Delta, 20);
        assert_eq!(make(&mut checkpoints, Base, 30), ["00000001.base"]);
        let effects = checkpoints.done(late.finish());
        assert!(matches!(effects.result, Err(JobError::Superseded)));
        assert_eq!(names(&effects.removable), ["00000002.delta"]);
        let path = parts.layout.manifest();
        let manifest = Manifest::read(&parts.disk, &path).expect("the base is committed");
        assert_eq!(manifest.chain.iter().map(|link| link.number).collect::<Vec<u32>>(), [3]);
    }

    #[test]
    #[should_panic(expected = "a delta needs a checkpoint before it")]
    fn a_chain_begins_with_a_base() {
        let (_, mut checkpoints) = bench();
        drop(begin(&mut checkpoints, Delta, 10));
    }
}
