//! Invariant: a listing of leases has every lease that its member knew all the while, and no other.
//!
//! Grants, revocations and expiries are read from the appends. A command may have been refused, so of some leases
//! nothing certain is known:
//!
//! ```text
//! entry 10 grants 7, acknowledged      a listing from 10 on must have 7
//! entry 12 grants 8, never answered    a listing from 12 on may have 8
//! entry 15 expires 7                   a listing that begins before 15 may have 7, or not
//! entry 15 revokes 7, acknowledged     a listing that begins at 15 or behind it may not have 7
//! ```

use std::collections::{BTreeMap, BTreeSet};

use api::etcdserverpb as pb;
use member::batch::{CommandKind, LogCommand};
use member::lease::Expiry;
use prost::Message;

use super::CHECK;
use crate::report::trace::Violation;

/// What a command does to a lease, if it is carried out.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseStep {
    Grant(i64),
    End(i64),
}

/// What a command of the log may do to leases.
pub(super) fn lease_steps(command: &LogCommand) -> Vec<LeaseStep> {
    match command.kind {
        CommandKind::LeaseGrant => {
            let request = pb::LeaseGrantRequest::decode(command.body.clone());
            request.map(|request| LeaseStep::Grant(request.id)).into_iter().collect()
        }
        CommandKind::LeaseRevoke => {
            let request = pb::LeaseRevokeRequest::decode(command.body.clone());
            request.map(|request| LeaseStep::End(request.id)).into_iter().collect()
        }
        CommandKind::LeaseExpire => {
            let leases = Expiry::decode(&command.body).map(|expiry| expiry.leases);
            leases.into_iter().flatten().map(LeaseStep::End).collect()
        }
        _ => Vec::new(),
    }
}

/// The leases of the log. Each id is granted once.
#[derive(Default)]
pub(crate) struct LoggedLeases {
    /// Where each lease is granted.
    granted: BTreeMap<i64, u64>,
    /// The entries that end it, if they are carried out.
    ends: BTreeMap<i64, Vec<u64>>,
    /// Grants and revocations that were acknowledged. A lease was there at the former, and not any more at the latter.
    acknowledged: BTreeSet<i64>,
    revoked: BTreeSet<i64>,
}

impl LoggedLeases {
    pub(super) fn committed(&mut self, index: u64, step: LeaseStep) {
        match step {
            LeaseStep::Grant(lease) => drop(self.granted.entry(lease).or_insert(index)),
            LeaseStep::End(lease) => self.ends.entry(lease).or_default().push(index),
        }
    }

    /// A client knows that a lease was granted.
    pub(crate) fn was_granted(&mut self, lease: i64) {
        self.acknowledged.insert(lease);
    }

    /// A client knows that a lease was revoked.
    pub(crate) fn was_revoked(&mut self, lease: i64) {
        self.revoked.insert(lease);
    }

    /// A listing was answered by a member that had applied `from` when it began and `through` at its end.
    pub(super) fn listed(&self, listed: &[i64], (from, through): (u64, u64)) -> Result<(), Violation> {
        // The entry behind the last one may be applied in part.
        let through = through + 1;
        let is_gone = |lease: &i64| {
            let last = self.ends.get(lease).and_then(|ends| ends.last());
            self.revoked.contains(lease) && last.is_some_and(|last| *last <= from)
        };
        let is_known = |lease: &i64| self.granted.get(lease).is_some_and(|granted| *granted <= through);
        if let Some(lease) = listed.iter().find(|lease| !is_known(lease) || is_gone(lease)) {
            let (granted, ends) = (self.granted.get(lease), self.ends.get(lease));
            let text =
                format!("lease {lease} is listed from {from} through {through}: {granted:?}, {ends:?}");
            return Violation::err(CHECK, text);
        }
        let is_certain = |(lease, granted): &(&i64, &u64)| {
            let first_end = self.ends.get(lease).and_then(|ends| ends.first());
            **granted <= from
                && self.acknowledged.contains(lease)
                && first_end.is_none_or(|first| *first > through)
        };
        let listed: BTreeSet<&i64> = listed.iter().collect();
        let mut missing = self.granted.iter().filter(is_certain);
        match missing.find(|(lease, _)| !listed.contains(lease)) {
            None => Ok(()),
            Some((lease, granted)) => {
                let text =
                    format!("lease {lease} of entry {granted} is not listed from {from} on: {listed:?}");
                Violation::err(CHECK, text)
            }
        }
    }
}
