//! Answers to commands and lease calls, held against the model of users and roles.
//!
//! A command is judged at its place in the log. The keys of its leases are those of the revision at which it was
//! carried out; if it was refused, those that the lease has had since it was sent.

use std::sync::Arc;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;
use store::{Caller, Reader, Response};

use crate::checks::permissions::model::{AuthModel, KeyAccess};
use crate::checks::permissions::{CHECK, same_users};
use crate::checks::strict_serializability::{author, revision_of};
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::request::{ClientRequest, PendingRequest};

/// Why a caller may not do something, or which state may be in force without the one that was asked for.
const PERMISSION_ERRORS: [Error; 4] =
    [Error::PermissionDenied, Error::AuthOldRevision, Error::UserEmpty, Error::UserNotFound];

impl Simulation {
    /// The users and roles of a member, which must be those of the model at this index.
    pub(in crate::simulation) fn auth_state(&mut self, member: usize) -> Result<Arc<AuthModel>, Violation> {
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(Arc::default()) };
        let reader = &process.opened.reader;
        let shown = (reader.auth_revision(), reader.is_auth_enabled());
        let state = self.checks.auth.state_of(member, reader.applied(), shown)?;
        if process.users_at.replace(shown) != Some(shown) {
            same_users(member, reader, &state)?;
        }
        Ok(state)
    }

    /// A command was carried out.
    pub(super) fn was_permitted(
        &mut self,
        member: usize,
        pending: &PendingRequest,
        response: &Response,
    ) -> Result<(), Violation> {
        let process = self.machines[member].process.as_ref();
        let (Some(process), true) = (process, self.plan.changes_permissions) else { return Ok(()) };
        let verdict = self.checks.auth.verdict(process.opened.reader.applied(), pending.id)?;
        let (caller, request) = (&pending.caller, &pending.request);
        if let Err(error) = verdict.outcome {
            let text = format!("{caller:?}: {request:?} was carried out, the model says: {error}");
            return Violation::err(CHECK, text);
        }
        self.coverage.event("commands of users permitted");
        let state = verdict.state.clone();
        if state.is_root(caller) {
            return Ok(());
        }
        let keys = self.lease_keys_met(pending, revision_of(response));
        for key in keys {
            if let Err(error) = state.access(caller, KeyAccess::Write, &key, &[]) {
                let text =
                    format!("{caller:?}: {request:?} was carried out, but its lease has {key:?}: {error}");
                return Violation::err(CHECK, text);
            }
        }
        Ok(())
    }

    /// The keys that the leases of a command had when it was carried out, as far as that is certain.
    fn lease_keys_met(&self, pending: &PendingRequest, revision: i64) -> Vec<Bytes> {
        let history = &self.checks.history;
        let leases = leases_of(&pending.request);
        let Some(changes) = history.at(revision).filter(|_| !leases.is_empty()) else { return Vec::new() };
        let before = history.view(revision - 1);
        let attached = before.all().filter(|kv| leases.contains(&kv.lease)).map(|kv| kv.key.clone());
        let attached: Vec<Bytes> = attached.collect();
        let is_own = match &pending.request {
            ClientRequest::Revoke(_) => {
                attached.iter().eq(changes.iter().map(|change| &change.key))
                    && changes.iter().all(|change| change.kv.is_none())
                    && !self.checks.serializability.may_be_of_another(pending.number, revision, history)
            }
            _ => {
                let values = changes.iter().filter_map(|change| change.kv.as_ref());
                values.into_iter().any(|kv| author(&kv.value) == Some(pending.number))
            }
        };
        if is_own { attached } else { Vec::new() }
    }

    /// A command was refused. Returns whether its caller's permissions are the reason, or it is a change of users and
    /// roles.
    pub(super) fn was_refused(
        &mut self,
        member: usize,
        pending: &PendingRequest,
        error: Error,
    ) -> Result<bool, Violation> {
        let process = self.machines[member].process.as_ref();
        let (Some(process), true) = (process, self.plan.changes_permissions) else { return Ok(false) };
        let verdict = self.checks.auth.verdict(process.opened.reader.applied(), pending.id)?.clone();
        let is_change = matches!(pending.request, ClientRequest::Auth(_));
        let fits = match verdict.outcome {
            // The alarms are asked first.
            _ if matches!(error, Error::NoSpace | Error::Corrupt) => return Ok(false),
            Err(expected) => error == expected,
            Ok(()) if is_change => false,
            Ok(()) if PERMISSION_ERRORS.contains(&error) => {
                self.lease_explains(&verdict.state, pending, error)
            }
            Ok(()) => return Ok(false),
        };
        if !fits {
            let (caller, request) = (&pending.caller, &pending.request);
            let text = format!(
                "{caller:?}: {request:?} was refused ({error}), the model says {:?} in {:?}",
                verdict.outcome, verdict.state
            );
            return Violation::err(CHECK, text);
        }
        self.coverage.event(match error {
            Error::AuthOldRevision => "auth revisions that were old",
            _ if is_change => "changes of permissions refused",
            _ => "permissions denied",
        });
        Ok(true)
    }

    /// Whether a lease of a command has had a key, since the command was sent, that its caller is refused for.
    fn lease_explains(&self, state: &AuthModel, pending: &PendingRequest, error: Error) -> bool {
        let (history, leases) = (&self.checks.history, leases_of(&pending.request));
        let before = history.view(pending.after);
        let since = history.between(pending.after + 1, history.revision());
        let kvs = before.all().chain(since.filter_map(|(_, change)| change.kv.as_ref()));
        let mut keys = kvs.filter(|kv| leases.contains(&kv.lease)).map(|kv| &kv.key);
        keys.any(|key| state.access(&pending.caller, KeyAccess::Write, key, &[]) == Err(error))
    }

    /// What a server asks before it renews a lease, or tells its keys. Returns whether the caller may.
    pub(super) fn check_lease_call(
        &mut self,
        member: usize,
        caller: &Caller,
        lease: i64,
        renews: bool,
    ) -> Result<bool, Violation> {
        let state = self.auth_state(member)?;
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(false) };
        let reader = &process.opened.reader;
        let revision = reader.current_revision();
        let history = &self.checks.history;
        let attached = history.view(revision).all().filter(|kv| kv.lease == lease).map(|kv| kv.key.clone());
        let keys: Vec<Bytes> = attached.collect();
        let (answered, expected) = match renews {
            true => (access_to_renew(reader, caller, lease), may_renew(&state, caller, &keys).map(|()| None)),
            false => {
                let reads = |key: &Bytes| state.access(caller, KeyAccess::Read, key, &[]);
                let expected = keys.iter().try_for_each(reads).map(|()| Some(keys));
                (keys_of_lease(reader, caller, lease), expected)
            }
        };
        // The watch of a damaged member waits for repair: what it has applied is not known yet.
        if revision <= history.revision() && answered != expected {
            let text = format!(
                "member {member}, {caller:?}, lease {lease}, renews {renews}: {answered:?}, the model says {expected:?}"
            );
            return Violation::err(CHECK, text);
        }
        self.coverage.event(if answered.is_ok() { "lease calls permitted" } else { "lease calls denied" });
        Ok(answered.is_ok())
    }
}

