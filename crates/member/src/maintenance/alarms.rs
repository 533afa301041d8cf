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
}

impl Shortage {
    /// The error that a client receives.
    pub(crate) fn error(self) -> api::Error {
        match self {
            Shortage::Disk | Shortage::Quota => api::Error::NoSpace,
            // Space is left, and a descriptor comes back when a client disconnects.
            Shortage::Descriptors => api::Error::TooManyRequests,
        }
    }
}

/// Whether the store may grow. The quota is counted exactly, before a command is proposed; a nearly full disk counts as
/// full. `quota_bytes` of 0 is no quota.
pub(crate) fn shortage(
    space: Space,
    quota_bytes: u64,
    referenced_bytes: impl FnOnce() -> u64,
) -> Option<Shortage> {
    match space {
        Space::Low => Some(Shortage::Disk),
        Space::OutOfDescriptors => Some(Shortage::Descriptors),
        Space::Ok if quota_bytes > 0 && referenced_bytes() >= quota_bytes => Some(Shortage::Quota),
        Space::Ok => None,
    }
}

/// Ticks after which a proposed alarm that was not applied counts as lost, for example with the frame that forwarded
/// it: as long as a request may wait, at the default heartbeat interval. Raising an alarm twice does no harm.
const LOST_TICKS: u32 = 70;

/// The alarms proposed by this member.
#[derive(Debug, Default)]
pub(crate) struct AlarmProposals {
    /// Ticks for which no other alarm is proposed, because one is on its way.
    wait_ticks: u32,
}

impl AlarmProposals {
    /// A proposed alarm was applied, or may be lost with the leader: the next one may be proposed.
    pub(crate) fn settled(&mut self) {
        self.wait_ticks = 0;
    }

    /// Counts a tick.
    pub(crate) fn tick(&mut self) {
        self.wait_ticks = self.wait_ticks.saturating_sub(1);
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
        if is_raised || self.wait_ticks > 0 {
            return None;
        }
        self.wait_ticks = LOST_TICKS;
        let action = AlarmAction::Activate as i32;
        Some(AlarmRequest { action, member_id, alarm: alarm as i32 }.encode_to_vec().into())
    }
}

#[cfg(test)]
mod tests {
    //! What makes space short, and when an alarm is raised again.
    use std::sync::Arc;

    use store::{Damaged, Limits, Store, ValueRef, Values};

    use super::*;

    struct NoValues;

    impl Values for NoValues {
        fn read(&self, _: &ValueRef) -> Result<Bytes, Damaged> {
            unreachable!("the store is empty")
        }

        fn retain(&self, _: &ValueRef) {}

        fn release(&self, _: &ValueRef) {}
    }

    #[test]
    fn a_lost_alarm_is_raised_again() {
        let (_, reader) = Store::new(Arc::new(NoValues), Limits::default());
        let mut alarms = AlarmProposals::default();
        let raised = |alarms: &mut AlarmProposals| alarms.raise(AlarmType::Nospace, 1, &reader).is_some();
        assert!(raised(&mut alarms));
        for _ in 0..LOST_TICKS {
            assert!(!raised(&mut alarms), "it may be on its way");
            alarms.tick();
        }
        assert!(raised(&mut alarms), "the frame that forwarded it is lost");
        alarms.settled();
        assert!(raised(&mut alarms), "the leader changed");
    }

    #[test]
    fn a_full_disk_counts_before_the_quota_and_a_quota_of_zero_is_none() {
        assert_eq!(shortage(Space::Low, 0, || 0), Some(Shortage::Disk));
        let descriptors = shortage(Space::OutOfDescriptors, 0, || 0);
        assert_eq!(descriptors.map(Shortage::error), Some(api::Error::TooManyRequests), "space is left");
        assert_eq!(shortage(Space::Ok, 100, || 99), None);
        assert_eq!(shortage(Space::Ok, 100, || 100), Some(Shortage::Quota));
        assert_eq!(shortage(Space::Ok, 0, || u64::MAX), None);
    }
}
