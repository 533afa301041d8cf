//! The writer's handle, which composes the parts of the store.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Error;
use bytes::Bytes;

use crate::apply::{self, BatchInProgress};
use crate::checkpoint::{self, CheckpointKind, CheckpointSource, RestoreError, Restored};
use crate::command::{Applied, BatchContext, Command, Slice};
use crate::memory::StoreMemory;
use crate::parallel::Parallel;
use crate::purge;
use crate::reader::{CompactionHashScan, Reader};
use crate::state::{ClusterMember, KeptHash, Limits, MemberChange, StoreShared, StoreState};
use crate::types::{AppliedId, Revision};
use crate::values::{Damaged, ValueRef, Values, release, retain};

/// A state that a snapshot replaced. Dropping it takes time in proportion to the keys: leave that to a thread for which
/// nothing waits.
#[must_use = "dropping it takes long"]
pub struct ReplacedState {
    state: StoreState,
}

impl ReplacedState {
    /// Accounted bytes.
    pub fn memory(&self) -> StoreMemory {
        self.state.memory()
    }
}

/// The single writer of the replicated state.
pub struct Store {
    shared: Arc<StoreShared>,
    /// The batch that is being applied.
    batch: Option<BatchInProgress>,
}

impl Store {
    /// An empty store, at revision 1.
    pub fn new(values: Arc<dyn Values>, limits: Limits) -> (Store, Reader) {
        Store::over(StoreShared::new(values, limits))
    }

    fn over(shared: Arc<StoreShared>) -> (Store, Reader) {
        let reader = Reader::new(Arc::clone(&shared));
        (Store { shared, batch: None }, reader)
    }

    /// Restores the state from a base checkpoint and the deltas after it, oldest first, each as the chunks of its
    /// [`CheckpointSource`]; they are read more than once. Retains every reference with [`Values::retain_all`].
    ///
    /// # Errors
    /// [`RestoreError`] when a chunk is damaged, out of order or of another format version. Some references may be
    /// retained.
    pub fn restore<I: Iterator<Item = Bytes> + Clone + Send>(
        values: Arc<dyn Values>,
        limits: Limits,
        chain: impl IntoIterator<Item = I>,
        parallel: &dyn Parallel,
    ) -> Result<(Store, Reader), RestoreError> {
        let state = checkpoint::restore(chain, &*values, limits.merge_round_bytes, parallel)?;
        let shared = StoreShared::new(values, limits);
        shared.show_revisions(&state);
        *shared.state.write() = state;
        Ok(Store::over(shared))
    }

    /// Replaces the whole state by a restored one, and returns the one before. Takes the same short time however large
    /// they are. Readers see the new state at once: a read in progress continues in it. A checkpoint in progress stops
    /// without its last frame, so that it cannot be restored. A batch in progress is given up: the restored state has
    /// its effect, or it is applied again.
    ///
    /// References are neither retained nor released here, as there may be millions: [`Restored::values`] lists those
    /// that count from now on, and none of before does. The caller tells [`Values`] so before it uses the store again.
    pub fn install(&mut self, restored: Restored) -> ReplacedState {
        self.batch = None;
        let Restored { mut state } = restored;
        let mut current = self.shared.state.write();
        state.installs = current.installs + 1;
        let state = std::mem::replace(&mut *current, state);
        self.shared.show_revisions(&current);
        self.shared.note_found(&current);
        ReplacedState { state }
    }

    /// Begins to apply the commands of one entry; [`apply_slice`](Self::apply_slice) does the work.
    ///
    /// # Panics
    /// When a batch is in progress, or the entry's index is not above the last applied one.
    pub fn begin_batch(&mut self, ctx: BatchContext, commands: Vec<Command>) {
        assert!(self.batch.is_none(), "one batch is applied at a time");
        self.batch = Some(apply::begin(&self.shared, ctx, commands));
    }

    /// Applies a slice of the batch in progress: as many keys as one hold of the lock may change or read. Adds the keys
    /// to `spent`. Until the last slice, no checkpoint or snapshot begins, nothing is purged, and no other entry is
    /// applied; during a command ([`is_mid_command`](Self::is_mid_command)) nothing is relocated.
    ///
    /// # Panics
    /// When no batch is in progress, or a value is not a slice of the payload.
    pub fn apply_slice(&mut self, spent: &mut usize) -> Slice {
        let batch = self.batch.as_mut().expect("a batch is in progress");
        let slice = apply::slice(&self.shared, batch, spent);
        if matches!(slice, Slice::Last(_)) {
            self.batch = None;
        }
        slice
    }

