//! Alarms that this member raises through the log, and whether the store may grow.

use api::etcdserverpb::{AlarmRequest, AlarmType, alarm_request::AlarmAction};
use bytes::Bytes;
use log::Space;
use prost::Message;

/// Why the store may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The disk is nearly full.
    Disk,
    /// The process may open no more files.
    Descriptors,
    /// The referenced bytes have reached `--quota-backend-bytes`.
    Quota,
    /// What is accounted as memory has reached `--memory-limit-bytes`.
    Memory,
}

impl Shortage {
    /// The error that a client receives.
    pub(crate) fn error(self) -> api::Error {
        match self {
            Shortage::Disk | Shortage::Quota | Shortage::Memory => api::Error::NoSpace,
            // Space is left, and a descriptor comes back when a client disconnects.
            Shortage::Descriptors => api::Error::TooManyRequests,
        }
    }
}

/// Whether the store may grow. The quota is counted exactly, before a command is proposed; a nearly full disk counts as
/// full. `quota_bytes` of 0 is no quota. `is_out_of_memory` says whether the memory limit is exceeded.
pub(crate) fn shortage(
    space: Space,
    quota_bytes: u64,
    referenced_bytes: impl FnOnce() -> u64,
    is_out_of_memory: bool,
) -> Option<Shortage> {
    match space {
        Space::Low => Some(Shortage::Disk),
        Space::OutOfDescriptors => Some(Shortage::Descriptors),
        Space::Ok if quota_bytes > 0 && referenced_bytes() >= quota_bytes => Some(Shortage::Quota),
        Space::Ok if is_out_of_memory => Some(Shortage::Memory),
        Space::Ok => None,
    }
}

/// Ticks after which a proposed alarm that was not applied counts as lost, for example with the frame that forwarded
/// it: as long as a request may wait, at the default heartbeat interval. Raising an alarm twice does no harm.
const LOST_TICKS: u32 = 70;

/// The alarms proposed by this member.
#[derive(Debug, Default)]
pub(crate) struct AlarmProposals {
    /// While an alarm is proposed and not yet known to be applied: ticks until the next one may be proposed.
    ticks_left: u32,
}

impl AlarmProposals {
    /// A proposed alarm was applied, or may be lost with the leader: the next one may be proposed.
    pub(crate) fn settled(&mut self) {
        self.ticks_left = 0;
    }

    /// Counts a tick.
    pub(crate) fn tick(&mut self) {
        self.ticks_left = self.ticks_left.saturating_sub(1);
    }

    /// Whether an alarm may be proposed; it is on its way then.
    fn may_propose(&mut self) -> bool {
        let may_propose = self.ticks_left == 0;
        if may_propose {
            self.ticks_left = LOST_TICKS;
        }
        may_propose
    }

    /// The command that raises an alarm for `member_id`, unless it is raised already or one is on its way.
    pub(crate) fn raise(
        &mut self,
        alarm: AlarmType,
        member_id: u64,
        reader: &store::Reader,
    ) -> Option<Bytes> {
        let is_raised = reader
            .alarms()
            .iter()
            .any(|raised| raised.alarm == alarm as i32 && raised.member_id == member_id);
        if is_raised || !self.may_propose() {
            return None;
        }
        let action = AlarmAction::Activate as i32;
        Some(AlarmRequest { action, member_id, alarm: alarm as i32 }.encode_to_vec().into())
    }
}

#[cfg(test)]
mod tests {
    //! What makes space short, and when an alarm is raised again.
    use super::*;

    #[test]
    fn a_full_disk_counts_before_the_quota_and_a_quota_of_zero_is_none() {
        assert_eq!(shortage(Space::Low, 0, || 0, true), Some(Shortage::Disk));
        let descriptors = shortage(Space::OutOfDescriptors, 0, || 0, false);
        assert_eq!(descriptors.map(Shortage::error), Some(api::Error::TooManyRequests), "space is left");
        assert_eq!(shortage(Space::Ok, 100, || 99, false), None);
        assert_eq!(shortage(Space::Ok, 100, || 100, true), Some(Shortage::Quota));
        assert_eq!(shortage(Space::Ok, 0, || u64::MAX, false), None);
        assert_eq!(shortage(Space::Ok, 100, || 99, true), Some(Shortage::Memory));
    }

    /// No reply and no change of leadership tells a follower that its frame was lost.
    #[test]
    fn an_alarm_that_may_be_lost_is_proposed_again() {
        let mut alarms = AlarmProposals::default();
        for _ in 0..3 {
            assert!(alarms.may_propose());
            for _ in 1..LOST_TICKS {
                alarms.tick();
                assert!(!alarms.may_propose(), "one is on its way");
            }
            alarms.tick();
        }
        assert!(alarms.may_propose());
        alarms.settled();
        assert!(alarms.may_propose(), "the one before was applied");
    }
}