fn may_renew(state: &AuthModel, caller: &Caller, keys: &[Bytes]) -> Result<(), Error> {
    state.judge(caller, &ClientRequest::KeepAlive { lease: 0, renew: true })?;
    match state.is_root(caller) {
        true => Ok(()),
        false => keys.iter().try_for_each(|key| state.access(caller, KeyAccess::Write, key, &[])),
    }
}

fn access_to_renew(reader: &Reader, caller: &Caller, lease: i64) -> Result<Option<Vec<Bytes>>, Error> {
    let mut access = reader.access_to_renew(caller.clone(), lease);
    while !access.step()? {}
    Ok(None)
}

fn keys_of_lease(reader: &Reader, caller: &Caller, lease: i64) -> Result<Option<Vec<Bytes>>, Error> {
    let mut scan = reader.lease_keys(lease);
    loop {
        if let Some(keys) = scan.step_as(caller)? {
            return Ok(Some(keys));
        }
    }
}

/// The leases that a command names.
fn leases_of(request: &ClientRequest) -> Vec<i64> {
    let mut leases = Vec::new();
    match request {
        ClientRequest::Put(put) => leases.push(put.lease),
        ClientRequest::Txn(txn) => leases_of_txn(txn, &mut leases),
        ClientRequest::Revoke(revoke) => leases.push(revoke.id),
        _ => {}
    }
    leases.retain(|lease| *lease != 0);
    leases
}

fn leases_of_txn(txn: &pb::TxnRequest, leases: &mut Vec<i64>) {
    for op in txn.success.iter().chain(&txn.failure) {
        match &op.request {
            Some(Request::RequestPut(put)) => leases.push(put.lease),
            Some(Request::RequestTxn(nested)) => leases_of_txn(nested, leases),
            _ => {}
        }
    }
}
