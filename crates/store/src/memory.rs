//! How much memory the state takes, as accounted.
//!
//! Accounted is what the data need now: counters follow each change, so that asking costs no walk. Memory that removed
//! keys leave to the next ones is not accounted, although the process keeps it: it is used again first. So the account
//! falls after a delete and a compaction, which resident memory does not.
//!
//! ```text
//! 3 keys, two versions of one of them           records 3 x 32, slots 3 x 4, a leaf with the keys, a box of 48
//! delete and compaction of two                  record 32, slot 4, a leaf with the key
//! ```

/// Accounted bytes of the parts of the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMemory {
    /// Keys with their versions, and the tree over them.
    pub index: u64,
    /// The revision log.
    pub revision_log: u64,
    /// Leases, the attachments of their keys, and their deadlines on a leader.
    pub leases: u64,
    /// Users, roles and tokens.
    pub auth: u64,
    /// What changed since the last checkpoint began.
    pub changes: u64,
}

impl StoreMemory {
    /// Bytes of all parts.
    pub fn total(&self) -> u64 {
        self.index + self.revision_log + self.leases + self.auth + self.changes
    }
}

/// The sizes of the allocator's blocks are multiples of this, in bytes; above a kilobyte they are coarser, but those
/// blocks are few.
const BLOCK_STEP: usize = 16;

/// What an allocation of `bytes` takes.
pub(crate) fn block_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_STEP)
}

#[cfg(test)]
mod tests {
    //! The account against walks, over enough keys for a tree of several levels, and where it falls.

    use api::etcdserverpb as pb;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{TestStore, delete_request, grant, put_request, small_limits};
    use crate::{CheckpointKind, Command, Store};

    #[derive(Clone, Debug)]
    enum Step {
        /// So many keys from a number on, with a lease or without.
        Put(u32, u32, i64),
        Delete(u32, u32),
        Revoke(i64),
        Purge(usize),
        Checkpoint,
    }

    fn step() -> impl Strategy<Value = Step> {
        let (first, count) = (0..6_000u32, 1..2_000u32);
        prop_oneof![
            3 => (first.clone(), count.clone(), 0..3i64).prop_map(|(first, n, lease)| Step::Put(first, n, lease)),
            2 => (first, count).prop_map(|(first, n)| Step::Delete(first, first + n)),
            1 => (1..3i64).prop_map(Step::Revoke),
            2 => (1..6_000usize).prop_map(Step::Purge),
            1 => Just(Step::Checkpoint),
        ]
    }

    /// Long keys, some longer than others, whose order is that of the numbers.
    fn key(number: u32) -> String {
        format!(
            "/registry/pods/namespace-{:04}/{number:06}{}",
            number / 100,
            "-".repeat(number as usize % 40)
        )
    }

    fn run(bench: &mut TestStore, step: Step) {
        match step {
            Step::Put(first, count, lease) => {
                bench.outcome(grant(lease, 60)).ok();
                let put = |number| pb::PutRequest { lease, ..put_request(&key(number), "v") };
                bench.apply((first..first + count).map(|number| Command::Put(put(number))).collect());
            }
            Step::Delete(first, end) => {
                bench.outcome(Command::DeleteRange(delete_request(&key(first), &key(end)))).ok();
            }
            Step::Revoke(id) => {
                let request = pb::LeaseRevokeRequest { id };
                bench.outcome(Command::LeaseRevoke { request, expiry_term: None }).ok();
            }
            Step::Purge(steps) => {
                bench.compact(bench.reader.current_revision()).ok();
                bench.store.purge_step(steps);
            }
            Step::Checkpoint => drop(bench.store.begin_checkpoint(CheckpointKind::Delta)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_account_equals_a_walk(steps in prop::collection::vec(step(), 1..24)) {
            let mut bench = TestStore::new();
            for step in steps {
                run(&mut bench, step);
                bench.store.check_all();
            }
            let chunks: Vec<_> = bench.store.begin_snapshot().collect();
            let chain = [chunks.into_iter()];
            let (restored, _) = Store::restore(bench.values.clone(), small_limits(), chain, &crate::Sequential)
                .expect("intact");
            restored.check_all();
        }
    }

    #[test]
    fn the_account_falls_when_keys_and_their_history_are_gone() {
        let mut bench = TestStore::new();
        let empty = bench.reader.memory();
        run(&mut bench, Step::Put(0, 5_000, 1));
        let full = bench.reader.memory();
        let per_key = |bytes: u64| bytes / 5_000;
        assert!((90..140).contains(&per_key(full.index)), "{} bytes a key", per_key(full.index));
        assert!((4..12).contains(&per_key(full.leases)) && per_key(full.revision_log) >= 4, "{full:?}");
        run(&mut bench, Step::Revoke(1));
        run(&mut bench, Step::Delete(0, 5_000));
        assert!(bench.reader.memory().index > full.index, "versions and tombstones are history");
        run(&mut bench, Step::Put(7_000, 1, 0));
        run(&mut bench, Step::Purge(100_000));
        let StoreMemory { index, revision_log, leases, .. } = bench.reader.memory();
        assert!(index < empty.index + 2_000 && revision_log < 16_000, "{index}, {revision_log}");
        assert_eq!(leases, empty.leases);
    }
}
