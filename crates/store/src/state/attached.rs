//! The keys of a lease as readers see them: those of the newest revision, also while a command is in progress.
//!
//! Between two slices, the lessor is ahead of the newest revision. A key that the command in progress has detached is
//! among the detached ones, in the slot that it had; one that it has attached is no key of the lease yet:
//!
//! ```text
//! revision 8, keys a c of lease 7, in slots 0 and 2; the command in progress has deleted a and put b, lease 7
//! lessor      slots 1 2       b c
//! detached    (7, 0)          a
//! readers     slots 0 1 2     a c, because b was not attached at revision 8
//! ```
//!
//! So a key that is attached all the time is always found in the same slot, and walks can go on at any.

use super::StoreState;
use crate::index::KeyBytes;
use crate::types::Revision;

impl StoreState {
    /// Slots from `from` on, in order, of all keys of a lease at the newest revision. There may be others, which
    /// [`key_attached`](Self::key_attached) tells from them.
    pub(crate) fn lease_slots_from(&self, lease: i64, from: u32) -> impl Iterator<Item = u32> + '_ {
        let detached = self.unfinished.detached.range((lease, from)..=(lease, u32::MAX));
        let mut detached = detached.map(|(_, slot)| *slot).peekable();
        let mut attached = self.lessor.slots_from(lease, from).peekable();
        std::iter::from_fn(move || {
            let next = attached.peek().into_iter().chain(detached.peek()).min().copied()?;
            // A command may have detached a key and attached it again.
            attached.next_if_eq(&next);
            detached.next_if_eq(&next);
            Some(next)
        })
    }

    /// The key in `slot`, one of the [slots of a lease](Self::lease_slots_from), if it is attached to the lease at the
    /// newest revision.
    pub(crate) fn key_attached(&self, lease: i64, slot: u32) -> Option<KeyBytes<'_>> {
        let at = Revision { main: self.revision, sub: u32::MAX };
        let newest = || self.index.at_slot(slot).live_until(at);
        let is_attached =
            !self.unfinished.is_mid_command || newest().is_some_and(|version| version.lease == lease);
        is_attached.then(|| self.index.key(slot))
    }
}
