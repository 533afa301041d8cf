//! Whether a caller may have a command carried out, with everything nested in it.

use std::collections::BTreeSet;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;

use super::permissions::{Caller, Permit};
use super::state::AuthState;
use super::types::AuthCommand;
use crate::command::Command;

impl AuthState {
    /// Checks a command before it is carried out, except for the keys of its [leases](leases_of). Commands that only
    /// the cluster itself proposes are not checked: no client can send them. Returns what the keys of its leases are
    /// to be checked against.
    ///
    /// # Errors
    /// Why the caller may not do this.
    pub(crate) fn check_command(&self, caller: &Caller, command: &Command) -> Result<Permit, Error> {
        if !self.is_enabled() {
            return Ok(Permit::All);
        }
        // Of a command without leases nothing is left to be checked.
        let all = |()| Permit::All;
        match command {
            Command::Put(request) => {
                let permit = self.permit(caller);
                check_put(&permit, request).map(|()| permit)
            }
            Command::Txn(request) => {
                let permit = self.permit(caller);
                check_txn(&permit, request).map(|()| permit)
            }
            Command::DeleteRange(request) => check_delete(&self.permit(caller), request).map(all),
            Command::LeaseGrant(_) => self.check_user(caller).map(all),
            Command::LeaseRevoke { expiry_term: Some(_), .. } => Ok(Permit::All),
            // As in etcd, root ends a lease whatever the auth revision of its token.
            Command::LeaseRevoke { expiry_term: None, .. } if self.check_root(caller).is_ok() => {
                Ok(Permit::All)
            }
            Command::LeaseRevoke { expiry_term: None, .. } => {
                self.check_user(caller).map(|()| self.permit(caller))
            }
            Command::Compaction(_) | Command::Alarm(_) | Command::DowngradeInfoSet(_) => {
                self.check_root(caller).map(all)
            }
            Command::Auth(AuthCommand::Authenticate { .. }) => Ok(Permit::All),
            Command::Auth(_) => self.check_root(caller).map(all),
            Command::LeaseCheckpoint(_)
            | Command::ClusterVersionSet(_)
            | Command::Publish { .. }
            | Command::CommandSet(_)
            | Command::Unknown => Ok(Permit::All),
        }
    }
}

/// The leases whose keys the caller of a command must be allowed to write, all of them: those that it attaches, because
/// the caller could not end them otherwise, and the one that it ends.
pub(crate) fn leases_of(command: &Command) -> BTreeSet<i64> {
    let mut leases = BTreeSet::new();
    match command {
        Command::Put(request) => drop(leases.insert(request.lease)),
        Command::Txn(request) => add_leases(request, &mut leases),
        Command::LeaseRevoke { request, expiry_term: None } => drop(leases.insert(request.id)),
        _ => {}
    }
    leases
}

fn add_leases(request: &pb::TxnRequest, leases: &mut BTreeSet<i64>) {
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(Request::RequestPut(request)) => drop(leases.insert(request.lease)),
            Some(Request::RequestTxn(request)) => add_leases(request, leases),
            _ => {}
        }
    }
}

/// A put needs to write its key. The previous version must be readable if it is asked for.
fn check_put(permit: &Permit, request: &pb::PutRequest) -> Result<(), Error> {
    permit.write(&request.key, &[])?;
    if request.prev_kv { permit.read(&request.key, &[]) } else { Ok(()) }
}

fn check_delete(permit: &Permit, request: &pb::DeleteRangeRequest) -> Result<(), Error> {
    permit.write(&request.key, &request.range_end)?;
    if request.prev_kv { permit.read(&request.key, &request.range_end) } else { Ok(()) }
}

/// A transaction needs what all of its compares and operations need, in both branches, nested ones included: which
/// branch is taken tells something about the keys that are compared.
///
/// # Errors
/// As [`Permit::read`].
pub(crate) fn check_txn(permit: &Permit, request: &pb::TxnRequest) -> Result<(), Error> {
    if matches!(permit, Permit::All) {
        return Ok(());
    }
    for compare in &request.compare {
        permit.read(&compare.key, &compare.range_end)?;
    }
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(Request::RequestRange(request)) => permit.read(&request.key, &request.range_end)?,
            Some(Request::RequestPut(request)) => check_put(permit, request)?,
            Some(Request::RequestDeleteRange(request)) => check_delete(permit, request)?,
            Some(Request::RequestTxn(request)) => check_txn(permit, request)?,
            None => {}
        }
    }
    Ok(())
}
