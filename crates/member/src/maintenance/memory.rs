//! The memory limit: what is accounted, and when it is too much.
//!
//! A member counts what its data take of memory where they change, and compares the sum with `--memory-limit-bytes`.
//! Resident memory would not do, because it does not fall after a delete. Past the limit the store may not grow
//! ([`Shortage::Memory`](super::alarms::Shortage)), and the member raises the NOSPACE alarm, as at the quota. The
//! excess ends well below the limit, so that a store at the limit does not change sides with each command:
//!
//! ```text
//! limit 1,000     accounted 990   1,000    980     949     960
//!                 exceeded  no    yes      yes     no      no
//! ```
//!
//! The alarm stays until an operator disarms it. If the limit is still exceeded then, it is raised again.
//!
//! What changed since the last checkpoint is noted until the next one, also the keys that are gone: a checkpoint is
//! wanted early when that takes much of the limit, or deletes and compaction would not free what they promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Accounted bytes of the parts of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Keys with their versions, and the tree over them.
    pub index: u64,
    /// The order of changes, as far as history is kept.
    pub revision_log: u64,
    /// Leases, their keys and their deadlines.
    pub leases: u64,
    /// Users, roles and tokens.
    pub auth: u64,
    /// What changed since the last checkpoint.
    pub changes: u64,
    /// Watchers, their streams, and the events kept for them.
    pub watches: u64,
    /// Recent entries, for followers, readers and watchers, and where older ones are.
    pub log: u64,
    /// Values that were read from files.
    pub value_cache: u64,
    /// Commands that wait to be proposed or forwarded.
    pub commands: u64,
    /// States that are received, and those that they replaced until they are dropped. Not compared with the limit.
    pub snapshots: u64,
    /// What connections hold for their clients. Not compared with the limit.
    pub clients: u64,
}

/// The number of parts.
pub(crate) const MEMORY_PARTS: usize = 11;

/// So many, all but the last two, are compared with the limit. A state that is received is not: it cannot be refused,
/// because this member needs it; it goes by itself, while the alarm would stay; and refusing writes would not make it
/// smaller. Nor is what connections hold: a client that does not take its answers must not stop the writes of others.
const LIMITED_PARTS: usize = MEMORY_PARTS - 2;

impl MemoryUse {
    /// Each part with the name that operators see.
    pub fn parts(&self) -> [(&'static str, u64); MEMORY_PARTS] {
        [
            ("index", self.index),
            ("revision_log", self.revision_log),
            ("leases", self.leases),
            ("auth", self.auth),
            ("changes", self.changes),
            ("watches", self.watches),
            ("log", self.log),
            ("value_cache", self.value_cache),
            ("commands", self.commands),
            ("snapshots", self.snapshots),
            ("clients", self.clients),
        ]
    }

    /// Bytes of the parts that are compared with the limit.
    pub fn limited(&self) -> u64 {
        self.parts()[..LIMITED_PARTS].iter().map(|(_, bytes)| bytes).sum()
    }

    /// The name of the largest part that is compared with the limit.
    pub(crate) fn largest(&self) -> &'static str {
        self.parts()
            .into_iter()
            .take(LIMITED_PARTS)
            .max_by_key(|(_, bytes)| *bytes)
            .map_or("", |(name, _)| name)
    }
}

/// What a state that is received takes of memory, wherever it goes: on the thread that receives it, in the member, in a
/// background job. The owner of the shares reads their sum.
///
/// ```text
/// received    share 0 .. 900 MB      installed    share 700 MB, of the state before      dropped    no share
/// ```
#[derive(Debug)]
pub(crate) struct MemoryShare {
    sum: Arc<AtomicU64>,
    bytes: u64,
}

impl MemoryShare {
    /// A share of nothing yet in `sum`.
    pub(crate) fn of(sum: &Arc<AtomicU64>) -> MemoryShare {
        MemoryShare { sum: sum.clone(), bytes: 0 }
    }

    /// Sets its bytes.
    pub(crate) fn set(&mut self, bytes: u64) {
        // If it became smaller, the difference wraps around, and so does the sum: modulo 2^64 it is right.
        self.sum.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// An excess ends when less than this share of the limit is accounted.
const CLEAR_PERCENT: u64 = 95;

/// A checkpoint is wanted when what waits for it takes this share of the limit.
const CHANGES_PERCENT: u64 = 5;

/// Time between two checkpoints that are wanted for memory: each costs writes, and on a full disk each fails.
const CHECKPOINT_INTERVAL_NS: u64 = 1_000_000_000;

/// The limit, and whether it is exceeded.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    /// 0 for none.
    bytes: u64,
    is_exceeded: bool,
    /// When a checkpoint may be wanted again.
    checkpoint_from_ns: u64,
}

impl MemoryLimit {
    /// A limit in bytes; 0 is none.
    pub(crate) fn new(bytes: u64) -> MemoryLimit {
        MemoryLimit { bytes, is_exceeded: false, checkpoint_from_ns: 0 }
    }