    /// Gives the batch in progress the values that [`Slice::NeedsValues`] asked for.
    ///
    /// # Panics
    /// When no batch is in progress.
    pub fn supply_values(&mut self, values: impl Iterator<Item = (ValueRef, Bytes)>) {
        self.batch.as_mut().expect("a batch is in progress").supply(values);
    }

    /// Applies the commands of one entry, all slices one after the other, and reads the values that it needs.
    ///
    /// # Errors
    /// [`Damaged`]: a value that a transaction compares cannot be read on this member. If no command was applied yet,
    /// the batch is dropped, and may be applied again. Otherwise it stays [in progress](Self::is_applying):
    /// [`apply_slice`](Self::apply_slice) goes on with it, and asks for the value again.
    ///
    /// # Panics
    /// As [`begin_batch`](Self::begin_batch) and [`apply_slice`](Self::apply_slice).
    pub fn apply_batch(&mut self, ctx: BatchContext, commands: Vec<Command>) -> Result<Applied, Damaged> {
        self.begin_batch(ctx, commands);
        let mut all = Vec::new();
        loop {
            match self.apply_slice(&mut 0) {
                Slice::Partial { events, .. } => all.extend(events),
                Slice::NeedsValues(needed) => match self.shared.values.read_many(&needed) {
                    Ok(values) => self.supply_values(needed.into_iter().zip(values)),
                    Err(damaged) => {
                        self.batch.take_if(|batch| batch.is_untouched());
                        return Err(damaged);
                    }
                },
                Slice::Last(mut applied) => {
                    all.append(&mut applied.events);
                    return Ok(Applied { events: all, ..applied });
                }
            }
        }
    }

    /// Bytes of values that were read ahead for the batch in progress and are in memory.
    #[cfg(test)]
    pub(crate) fn fetched_bytes(&self) -> u64 {
        self.batch.as_ref().map_or(0, BatchInProgress::fetched_bytes)
    }

    /// Whether a batch is in progress.
    pub fn is_applying(&self) -> bool {
        self.batch.is_some()
    }

    /// Whether a command is in progress that may have changed something: no revision shows those changes.
    pub fn is_mid_command(&self) -> bool {
        self.batch.as_ref().is_some_and(BatchInProgress::is_mid_command)
    }

    fn assert_between_batches(&self) {
        assert!(!self.is_applying(), "this waits for the batch in progress");
    }

    /// Begins the state of a member: of a new cluster with its initial members, as of an id before the first entry of
    /// the log, or of one that joins and knows its peers, as of index 0.
    ///
    /// # Panics
    /// When an entry was applied before.
    pub fn bootstrap(
        &mut self,
        id: AppliedId,
        members: impl IntoIterator<Item = ClusterMember>,
        command_set: u8,
    ) {
        self.assert_between_batches();
        let mut state = self.shared.state.write();
        let is_new = state.applied == AppliedId::default() && state.members.members.is_empty();
        assert!(is_new, "a member's state begins once");
        state.applied = id;
        state.members.members = members.into_iter().map(|member| (member.id, member)).collect();
        state.members.command_set = command_set;
    }

    /// Drops all members but one, which becomes a voter, as an operator ordered who gave up the others. Their ids count
    /// as removed, and the cluster has this `lineage` from now on (a number that no cluster had before).
    ///
    /// # Errors
    /// [`Error::MemberNotFound`]: it is no member itself.
    pub fn force_alone(&mut self, id: u64, lineage: u64) -> Result<(), Error> {
        self.assert_between_batches();
        self.shared.state.write().members.force_alone(id, lineage)
    }

    /// Sets the lineage that a member which joins was told: its peers refuse it with another one.
    pub fn join_lineage(&mut self, lineage: u64) {
        self.assert_between_batches();
        self.shared.state.write().members.lineage = lineage;
    }

    /// Applies an entry without commands: a new leader's first, or a conf change without effect.
    pub fn apply_empty(&mut self, id: AppliedId) {
        self.assert_between_batches();
        let mut state = self.shared.state.write();
        assert!(id.index > state.applied.index, "entries are applied once, in order");
        state.applied = id;
    }

    /// Applies a conf change to the members.
    ///
    /// # Errors
    /// [`Error::MemberExists`], [`Error::MemberNotFound`], [`Error::MemberNotLearner`], [`Error::PeerUrlExists`]. The
    /// entry counts as applied.
    pub fn apply_member_change(&mut self, id: AppliedId, change: MemberChange) -> Result<(), Error> {
        self.apply_empty(id);
        let members = &mut self.shared.state.write().members;
        members.apply(change)?;
        members.changed_at = id.index;
        Ok(())
    }

