//! Commands that an imported state does not have yet: its server had logged them, and its file had not reached the
//! disk.
//!
//! They are applied as a member applies entries, refusals included; but the result is a state as of the same entry as
//! without them, because a new cluster begins with it.
//!
//! ```text
//! file   a@3 b@4                     state of (1, 1) at revision 4
//! log    put a, del b, put c         the same, at revision 7
//! ```

use std::sync::Arc;

use bytes::Bytes;

use super::history::{ImportTotals, begin_history_at, lineage, raised};
use crate::auth::Caller;
use crate::checkpoint::{RestoreError, Restored};
use crate::command::{BatchContext, Command, Outcome};
use crate::hash::{PartHasher, PartKind};
use crate::state::Limits;
use crate::store::Store;
use crate::types::AppliedId;
use crate::values::{Damaged, Values};

/// An imported state to which commands are applied.
pub struct ImportReplay {
    store: Store,
    /// The entry that the state is of.
    begins_at: AppliedId,
    totals: ImportTotals,
    /// Of all commands so far, on top of the state's own lineage.
    history_hash: u64,
    /// Whether the state is not the one that was imported.
    is_changed: bool,
}

impl ImportReplay {
    /// Begins with a state. `values` reads its values and those of the commands; it need not count references.
    pub fn new(restored: Restored, totals: ImportTotals, values: Arc<dyn Values>) -> ImportReplay {
        let begins_at = restored.state.applied;
        let history_hash = restored.state.members.lineage;
        let (mut store, _) = Store::new(values, Limits::default());
        drop(store.install(restored));
        store.begin_replay();
        ImportReplay { store, begins_at, totals, history_hash, is_changed: false }
    }

    /// Applies a command. Its values are slices of `payload`, which lies at the log address `payload_address`.
    ///
    /// # Errors
    /// [`Damaged`]: a value that a transaction compares cannot be read. Nothing has changed.
    ///
    /// # Panics
    /// When a value is not a slice of the payload.
    pub fn apply(
        &mut self,
        caller: Caller,
        command: Command,
        payload: Bytes,
        payload_address: u64,
    ) -> Result<Outcome, Damaged> {
        let hash = PartHasher::new(PartKind::Key).number(self.history_hash).bytes(&payload).finish();
        let AppliedId { index, term } = self.store.reader().applied();
        let context = BatchContext {
            payload,
            payload_address,
            callers: vec![caller],
            ..BatchContext::at(index + 1, term)
        };
        let mut applied = self.store.apply_batch(context, vec![command])?;
        (self.history_hash, self.is_changed) = (hash, true);
        Ok(applied.outcomes.pop().expect("each command has an outcome"))
    }

    /// Raises the newest revision by so much, as [`StateImport::raise_revision`](super::StateImport::raise_revision).
    ///
    /// # Errors
    /// [`RestoreError::Malformed`] when no store reaches that revision.
    pub fn raise_revision(&mut self, by: u64) -> Result<(), RestoreError> {
        let shared = self.store.reader().shared;
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

    /// Ends it. What commands compacted is purged.
    pub fn finish(mut self) -> (Store, ImportTotals) {
        self.store.end_replay();
        while !self.store.purge_step(MAX_PURGE_STEPS) {}
        let shared = self.store.reader().shared;
        let mut state = shared.state.write();
        state.applied = self.begins_at;
        if self.is_changed {
            state.members.lineage = lineage(&state, self.history_hash);
        }
        self.totals = ImportTotals {
            revision: state.revision,
            compacted: state.compacted,
            keys: state.index.live_keys(),
            missing_leases: self.totals.missing_leases,
        };
        drop(state);
        (self.store, self.totals)
    }
}

/// Changes that are purged in one hold of the lock. Nothing waits for it here.
const MAX_PURGE_STEPS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    //! Commands on an imported state against the same commands on a store.

    use super::*;
    use crate::StateImport;
    use crate::reader::RetainedVersion;
    use crate::testing::{MapValues, TestStore, delete, op, put, put_request};
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
        let mut replay = ImportReplay::new(restored, totals, store.values.clone());
        for command in commands {
            let (context, commands) = store.entry(vec![command.clone()]);
            let BatchContext { payload, payload_address, .. } = context.clone();
            let expected = store.store.apply_batch(context, commands.clone()).unwrap().outcomes.remove(0);
            let command = commands.into_iter().next().unwrap();
            let outcome = replay.apply(Caller::Anonymous, command, payload, payload_address).unwrap();
            assert_eq!(outcome.is_ok(), expected.is_ok());
        }
        (store, replay)
    }

    #[test]
    fn commands_make_the_state_that_a_store_has() {
        let puts = [put("a", "1"), compare_value(), put("c", "2"), delete("c", "")];
        let commands = [&puts[..], &[compact(4), put("a", "3"), compare_value(), compact(2)]].concat();
        let (mut expected, replay) = both(&commands);
        while !expected.store.purge_step(100) {}
        let (store, totals) = replay.finish();
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
        let mut replay = ImportReplay::new(restored, totals, Arc::new(MapValues::default()));
        let outcome = replay.apply(Caller::Anonymous, compact(9), Bytes::new(), 0).unwrap();
        assert_eq!(outcome, Err(Error::FutureRevision));
        assert_eq!(replay.finish().1.revision, 1);
    }

    #[test]
    fn commands_are_part_of_the_lineage() {
        let lineage = |commands: &[Command]| both(commands).1.finish().0.reader().lineage();
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
        let (store, totals) = replay.finish();
        store.check_all();
        assert_eq!((totals.revision, totals.compacted, totals.keys), (103, 103, 0));
    }
}