    /// Changes the limit. Whether it is exceeded is decided when memory is accounted next.
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// In bytes; 0 for none.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the store may not grow.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Takes in what is accounted now. Returns whether an excess began or ended.
    pub(crate) fn accounted(&mut self, bytes: u64) -> bool {
        let from = if self.is_exceeded { clear_bytes(self.bytes) } else { self.bytes };
        let is_exceeded = self.bytes > 0 && bytes >= from;
        std::mem::replace(&mut self.is_exceeded, is_exceeded) != is_exceeded
    }

    /// Whether a checkpoint shall begin now, so that this number of bytes which wait for it are free.
    pub(crate) fn wants_checkpoint(&mut self, now_ns: u64, changes: u64) -> bool {
        let is_much = self.bytes > 0 && changes >= self.bytes / 100 * CHANGES_PERCENT;
        let wants = is_much && now_ns >= self.checkpoint_from_ns;
        if wants {
            self.checkpoint_from_ns = now_ns + CHECKPOINT_INTERVAL_NS;
        }
        wants
    }
}

/// What less must be accounted than, for an excess to end.
fn clear_bytes(limit: u64) -> u64 {
    limit - limit / 100 * (100 - CLEAR_PERCENT)
}

#[cfg(test)]
mod tests {
    //! When an excess begins and ends.
    use super::*;

    #[test]
    fn an_excess_begins_at_the_limit_and_ends_well_below_it() {
        let mut limit = MemoryLimit::new(1_000);
        let steps = [
            (0, false),
            (999, false),
            (1_000, true),
            (960, true),
            (950, true),
            (949, false),
            (960, false),
            (999, false),
            (u64::MAX, true),
            (0, false),
        ];
        let mut before = false;
        for (bytes, exceeded) in steps {
            assert_eq!(limit.accounted(bytes), exceeded != before, "{bytes} bytes");
            assert_eq!(limit.is_exceeded(), exceeded, "{bytes} bytes");
            before = exceeded;
        }
    }

    #[test]
    fn a_limit_of_zero_is_none_and_a_huge_one_is_a_number() {
        assert!(!MemoryLimit::new(0).accounted(u64::MAX));
        let mut limit = MemoryLimit::new(u64::MAX);
        assert!(limit.accounted(u64::MAX) && limit.is_exceeded());
        assert!(limit.accounted(u64::MAX / 2));
    }

    #[test]
    fn a_checkpoint_is_wanted_for_much_and_not_all_the_time() {
        assert!(!MemoryLimit::new(0).wants_checkpoint(0, u64::MAX));
        let mut limit = MemoryLimit::new(1_000);
        assert!(!limit.wants_checkpoint(5, 49) && limit.wants_checkpoint(5, 50));
        assert!(!limit.wants_checkpoint(4 + CHECKPOINT_INTERVAL_NS, 1_000));
        assert!(limit.wants_checkpoint(5 + CHECKPOINT_INTERVAL_NS, 1_000));
    }

    #[test]
    fn a_use_is_the_sum_of_its_parts() {
        let mut memory = MemoryUse { index: 5, revision_log: 1, leases: 1, ..MemoryUse::default() };
        assert_eq!((memory.limited(), memory.largest()), (7, "index"));
        (memory.changes, memory.watches, memory.log) = (1, 1, 1);
        (memory.value_cache, memory.commands) = (1, 9);
        assert_eq!((memory.limited(), memory.largest()), (20, "commands"));
        (memory.snapshots, memory.clients) = (100, 100);
        assert_eq!((memory.limited(), memory.largest()), (20, "commands"));
    }

    #[test]
    fn shares_are_in_the_sum_until_they_are_dropped() {
        let sum = Arc::default();
        let mut share = MemoryShare::of(&sum);
        let mut other = MemoryShare::of(&sum);
        for (first, second) in [(0, 7), (100, 7), (40, 9)] {
            share.set(first);
            other.set(second);
            assert_eq!(sum.load(Ordering::Relaxed), first + second);
        }
        drop(share);
        assert_eq!(sum.load(Ordering::Relaxed), 9);
    }
}
