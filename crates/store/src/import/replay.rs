//! Commands that an imported state does not have yet: its server had logged them, and its file had not reached the
//! disk; or they lie in the archive of a backup behind the state.
//!
//! They are applied as a member applies entries, refusals included; but the result is a state as of the same entry as
//! without them, because a new cluster begins with it.
//!
//! ```text
//! file   a@3 b@4                     state of (1, 1) at revision 4
//! log    put a, del b, put c         the same, at revision 7
//! ```
//!
//! Where values lie, and how they are read, is the caller's affair.

use std::sync::Arc;

use bytes::Bytes;

use super::history::{ImportTotals, begin_history_at, lineage, raised};
use crate::checkpoint::{RestoreError, Restored};
use crate::command::{BatchContext, Command, Outcome, Slice};
use crate::hash::{PartHasher, PartKind};
use crate::reader::Reader;
use crate::state::{DataState, Limits};
use crate::store::Store;
use crate::types::AppliedId;
use crate::values::{Damaged, ValueRef, Values};

/// Changes below the compact revision that are dropped after each batch: more than a batch can make.
const MAX_PURGE_STEPS: usize = 1 << 14;

/// An imported state to which commands are applied.
pub struct ImportReplay {
    store: Store,
    reader: Reader,
    /// The entry that the state is of.
    begins_at: AppliedId,
    totals: ImportTotals,
    /// Of all that was [noted](Self::note_history), on top of the state's own lineage.
    history_hash: u64,
    /// Whether the state is not the one that was imported.
    is_changed: bool,
}

impl ImportReplay {
    /// Begins with a state.
    pub fn new(restored: Restored, totals: ImportTotals) -> ImportReplay {
        let begins_at = restored.state.applied;
        let history_hash = restored.state.members.lineage;
        let (mut store, reader) = Store::new(Arc::new(UnreadValues), Limits::default());
        drop(store.install(restored));
        store.begin_replay();
        ImportReplay { store, reader, begins_at, totals, history_hash, is_changed: false }
    }

    /// Applies commands in the order given. Their values are slices of the payload in `context`, whose index counts for
    /// nothing: commands of one entry may be applied in several calls. `read` reads the values that transactions
    /// compare.
    ///
    /// # Errors
    /// That of `read`. The state is then of no use any more.
    ///
    /// # Panics
    /// When a value is not a slice of the payload, or after an error.
    pub fn apply<E>(
        &mut self,
        context: BatchContext,
        commands: Vec<Command>,
        mut read: impl FnMut(&ValueRef) -> Result<Bytes, E>,
    ) -> Result<Vec<Outcome>, E> {
        // The store wants indexes that rise.
        let index = self.reader.applied().index + 1;
        self.store.begin_batch(BatchContext { index, ..context }, commands);
        self.is_changed = true;
        loop {
            match self.store.apply_slice(&mut 0) {
                Slice::Partial { .. } => {}
                Slice::NeedsValues(wanted) => {
                    let values: Result<Vec<_>, E> =
                        wanted.into_iter().map(|value| Ok((value, read(&value)?))).collect();
                    self.store.supply_values(values?.into_iter());
                }
                Slice::Last(applied) => {
                    self.store.purge_step(MAX_PURGE_STEPS);
                    return Ok(applied.outcomes);
                }
            }
        }
    }

    /// Makes bytes a part of the lineage that is computed at the [end](Self::finish).
    pub fn note_history(&mut self, bytes: &[u8]) {
        self.history_hash = PartHasher::new(PartKind::Key).number(self.history_hash).bytes(bytes).finish();
    }

    /// The data as it is now. Its entry is of no meaning.
    pub fn data(&self) -> DataState {
        // Between two calls of `apply` that succeeded there always is one.
        self.reader.data_state().expect("no batch is being applied")
    }

    /// Raises the newest revision by so much, as [`StateImport::raise_revision`](super::StateImport::raise_revision).
    ///
    /// # Errors
    /// [`RestoreError::Malformed`] when no store reaches that revision.
    pub fn raise_revision(&mut self, by: u64) -> Result<(), RestoreError> {
        let shared = &self.reader.shared;
        let mut state = shared.state.write();
        let to = raised(state.revision, by)?;
        state.revision = to;
        // What was begun by a compaction among the commands is of a history that is gone.
        (state.compaction_hash, state.purged_hash) = (None, None);
        begin_history_at(&mut state, to);
        shared.show_revisions(&state);
        drop(state);
        self.is_changed = true;
        Ok(())
    }

    /// Ends it: the state, as of the entry that it began with, is that of a cluster of this lineage, or of one that is
    /// computed from the state and its history. What commands compacted is purged.
    pub fn finish(mut self, given_lineage: Option<u64>) -> (Store, ImportTotals) {
        self.store.end_replay();
        while !self.store.purge_step(MAX_PURGE_STEPS) {}
        let mut state = self.reader.shared.state.write();
        state.applied = self.begins_at;
        state.members.lineage = match given_lineage {
            Some(given) => given.max(1),
            None if self.is_changed => lineage(&state, self.history_hash),
            None => state.members.lineage,
        };
        let totals = ImportTotals {
            revision: state.revision,
            compacted: state.compacted,
            keys: state.index.live_keys(),
            ..self.totals
        };
        drop(state);
        (self.store, totals)
    }
}

