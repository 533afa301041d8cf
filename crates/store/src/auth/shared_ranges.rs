//! Merged ranges by lists of roles: users with the same roles share one set.
//!
//! A role may have thousands of ranges, and ten thousand users may have it. Their ranges are merged once after a change
//! of the role, for the first of them that calls, and are in memory once:
//!
//! ```text
//! ann [app]   bob [app]   root's role app has changed
//! ann calls               [app] -> ranges of app, merged now            ann, app: 7, these
//! bob calls               [app] is known, and good since revision 7     bob: 7, these
//! carl [app, log] calls   another list: merged now
//! ```
//!
//! Sets are held by the users that have called; one that no user holds any more is forgotten.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use super::ranges::{HeldBytes, UserRanges};
use super::types::ENTRY_BYTES;

/// Lists of roles for which sets that are gone are not looked for.
const MIN_LISTS_TO_PRUNE: usize = 64;

/// A set that users may still hold, and the auth revision at which it was known to be good.
type SharedAt = (u64, Weak<UserRanges>);

/// The sets that users hold.
#[derive(Debug, Default)]
pub(super) struct SharedRanges {
    by_roles: BTreeMap<Vec<String>, SharedAt>,
    /// Lists when those whose sets are gone are looked for.
    prune_at: usize,
    /// Accounted bytes of all sets.
    bytes: Arc<AtomicU64>,
}

impl SharedRanges {
    /// No sets. The accounted bytes of those to come are counted in `bytes`, which is read without this.
    pub(super) fn new(bytes: Arc<AtomicU64>) -> SharedRanges {
        SharedRanges { bytes, ..SharedRanges::default() }
    }

    /// The set of a list of roles at an auth revision. One that another user has is taken if `is_good` says so of the
    /// revision at which it was known to be.
    pub(super) fn of(
        &mut self,
        roles: &[String],
        revision: u64,
        is_good: impl FnOnce(u64) -> bool,
        merge: impl FnOnce() -> UserRanges,
    ) -> Arc<UserRanges> {
        let known = self.by_roles.get(roles).filter(|(known, _)| *known == revision || is_good(*known));
        if let Some(ranges) = known.and_then(|(_, ranges)| ranges.upgrade()) {
            return ranges;
        }
        let mut ranges = merge();
        let names: usize = roles.iter().map(|role| role.len() + size_of::<String>()).sum();
        let bytes = ranges.heap_bytes() as u64 + ENTRY_BYTES + names as u64;
        ranges.hold(HeldBytes::new(bytes, self.bytes.clone()));
        let ranges = Arc::new(ranges);
        self.by_roles.insert(roles.to_vec(), (revision, Arc::downgrade(&ranges)));
        self.prune();
        ranges
    }

    /// Forgets lists whose sets are gone, when there are twice as many lists as after the last time.
    fn prune(&mut self) {
        if self.by_roles.len() > self.prune_at.max(MIN_LISTS_TO_PRUNE) {
            self.by_roles.retain(|_, (_, ranges)| ranges.strong_count() > 0);
            self.prune_at = 2 * self.by_roles.len();
        }
    }

    /// Lists that are known.
    #[cfg(test)]
    pub(super) fn lists(&self) -> usize {
        self.by_roles.len()
    }
}
