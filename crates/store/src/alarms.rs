//! Alarms: per member and type, raised and disarmed through the log.
//!
//! While one is raised, commands are refused: with NOSPACE whatever adds data, with CORRUPT whatever changes
//! keys or leases, history included. Disarming, deleting (under NOSPACE) and alarms themselves go on.

use std::collections::BTreeSet;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::alarm_request::AlarmAction;
use api::etcdserverpb::request_op::Request;

use crate::command::Command;

/// The raised alarms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alarms {
    /// (type, member)
    raised: BTreeSet<(i32, u64)>,
}

impl Alarms {
    /// Carries out a request; returns the alarms to answer with and whether anything changed. Raising what is
    /// raised answers with it, disarming what is not answers with nothing.
    pub(crate) fn apply(&mut self, request: &pb::AlarmRequest) -> (Vec<pb::AlarmMember>, bool) {
        let alarm = (request.alarm, request.member_id);
        match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) => (self.list(request.alarm), false),
            Ok(AlarmAction::Activate) if request.alarm != pb::AlarmType::None as i32 => {
                let changed = self.raised.insert(alarm);
                (vec![member(alarm)], changed)
            }
            Ok(AlarmAction::Deactivate) if self.raised.remove(&alarm) => (vec![member(alarm)], true),
            _ => (Vec::new(), false),
        }
    }

    /// The raised alarms of a type, or all for NONE.
    pub(crate) fn list(&self, alarm: i32) -> Vec<pb::AlarmMember> {
        let all = alarm == pb::AlarmType::None as i32;
        self.raised.iter().filter(|(raised, _)| all || *raised == alarm).copied().map(member).collect()
    }

    /// Whether `command` is refused now.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::NoSpace`]
    pub(crate) fn check(&self, command: &Command) -> Result<(), Error> {
        if self.raised.is_empty() {
            return Ok(());
        }
        if self.is_raised(pb::AlarmType::Corrupt) && changes_data(command) {
            return Err(Error::Corrupt);
        }
        if self.is_raised(pb::AlarmType::Nospace) && adds_data(command) {
            return Err(Error::NoSpace);
        }
        Ok(())
    }

    fn is_raised(&self, alarm: pb::AlarmType) -> bool {
        self.raised.range((alarm as i32, 0)..=(alarm as i32, u64::MAX)).next().is_some()
    }
}

fn member((alarm, member_id): (i32, u64)) -> pb::AlarmMember {
    pb::AlarmMember { member_id, alarm }
}

fn changes_data(command: &Command) -> bool {
    match command {
        Command::Put(_)
        | Command::DeleteRange(_)
        | Command::Txn(_)
        | Command::Compaction(_)
        | Command::LeaseGrant(_)
        | Command::LeaseRevoke { .. } => true,
        Command::LeaseCheckpoint(_)
        | Command::Alarm(_)
        | Command::ClusterVersionSet(_)
        | Command::Publish { .. }
        | Command::Unknown => false,
    }
}

fn adds_data(command: &Command) -> bool {
    match command {
        Command::Put(_) | Command::LeaseGrant(_) => true,
        Command::Txn(txn) => txn_puts(txn),
        _ => false,
    }
}

/// Whether either branch has a put, whichever will be taken.
fn txn_puts(txn: &pb::TxnRequest) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match &op.request {
        Some(Request::RequestPut(_)) => true,
        Some(Request::RequestTxn(nested)) => txn_puts(nested),
        _ => false,
    })
}
