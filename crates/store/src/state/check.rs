//! The invariants of the state, as assertions. See `Store::check` and `Store::check_all`.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::shared::StoreShared;
use super::store_state::{FIRST_REVISION, NEVER_COMPACTED, StoreState};
use crate::hash::key_hash;

impl StoreShared {
    /// Checks what takes a handful of comparisons.
    pub(crate) fn check(&self) {
        let state = self.state.read();
        state.check();
        assert_eq!(self.revision.load(Ordering::Acquire), state.revision, "readers see the newest revision");
        assert_eq!(
            self.compacted.load(Ordering::Acquire),
            state.compacted,
            "readers see the compact revision"
        );
        assert_eq!(self.auth_revision(), state.auth.revision(), "readers see the auth revision");
        assert_eq!(self.is_auth_enabled(), state.auth.is_enabled(), "readers see whether auth is enabled");
    }

    /// Checks everything that is stored twice, with the read lock held throughout.
    pub(crate) fn check_all(&self) {
        self.check();
        let state = self.state.read();
        state.index.check_all(state.purged);
        state.check_derived();
        state.check_memory();
    }
}

impl StoreState {
    fn check(&self) {
        assert!(NEVER_COMPACTED <= self.purged, "a purge reaches a revision");
        assert!(self.purged <= self.compacted, "purging reached {} > {}", self.purged, self.compacted);
        let at_target =
            self.purged_at_target.is_none_or(|last| (self.purged + 1..=self.compacted).contains(&last.main));
        assert!(
            at_target,
            "purging goes on among the changes of a revision that is compacted and not purged"
        );
        assert!(self.compacted <= self.revision, "compacted at {} > {}", self.compacted, self.revision);
        self.index.check();
        let log = self.index.log();
        let newest = log.newest().map_or(FIRST_REVISION, |revision| revision.main);
        if self.unfinished.is_mid_command {
            let begun = self.revision..=self.revision + 1;
            assert!(begun.contains(&newest), "a command in progress writes the revision after the newest");
        } else {
            assert_eq!(newest, self.revision, "the revision log ends with the newest revision");
            assert!(self.unfinished.detached.is_empty(), "only a command in progress has detached keys");
        }
        let oldest = log.front().map_or(self.revision, |entry| entry.revision.main);
        assert!(oldest >= self.purged, "the revision log begins at {oldest}, purged up to {}", self.purged);
        let until = self.compaction_hash.as_ref().map_or(self.compacted, |hash| hash.until);
        assert_eq!(until, self.compacted, "a compaction's hash is that of the newest compaction");
        let purged = self.purged_hash.as_ref().map_or(self.purged, |hash| hash.until);
        assert_eq!(purged, self.purged, "the hash of a purged compaction ends with the next purge");
    }

    /// Compares what is accounted with walks; the index has done so itself.
    fn check_memory(&self) {
        let log = self.index.log();
        assert_eq!(
            log.accounted_bytes(),
            log.walk_accounted_bytes(),
            "the revision log's memory is accounted"
        );
        let leases = self.lessor.walk_accounted_bytes();
        assert_eq!(self.lessor.accounted_bytes(), leases, "the memory of leases is accounted");
        self.changes.check_all();
        self.auth.check();
    }

    /// Recomputes the state hash and the attachments of leases from the index.
    fn check_derived(&self) {
        let mut live_hash = 0u64;
        let mut attachments = BTreeSet::new();
        for record in self.index.live_keys_in_order() {
            let newest = record.newest();
            live_hash = live_hash.wrapping_add(key_hash(&record.key(), &newest));
            if newest.lease != 0 {
                attachments.insert((newest.lease, record.slot()));
            }
        }
        let leases = self.lessor.recomputed_hash();
        assert_eq!(self.hash(), self.hash_with(live_hash, leases), "the incremental state hash is exact");
        assert!(self.lessor.attachments().eq(attachments), "leases and their keys name each other");
    }
}
