//! The room in the log: who may use how much of it, and what waits for more.
//!
//! The log makes segments ready ahead of need and keeps a reserve of them. A write that needs more than is ready waits
//! until another segment is, and on a full disk none will be. So everything that makes entries is admitted first, and
//! leaves room for what is more urgent ([`RoomUse`]):
//!
//! ```text
//!   room that is left:                         64 MiB              16 MiB              1 MiB            0
//!   used by commands that       ... grow the store | free space         | maintain it       | hard states |
//! ```
//!
//! What is not admitted waits for the next segment, or is refused while space is low. A follower drops an append that
//! is not admitted, as if the network had lost it: the leader sends it again, waits for nothing, and goes on with the
//! others.

use std::collections::VecDeque;

use consensus::Write;
use log::{Log, RecordSizes, Space};

use crate::proposals::growth::RoomUse;

/// Freeing commands leave this part of the reserve.
const FREEING_KEEPS_PART: u64 = 4;

/// Maintenance, and what a follower accepts, leaves this part of the reserve: 1 MiB, the hard states of 10,000
/// elections.
const MAINTENANCE_KEEPS_PART: u64 = 64;

/// What may happen to entries that are to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// There is room.
    Admitted,
    /// There will be, when a segment is ready.
    Waits,
    /// There is none, and space is low.
    Refused,
}

/// See the module.
#[derive(Default)]
pub(crate) struct LogRoom {
    /// Entries that were admitted and are not planned yet.
    admitted: RecordSizes,
    /// Writes that wait for a segment, in order: the first after a start, and what was not admitted first.
    waiting: VecDeque<Write>,
    /// Operators know that space is low.
    is_low_known: bool,
}

impl LogRoom {
    /// Whether entries with these payload lengths may be made for this use. Those that may are counted until
    /// [`LogRoom::planned`].
    pub(crate) fn admit(
        &mut self,
        lens: impl Iterator<Item = usize>,
        room_use: RoomUse,
        log: &mut Log,
    ) -> Admission {
        let is_low = log.space() != Space::Ok;
        if is_low && room_use == RoomUse::Grows {
            return Admission::Refused;
        }
        let mut sizes = self.admitted.clone();
        sizes.add_hard_state();
        lens.for_each(|len| sizes.add_entry(len as u64));
        let kept = match room_use {
            RoomUse::Grows => 1,
            RoomUse::Frees => FREEING_KEEPS_PART,
            RoomUse::Maintains => MAINTENANCE_KEEPS_PART,
        };
        match !self.has_waiting() && log.make_room(&sizes, Some(kept)) {
            true => {
                self.admitted = sizes;
                Admission::Admitted
            }
            false if is_low => Admission::Refused,
            false => Admission::Waits,
        }
    }

    /// What was admitted is planned, or came to nothing.
    pub(crate) fn planned(&mut self) {
        self.admitted.clear();
    }

    /// Whether a write fits now. It does not while others wait.
    pub(crate) fn has_room(&self, write: &Write, log: &mut Log) -> bool {
        !self.has_waiting() && fits(write, log)
    }

    /// Whether a write waits for room.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Keeps a write until there is room.
    pub(crate) fn wait(&mut self, write: Write) {
        self.waiting.push_back(write);
    }

    /// The next write that waited, if there is room for it now.
    pub(crate) fn take_waiting(&mut self, log: &mut Log) -> Option<Write> {
        self.waiting.pop_front_if(|write| fits(write, log))
    }

    /// A snapshot takes the place of what waits.
    pub(crate) fn take_superseded(&mut self) -> VecDeque<Write> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether space has become low, or is no longer; `None` if operators know.
    pub(crate) fn take_news(&mut self, space: Space) -> Option<bool> {
        let is_low = space == Space::Low;
        let is_new = std::mem::replace(&mut self.is_low_known, is_low) != is_low;
        is_new.then_some(is_low)
    }
}

fn fits(write: &Write, log: &mut Log) -> bool {
    let mut sizes = RecordSizes::default();
    // The hard state may be one that was not written with an earlier write.
    sizes.add_hard_state();
    write.entries.iter().for_each(|entry| sizes.add_entry(entry.payload.len() as u64));
    log.make_room(&sizes, None)
}
