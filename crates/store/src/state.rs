//! Everything that is replicated, behind one lock; and what the writer and the readers share around it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::alarms::Alarms;
use crate::checkpoint::Dirty;
use crate::hash::{Part, PartHash};
use crate::index::Index;
use crate::lease::Lessor;
use crate::members::Members;
use crate::purge::CompactionHash;
use crate::types::{ValueRef, Values};

/// The revision of a store that nothing was ever written to, as etcd has it.
pub(crate) const REVISION_FIRST: i64 = 1;

/// The compact revision of a store that was never compacted. Clients see it in HashKV.
pub(crate) const NEVER_COMPACTED: i64 = -1;

/// The replicated state.
pub(crate) struct State {
    pub(crate) index: Index,
    pub(crate) lessor: Lessor,
    pub(crate) alarms: Alarms,
    pub(crate) members: Members,
    /// The newest revision.
    pub(crate) revision: i64,
    /// The revision history was cut at.
    pub(crate) compacted: i64,
    /// The revision purging has reached; at most `compacted`.
    pub(crate) purged: i64,
    /// What HashKV says of the newest compaction. Of this process: neither replicated nor in checkpoints.
    pub(crate) compaction_hash: Option<CompactionHash>,
    /// Index and term of the last applied entry.
    pub(crate) applied: Position,
    /// Sum over live keys, for the state hash.
    pub(crate) key_hash: u64,
    pub(crate) dirty: Dirty,
    /// How often the whole state was replaced: slots from before mean nothing after.
    pub(crate) installs: u64,
}

/// Index and term of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Index in the log.
    pub index: u64,
    /// Term it was proposed in.
    pub term: u64,
}

impl Default for State {
    fn default() -> State {
        State {
            index: Index::default(),
            lessor: Lessor::default(),
            alarms: Alarms::default(),
            members: Members::default(),
            revision: REVISION_FIRST,
            compacted: NEVER_COMPACTED,
            purged: NEVER_COMPACTED,
            compaction_hash: None,
            applied: Position::default(),
            key_hash: 0,
            dirty: Dirty::default(),
            installs: 0,
        }
    }
}

impl State {
    /// How far a purge that is not done yet has come: what lies below is dropped, and the files of dropped values
    /// may be gone. [`State::purged`] when none is under way.
    pub(crate) fn purging(&self) -> i64 {
        let next = self.index.log().front().map_or(self.compacted, |entry| entry.revision.main);
        self.purged.max(next.min(self.compacted))
    }

    /// The state hash, see [`crate::hash`].
    pub(crate) fn hash(&self) -> u64 {
        let mut sum = self.key_hash.wrapping_add(self.lessor.hash());
        let mut add = |part: PartHash| sum = sum.wrapping_add(part.finish());
        for alarm in self.alarms.list(0) {
            add(PartHash::new(Part::Alarm).number(alarm.alarm as u64).number(alarm.member_id));
        }
        for member in self.members.members.values() {
            let mut part = PartHash::new(Part::Member).number(member.id).number(u64::from(member.learner));
            part = part.bytes(member.name.as_bytes());
            for url in member.peer_urls.iter().chain(&member.client_urls) {
                part = part.bytes(url.as_bytes());
            }
            add(part.number(member.peer_urls.len() as u64).number(member.incarnation));
        }
        for id in &self.members.removed {
            add(PartHash::new(Part::Removed).number(*id));
        }
        if let Some(version) = &self.members.cluster_version {
            add(PartHash::new(Part::ClusterVersion).bytes(version.as_bytes()));
        }
        sum.wrapping_add(self.revision as u64)
    }
}

/// What [`Store`](crate::Store) and [`Reader`](crate::Reader) share.
pub(crate) struct Shared {
    pub(crate) state: RwLock<State>,
    pub(crate) values: Arc<dyn Values>,
    pub(crate) limits: Limits,
    /// Copies of the state's, to be read without the lock.
    pub(crate) revision: AtomicI64,
    pub(crate) compacted: AtomicI64,
    /// Revisions in use, with how many use each. Locked only under a state lock, so that a revision cannot be
    /// purged between being looked at and being pinned.
    pub(crate) pins: Mutex<BTreeMap<i64, usize>>,
    pub(crate) counters: Counters,
}

impl Shared {
    pub(crate) fn new(values: Arc<dyn Values>, limits: Limits) -> Arc<Shared> {
        Arc::new(Shared {
            state: RwLock::default(),
            values,
            limits,
            revision: AtomicI64::new(REVISION_FIRST),
            compacted: AtomicI64::new(NEVER_COMPACTED),
            pins: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// Makes the state's revisions visible to those who do not take the lock.
    pub(crate) fn publish(&self, state: &State) {
        self.compacted.store(state.compacted, Ordering::Release);
        self.revision.store(state.revision, Ordering::Release);
    }

    /// Keeps what `revision` sees from being purged. The caller holds the state lock.
    pub(crate) fn pin(self: &Arc<Shared>, revision: i64) -> Pin {
        *self.pins.lock().entry(revision).or_default() += 1;
        Pin { shared: Arc::clone(self), revision }
    }

    /// The oldest pinned revision.
    pub(crate) fn oldest_pin(&self) -> Option<i64> {
        self.pins.lock().keys().next().copied()
    }
}

/// A revision kept from being purged for as long as this lives.
pub(crate) struct Pin {
    shared: Arc<Shared>,
    revision: i64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.shared.pins.lock();
        let uses = pins.get_mut(&self.revision).expect("a pin is counted until it is dropped");
        *uses -= 1;
        if *uses == 0 {
            pins.remove(&self.revision);
        }
    }
}

/// How much is done at once. What is done in one hold of a lock is small enough that the other side waits for tens of
/// microseconds, and that a reader is rarely put to sleep by the system while it holds one.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Keys a reader looks at before it lets the writer in.
    pub chunk_keys: usize,
    /// Keys or changes a count looks at before it lets the writer in.
    pub count_steps: usize,
    /// Keys that a list keeps in memory; one of more is walked twice instead.
    pub found_keys: usize,
    /// Bytes of a checkpoint's chunk, about.
    pub checkpoint_chunk_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { chunk_keys: 256, count_steps: 1_000, found_keys: 20_000, checkpoint_chunk_bytes: 64 * 1024 }
    }
}

/// What happened since the process started, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) txns: AtomicU64,
    pub(crate) ranges: AtomicU64,
    pub(crate) events: AtomicU64,
}

impl Counters {
    /// Adds to a counter. Nothing is ordered by it.
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// Drops a reference that the index held. Empty values have no place and no references.
pub(crate) fn release(values: &dyn Values, value: &ValueRef) {
    if value.len > 0 {
        values.release(value);
    }
}

/// Takes a reference for the index.
pub(crate) fn retain(values: &dyn Values, value: &ValueRef) {
    if value.len > 0 {
        values.retain(value);
    }
}

/// Reads a value, without asking anyone for an empty one.
pub(crate) fn read(values: &dyn Values, value: &ValueRef) -> Result<bytes::Bytes, crate::Damaged> {
    if value.len == 0 { Ok(bytes::Bytes::new()) } else { values.read(value) }
}