    /// Purges up to `max_steps` changes below the compact revision or, if lower, the oldest pinned revision. Returns
    /// whether nothing is left to do now.
    pub fn purge_step(&mut self, max_steps: usize) -> bool {
        self.assert_between_batches();
        purge::step(&self.shared, max_steps)
    }

    /// Begins to hash what the compaction that was purged last has kept, if that was not begun before and nothing more
    /// is purged yet. Nothing more is purged until the scan ends. This call only pins the revision; the scan walks the
    /// index, once for each million versions. Returns `None` also if the next compaction waits to be purged, or
    /// this one kept about more than `max_versions` versions that it did not have to look at.
    pub fn begin_compaction_hash(&mut self, max_versions: u64) -> Option<CompactionHashScan> {
        let reader = self.reader();
        let is_kept = |kept: &KeptHash| kept.revision == reader.purged();
        if reader.kept_hashes().first().is_some_and(is_kept) {
            return None;
        }
        reader.begin_compaction_hash(max_versions)
    }

    /// Keeps the hash of a compaction, for HashKV at its revision.
    pub fn keep_hash(&mut self, hash: KeptHash) {
        self.shared.kept_hashes.lock().keep(hash);
    }

    /// Gives the version of `key` at `revision`, and those that share its value, a new log address, where the same
    /// value was copied. Returns false, and changes nothing, if that version is purged or no longer has the reference
    /// `old`.
    pub fn relocate(&mut self, key: &[u8], revision: Revision, old: &ValueRef, address: u64) -> bool {
        assert!(old.len > 0, "only a value with bytes is relocated");
        assert!(!self.is_mid_command(), "references are not switched during a command");
        let mut state = self.shared.state.write();
        let StoreState { index, changes, .. } = &mut *state;
        let mut switched = 0;
        let is_relocated = index.relocate(key, revision, old, address, |revision| {
            changes.note_relocated(key, revision, address);
            switched += 1;
        });
        drop(state);
        for _ in 0..switched {
            retain(&*self.shared.values, &ValueRef { address, ..*old });
            release(&*self.shared.values, old);
        }
        is_relocated
    }

    /// Begins a checkpoint of the present state. A delta holds what changed since the last checkpoint, of either kind,
    /// began and was not abandoned. The source tells its kind: without a checkpoint before, it is a base.
    pub fn begin_checkpoint(&mut self, kind: CheckpointKind) -> CheckpointSource {
        self.assert_between_batches();
        checkpoint::begin(&self.shared, kind)
    }

    /// Begins a base outside this member's chain of checkpoints, as a snapshot for a peer.
    pub fn begin_snapshot(&self) -> CheckpointSource {
        self.assert_between_batches();
        checkpoint::begin_detached(&self.shared)
    }

    /// The last checkpoint begun is written.
    pub fn checkpoint_written(&mut self) {
        self.shared.state.write().changes.checkpoint_written();
    }

    /// The last checkpoint begun was not written: the next delta holds its changes, too.
    pub fn abandon_checkpoint(&mut self) {
        self.shared.state.write().changes.checkpoint_abandoned();
    }

    /// Entries are applied again that were applied before this process started: nothing is counted of them.
    pub fn begin_replay(&mut self) {
        self.shared.counters.set_replaying(true);
    }

    /// They are applied. Ends all tokens of this process: those that replayed commands assigned were perhaps ended
    /// before.
    pub fn end_replay(&mut self) {
        let mut state = self.shared.state.write();
        state.auth.forget_tokens();
        self.shared.note_found(&state);
        self.shared.counters.set_replaying(false);
    }

    /// Whether history was compacted by a command of this process, since its state was replayed or installed.
    pub fn has_compacted(&self) -> bool {
        self.shared.state.read().compacted > self.shared.found_compacted()
    }

    /// A handle for reading.
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }

    /// Checks the invariants that take a handful of comparisons: the order of `purged`, `compacted` and `revision`,
    /// that readers see them, the ends of the revision log, and the counts of the index against each other.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check(&self) {
        self.shared.check();
    }

    /// Checks all invariants: [`check`](Self::check), and everything that is stored twice. Walks the whole index and
    /// revision log with the read lock held, so it is for tests and the simulator. Recomputes the counts of live keys,
    /// versions and referenced bytes, the state hash, and the attachments of leases; compares the revision log with the
    /// versions.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_all(&self) {
        self.shared.check_all();
    }
}
