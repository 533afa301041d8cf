//! What [`Store`](crate::Store) and [`Reader`](crate::Reader) share: the state behind its lock, pins, limits, counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::compaction_hash::KeptHashes;
use super::store_state::{FIRST_REVISION, NEVER_COMPACTED, StateReplaced, StoreState};
use crate::auth::AuthState;
use crate::range::KnownCounts;
use crate::values::Values;

/// One for each store; every [`Reader`](crate::Reader) holds it.
pub(crate) struct StoreShared {
    pub(crate) state: RwLock<StoreState>,
    pub(crate) values: Arc<dyn Values>,
    pub(crate) limits: Limits,
    /// Copies of the state's revisions, read without the lock.
    pub(crate) revision: AtomicI64,
    pub(crate) compacted: AtomicI64,
    /// The compact revision that came with the last replay or installed state: what it made unavailable is purged
    /// without being counted.
    found_compacted: AtomicI64,
    /// The auth revision, twice, and one more while auth is enabled: both change together.
    auth: AtomicU64,
    /// Pinned revisions, with the number of pins on each. Pins are added only under a state lock, so that no revision
    /// is purged between the moment a reader chooses it and the moment it is pinned.
    pub(crate) pins: Mutex<BTreeMap<i64, usize>>,
    pub(crate) counters: StoreCounters,
    pub(crate) known_counts: KnownCounts,
    pub(crate) kept_hashes: Mutex<KeptHashes>,
}

impl StoreShared {
    pub(crate) fn new(values: Arc<dyn Values>, limits: Limits) -> Arc<StoreShared> {
        Arc::new(StoreShared {
            state: RwLock::default(),
            values,
            limits,
            revision: AtomicI64::new(FIRST_REVISION),
            compacted: AtomicI64::new(NEVER_COMPACTED),
            found_compacted: AtomicI64::new(NEVER_COMPACTED),
            auth: AtomicU64::new(shown_auth(&AuthState::default())),
            pins: Mutex::default(),
            counters: StoreCounters::default(),
            known_counts: KnownCounts::default(),
            kept_hashes: Mutex::default(),
        })
    }

    /// Shows the state's revisions to readers that do not take the lock. The caller holds the write lock.
    pub(crate) fn show_revisions(&self, state: &StoreState) {
        assert!(
            state.purged <= state.compacted && state.compacted <= state.revision,
            "revisions are ordered"
        );
        self.auth.store(shown_auth(&state.auth), Ordering::Release);
        self.compacted.store(state.compacted, Ordering::Release);
        self.revision.store(state.revision, Ordering::Release);
    }

    /// This state was not made by commands of this process: from a checkpoint, by replay, or by a peer.
    pub(crate) fn note_found(&self, state: &StoreState) {
        self.found_compacted.store(state.compacted, Ordering::Relaxed);
    }

    /// The compact revision of the last state that was found.
    pub(crate) fn found_compacted(&self) -> i64 {
        self.found_compacted.load(Ordering::Relaxed)
    }

    /// Whether permissions are demanded, without the lock.
    pub(crate) fn is_auth_enabled(&self) -> bool {
        self.auth.load(Ordering::Acquire) & 1 == 1
    }

    /// The auth revision, without the lock.
    pub(crate) fn auth_revision(&self) -> u64 {
        self.auth.load(Ordering::Acquire) >> 1
    }

    /// Locks the state, unless another was installed since it had this count of installs.
    ///
    /// # Errors
    /// [`StateReplaced`]
    pub(crate) fn state_of(&self, installs: u64) -> Result<RwLockReadGuard<'_, StoreState>, StateReplaced> {
        let state = self.state.read();
        if state.installs == installs { Ok(state) } else { Err(StateReplaced) }
    }

    /// Keeps the versions visible at `revision` from being purged. The caller holds a state lock.
    pub(crate) fn pin(self: &Arc<StoreShared>, revision: i64) -> RevisionPin {
        *self.pins.lock().entry(revision).or_default() += 1;
        RevisionPin { shared: Arc::clone(self), revision }
    }

    /// The oldest pinned revision.
    pub(crate) fn oldest_pin(&self) -> Option<i64> {
        self.pins.lock().keys().next().copied()
    }
}

