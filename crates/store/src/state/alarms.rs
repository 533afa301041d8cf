//! Alarms, each for a member and a type, raised and disarmed by commands.
//!
//! A raised alarm refuses commands: NOSPACE those that add data (puts, lease grants, transactions with a put), CORRUPT
//! those that change keys, leases or history. Alarm requests, and deletions under NOSPACE, are always carried out.

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
    /// Carries out a request; returns the alarms for the answer and whether anything changed. As in etcd, raising a
    /// raised alarm answers with it, disarming one that is not raised answers with none.
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

    /// The raised alarms of a type; of every type for NONE.
    pub(crate) fn list(&self, alarm: i32) -> Vec<pb::AlarmMember> {
        let all = alarm == pb::AlarmType::None as i32;
        self.raised.iter().filter(|(raised, _)| all || *raised == alarm).copied().map(member).collect()
    }

    /// Checks a command against the raised alarms.
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
        | Command::DowngradeInfoSet(_)
        | Command::Publish { .. }
        | Command::CommandSet(_)
        | Command::Auth(_)
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

/// Whether either branch contains a put. Which branch is taken is not known yet.
fn txn_puts(txn: &pb::TxnRequest) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match &op.request {
        Some(Request::RequestPut(_)) => true,
        Some(Request::RequestTxn(nested)) => txn_puts(nested),
        _ => false,
    })
}
