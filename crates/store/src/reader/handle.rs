//! The reader's handle, and everything it answers from a single hold of the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use api::etcdserverpb as pb;

use crate::lessor::LeaseInfo;
use crate::memory::StoreMemory;
use crate::state::{ClusterMember, DataState, StoreShared};
use crate::types::AppliedId;

/// A handle for reading. Clones share one store.
#[derive(Clone)]
pub struct Reader {
    pub(crate) shared: Arc<StoreShared>,
}

/// Numbers for metrics and `Status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// The number of live keys.
    pub keys: u64,
    /// The number of retained versions that are not tombstones.
    pub versions: u64,
    /// Bytes of keys, values and [overhead](crate::VERSION_OVERHEAD_BYTES) of all retained versions.
    pub referenced_bytes: u64,
    /// The number of leases.
    pub leases: u64,
    /// The number of changes in the revision log.
    pub history: u64,
    /// Puts applied since the process started, including those in transactions.
    pub puts: u64,
    /// Deletions applied since the process started.
    pub deletes: u64,
    /// Transactions applied since the process started.
    pub txns: u64,
    /// Ranges served since the process started, including those in transactions.
    pub ranges: u64,
    /// Events since the process started.
    pub events: u64,
    /// Bytes of keys and values put since the process started.
    pub put_bytes: u64,
    /// Versions that compaction removed since the process started.
    pub purged: u64,
}

impl Reader {
    pub(crate) fn new(shared: Arc<StoreShared>) -> Reader {
        Reader { shared }
    }

    /// The newest revision.
    pub fn current_revision(&self) -> i64 {
        self.shared.revision.load(Ordering::Acquire)
    }

    /// The compact revision; -1 before the first compaction.
    pub fn compacted(&self) -> i64 {
        self.shared.compacted.load(Ordering::Acquire)
    }

    /// The revision that purging has reached; -1 before the first purge. A `physical` compaction at C is complete when
    /// this is C.
    pub fn purged(&self) -> i64 {
        self.shared.state.read().purged
    }

    /// Index and term of the last applied entry.
    pub fn applied(&self) -> AppliedId {
        self.shared.state.read().applied
    }

    /// The last applied entry and the state hash after it, which is equal on all members, however far they purged.
    pub fn state_hash(&self) -> (AppliedId, u64) {
        let state = self.shared.state.read();
        (state.applied, state.unfinished.hash_before.unwrap_or_else(|| state.hash()))
    }

    /// The last applied entry with the hash of the data after it; `None` while an entry is being applied in several
    /// slices. That takes milliseconds: ask again.
    pub fn data_state(&self) -> Option<DataState> {
        let state = self.shared.state.read();
        state.unfinished.hash_before.is_none().then(|| DataState::of(&state))
    }

    /// Bytes of keys, values and [overhead](crate::VERSION_OVERHEAD_BYTES) of all retained versions.
    pub fn referenced_bytes(&self) -> u64 {
        self.shared.state.read().index.referenced_bytes()
    }

    /// What is accounted as the memory of the state. Takes constant time.
    pub fn memory(&self) -> StoreMemory {
        self.shared.state.read().memory()
    }

    /// Numbers for metrics.
    pub fn counts(&self) -> StoreCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        let state = self.shared.state.read();
        StoreCounts {
            keys: state.index.live_keys(),
            versions: state.index.versions(),
            referenced_bytes: state.index.referenced_bytes(),
            leases: state.lessor.len() as u64,
            history: state.index.log().len() as u64,
            puts: load(&counters.puts),
            deletes: load(&counters.deletes),
            txns: load(&counters.txns),
            ranges: load(&counters.ranges),
            events: load(&counters.events),
            put_bytes: load(&counters.put_bytes),
            purged: load(&counters.purged),
        }
    }

    /// One lease.
    pub fn lease(&self, id: i64) -> Option<LeaseInfo> {
        self.shared.state.read().lessor.get(id)
    }

    /// About how many keys are attached to a lease.
    pub fn lease_keys_len(&self, id: i64) -> usize {
        self.shared.state.read().lessor.slots_len(id)
    }

    /// Up to `max` leases with ids from `from` on, in order of ids. The next call starts after the last id returned.
    pub fn leases(&self, from: i64, max: usize) -> Vec<LeaseInfo> {
        self.shared.state.read().lessor.iter_from(from).take(max).collect()
    }

    /// The raised alarms.
    pub fn alarms(&self) -> Vec<pb::AlarmMember> {
        self.shared.state.read().alarms.list(pb::AlarmType::None as i32)
    }

    /// The members, by id.
    pub fn members(&self) -> Vec<ClusterMember> {
        self.shared.state.read().members.members.values().cloned().collect()
    }

    /// Whether a member with this id was removed. Such an id is never used again.
    pub fn was_removed(&self, id: u64) -> bool {
        self.shared.state.read().members.removed.contains(&id)
    }

    /// The cluster version, as in "3.7.0"; `None` until it is set.
    pub fn cluster_version(&self) -> Option<String> {
        self.shared.state.read().members.cluster_version.clone()
    }

    /// The version to downgrade to, as in "3.6.0"; `None` while no downgrade is enabled.
    pub fn downgrade_target(&self) -> Option<String> {
        self.shared.state.read().members.downgrade_target.clone()
    }

    /// Whether a conf change has had an effect since the cluster began.
    pub fn members_have_changed(&self) -> bool {
        self.shared.state.read().members.changed_at > 0
    }

    /// The newest set of commands that every member can apply, as the cluster recorded it.
    pub fn command_set(&self) -> u8 {
        self.shared.state.read().members.command_set
    }

    /// The lineage of the cluster: 0, or the number drawn when one of its members was last forced to go on alone. It
    /// does not change while a process runs.
    pub fn lineage(&self) -> u64 {
        self.shared.state.read().members.lineage
    }

    /// Checks the cheap invariants of the state; see [`Store::check`](crate::Store::check).
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check(&self) {
        self.shared.check();
    }

    /// Checks all invariants of the state; see [`Store::check_all`](crate::Store::check_all).
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_all(&self) {
        self.shared.check_all();
    }
}