/// What readers see of auth without the lock.
fn shown_auth(auth: &AuthState) -> u64 {
    auth.revision() << 1 | u64::from(auth.is_enabled())
}

/// Keeps the versions visible at one revision from being purged, as long as this lives.
pub(crate) struct RevisionPin {
    shared: Arc<StoreShared>,
    revision: i64,
}

impl Drop for RevisionPin {
    fn drop(&mut self) {
        let mut pins = self.shared.pins.lock();
        let uses = pins.get_mut(&self.revision).expect("a pin is counted until it is dropped");
        *uses -= 1;
        if *uses == 0 {
            pins.remove(&self.revision);
        }
    }
}

/// Keys of a slice: as many as an ordinary batch has commands at most, so that it is one slice, of about a millisecond.
pub const DEFAULT_SLICE_KEYS: usize = 1_000;

/// Bytes of values that transactions of a batch compare and that are read at once, unless one value has more. They are
/// in memory until the next are read: see `apply::look_ahead`.
const DEFAULT_FETCHED_BYTES: u64 = 16 << 20;

/// Bytes decoded in a round of a merge. Starting the tasks of a round takes some ten microseconds, decoding so much
/// some ten milliseconds.
const DEFAULT_MERGE_ROUND_BYTES: usize = 4 << 20;

/// How work on the store is divided: into holds of the lock, little enough that the other side waits for tens of
/// microseconds and that a reader is rarely preempted while it holds the lock, and into reads and chunks.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Keys that applying changes or reads in one hold of the lock. Members may differ in it.
    pub slice_keys: usize,
    /// Bytes of values to compare that are read at once.
    pub fetched_bytes: u64,
    /// Keys a reader examines in one hold of the lock.
    pub chunk_keys: usize,
    /// Keys or changes a count examines in one hold of the lock.
    pub count_steps: usize,
    /// Keys of a range that are collected in memory; a longer range is walked twice instead.
    pub found_keys: usize,
    /// Versions below the compact revision that are sorted in memory for HashKV and backups; 32 bytes each. The index
    /// is walked once for each time so many.
    pub sorted_versions: usize,
    /// Approximate size of a checkpoint chunk.
    pub checkpoint_chunk_bytes: usize,
    /// Bytes of frames that a merge of checkpoints decodes in a round, for all of them together.
    pub merge_round_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            slice_keys: DEFAULT_SLICE_KEYS,
            fetched_bytes: DEFAULT_FETCHED_BYTES,
            chunk_keys: 256,
            count_steps: 1_000,
            found_keys: 20_000,
            sorted_versions: 1 << 20,
            checkpoint_chunk_bytes: 64 * 1024,
            merge_round_bytes: DEFAULT_MERGE_ROUND_BYTES,
        }
    }
}

/// Counts since the process started, for metrics.
#[derive(Debug, Default)]
pub(crate) struct StoreCounters {
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) txns: AtomicU64,
    pub(crate) ranges: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) put_bytes: AtomicU64,
    pub(crate) purged: AtomicU64,
    /// While entries are replayed, nothing is counted of them: they were counted when they were applied first.
    is_replaying: AtomicBool,
}

impl StoreCounters {
    /// Whether what is applied is counted.
    pub(crate) fn counts_applied(&self) -> bool {
        !self.is_replaying.load(Ordering::Relaxed)
    }

    /// Begins or ends a replay.
    pub(crate) fn set_replaying(&self, is_replaying: bool) {
        self.is_replaying.store(is_replaying, Ordering::Relaxed);
    }

    /// Adds to a counter, without ordering anything.
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