/// The store reads nothing by itself: what it needs is asked for by [`Slice::NeedsValues`]. References are not counted:
/// the next open does.
struct UnreadValues;

impl Values for UnreadValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let reason = "values are not read by the store during a restore".into();
        Err(Damaged { address: value.address, len: value.len, key: None, reason, is_transient: false })
    }

    fn retain(&self, _: &ValueRef) {}

    fn release(&self, _: &ValueRef) {}
}

#[cfg(test)]
mod tests {
    //! Commands on an imported state against the same commands on a store.

    use super::*;
    use crate::StateImport;
    use crate::reader::RetainedVersion;
    use crate::testing::{TestStore, delete, op, put, put_request};
    use api::Error;
    use api::etcdserverpb::{self as pb, request_op::Request};

    fn compact(revision: i64) -> Command {
        Command::Compaction(pb::CompactionRequest { revision, physical: false })
    }

    /// Puts b if the value of a is 1.
    fn compare_value() -> Command {
        let target_union = Some(pb::compare::TargetUnion::Value("1".into()));
        let target = pb::compare::CompareTarget::Value as i32;
        let compare = vec![pb::Compare { target, key: "a".into(), target_union, ..Default::default() }];
        let success = vec![op(Request::RequestPut(put_request("b", "yes")))];
        Command::Txn(pb::TxnRequest { compare, success, failure: Vec::new() })
    }

    /// Applies commands to an empty store, and to a state that has the same members and nothing else.
    fn both(commands: &[Command]) -> (TestStore, ImportReplay) {
        let mut store = TestStore::new();
        let begun = StateImport::new(None);
        let (restored, totals) = begun.finish().unwrap();
        let mut replay = ImportReplay::new(restored, totals);
        for command in commands {
            let (context, commands) = store.entry(vec![command.clone()]);
            replay.note_history(&context.payload);
            let expected = store.store.apply_batch(context.clone(), commands.clone()).unwrap().outcomes;
            let outcomes = replay.apply(context, commands, |value| store.values.read(value)).unwrap();
            assert_eq!((outcomes.len(), outcomes[0].is_ok()), (1, expected[0].is_ok()));
            assert_eq!(replay.data().hash, store.reader.data_state().unwrap().hash);
        }
        (store, replay)
    }

    #[test]
    fn commands_make_the_state_that_a_store_has() {
        let puts = [put("a", "1"), compare_value(), put("c", "2"), delete("c", "")];
        let commands = [&puts[..], &[compact(4), put("a", "3"), compare_value(), compact(2)]].concat();
        let (mut expected, replay) = both(&commands);
        while !expected.store.purge_step(100) {}
        let (store, totals) = replay.finish(None);
        store.check_all();
        assert_eq!((totals.revision, totals.compacted, totals.keys), (6, 4, 2));
        assert_eq!(store.reader().applied(), AppliedId::default(), "it is of the same entry as before");
        let all = |reader: crate::Reader| reader.versions().next_chunk(100).unwrap();
        let with_values = |version: &RetainedVersion| (version.kv.clone(), version.tombstone);
        let (left, right) = (all(store.reader()), all(expected.reader.clone()));
        assert!(left.iter().map(with_values).eq(right.iter().map(with_values)), "{left:?} {right:?}");
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let (restored, totals) = StateImport::new(None).finish().unwrap();
        let mut replay = ImportReplay::new(restored, totals);
        let unread = |_: &ValueRef| Err(());
        let outcomes = replay.apply(BatchContext::at(0, 1), vec![compact(9)], unread).unwrap();
        assert_eq!(outcomes, [Err(Error::FutureRevision)]);
        assert_eq!(replay.finish(None).1.revision, 1);
    }

    #[test]
    fn commands_are_part_of_the_lineage() {
        let lineage = |commands: &[Command]| both(commands).1.finish(None).0.reader().lineage();
        let (none, one, other) = (lineage(&[]), lineage(&[put("a", "1")]), lineage(&[put("a", "2")]));
        assert!(none != one && one != other && one == lineage(&[put("a", "1")]));
        let erased = lineage(&[put("a", "1"), delete("a", ""), compact(3)]);
        assert_ne!(
            erased,
            lineage(&[put("a", "2"), delete("a", ""), compact(3)]),
            "its history is another one"
        );
    }

    #[test]
    fn a_raised_revision_follows_the_commands() {
        let (_, mut replay) = both(&[put("a", "1"), delete("a", ""), compact(2)]);
        assert!(replay.raise_revision(u64::MAX).is_err());
        replay.raise_revision(100).unwrap();
        let (store, totals) = replay.finish(Some(7));
        store.check_all();
        assert_eq!(store.reader().lineage(), 7);
        assert_eq!((totals.revision, totals.compacted, totals.keys), (103, 103, 0));
    }
}
