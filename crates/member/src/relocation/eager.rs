//! Eager relocation, after a client asked to defragment: every file that would shrink is treated, the segment being
//! written and entries kept for followers included, until nothing is left to gain.
//!
//! ```text
//! requested -> history purged, active segment ended -> checkpoint after it -> settled -> files -> nothing to gain:
//! over
//! ```

use log::{Log, Space};
use store::Reader;

/// How often it is checked whether what eager relocation waits for has happened, in nanoseconds.
const LOOK_NS: u64 = 10_000_000;

/// An eager follower waits so long after its checkpoint before it forgets the entries there, in nanoseconds. It cannot
/// know what the others have, but a healthy member has them by then, should this member lead.
pub(super) const CATCH_UP_NS: u64 = 1_000_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct EagerRelocation {
    is_on: bool,
    /// The checkpoint that it waits for first: at or after this entry.
    settle_at: Option<u64>,
    /// When that checkpoint was found, on the monotonic clock.
    settled_at_ns: Option<u64>,
    /// When to look again.
    next_ns: u64,
}

/// What eager relocation needs before it looks at files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Something is under way: look again later.
    Waits,
    /// The active segment shall end, with a checkpoint after it.
    EndSegment,
    /// Nothing is in the way: entries that only followers might need can be forgotten.
    Settled,
}

impl EagerRelocation {
    pub(super) fn start(&mut self) {
        *self = EagerRelocation { is_on: true, ..EagerRelocation::default() };
    }

    pub(super) fn end(&mut self) {
        *self = EagerRelocation::default();
    }

    /// Whether a client asked to defragment, and something may be left to gain.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// When to look again, while it is on.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.is_on.then_some(self.next_ns)
    }

    /// A look was taken.
    pub(super) fn looked(&mut self, now_ns: u64) {
        self.next_ns = now_ns + LOOK_NS;
    }

    /// Before files are looked at: history is purged, the active segment ended, and a checkpoint after it written, so
    /// that only what must be kept is kept.
    pub(crate) fn settle(&mut self, now_ns: u64, log: &Log, reader: &Reader, leads: bool) -> Settling {
        if reader.purged() < reader.compacted() {
            return Settling::Waits;
        }
        let Some(settle_at) = self.settle_at else {
            // On a full disk the reserve is not for this: then the active segment stays.
            let rolls_over_soon = !log.can_roll_over() && log.space() == Space::Ok;
            return if rolls_over_soon { Settling::Waits } else { Settling::EndSegment };
        };
        let is_settled = log.checkpoint_id().is_some_and(|id| id.index >= settle_at);
        if !is_settled || log.durable_position() < log.position() {
            return Settling::Waits;
        }
        let settled_at_ns = *self.settled_at_ns.get_or_insert(now_ns);
        let is_alone = reader.members().len() <= 1;
        if !leads && !is_alone && now_ns < settled_at_ns + CATCH_UP_NS {
            return Settling::Waits;
        }
        Settling::Settled
    }

    /// The active segment has ended with entry `last`.
    pub(crate) fn segment_ended(&mut self, last: u64) {
        self.settle_at = Some(last);
    }

    /// The last entry that every follower heard of recently has. A follower assumes the checkpoint it settled at (see
    /// [`CATCH_UP_NS`]).
    pub(crate) fn needed_by_followers(&self, status: &consensus::Status, member_id: u64) -> u64 {
        let others = status.peers.iter().filter(|peer| peer.id != member_id && peer.recent_active);
        let settled = self.settled_at_ns.and(self.settle_at).unwrap_or(0);
        others.map(|peer| peer.matched).min().unwrap_or(settled)
    }
}
