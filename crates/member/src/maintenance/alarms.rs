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

/// The alarms proposed by this member.
#[derive(Debug, Default)]
pub(crate) struct AlarmProposals {
    /// An alarm was proposed and is not yet known to be applied.
    is_proposed: bool,
}

impl AlarmProposals {
    /// A proposed alarm was applied, or may be lost with the leader: the next one may be proposed.
    pub(crate) fn settled(&mut self) {
        self.is_proposed = false;
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
        if is_raised || std::mem::replace(&mut self.is_proposed, true) {
            return None;
        }
        let action = AlarmAction::Activate as i32;
        Some(AlarmRequest { action, member_id, alarm: alarm as i32 }.encode_to_vec().into())
    }
}

#[cfg(test)]
mod tests {
    //! What makes space short.
    use super::*;

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
