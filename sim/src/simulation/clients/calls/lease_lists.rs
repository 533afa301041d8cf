//! The list of all leases.
//!
//! The steps are those of a server (`store::LeaseList`), with so few leases in one that users, roles, leases and
//! keys change between them.

use std::collections::BTreeSet;

use api::Error;
use bytes::Bytes;
use store::Caller;

use crate::checks::permissions::CHECK;
use crate::checks::permissions::model::KeyAccess;
use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::{ListedLeases, Simulation, SteppedCall};
use crate::world::request::PendingRequest;

/// Most leases in one step.
const MAX_LEASES: u64 = 4;

impl Simulation {
    /// A list of leases begins; its caller was looked up.
    pub(in crate::simulation::clients) fn begin_list(&mut self, member: usize, pending: PendingRequest) {
        let Some(process) = self.machines[member].process.as_ref() else { return };
        let reader = &process.opened.reader;
        let from = (reader.applied().index, reader.current_revision());
        let is_unchecked = self.defect == Some(Defect::LeasesListedUnchecked);
        let caller = if is_unchecked { Caller::Internal } else { pending.caller.clone() };
        let max_leases = self.workload.call_rng.between(1, MAX_LEASES) as usize;
        let list = reader.list_leases(caller, max_leases);
        let number = pending.number;
        let listed = ListedLeases { pending, list, from };
        self.call_waits(member, number, SteppedCall::Leases(Box::new(listed)));
    }

    pub(super) fn step_list(
        &mut self,
        member: usize,
        mut listed: Box<ListedLeases>,
    ) -> Result<(), Violation> {
        let number = listed.pending.number;
        match listed.list.step() {
            Ok(None) => {
                self.call_waits(member, number, SteppedCall::Leases(listed));
                return Ok(());
            }
            Ok(Some(mut leases)) => {
                if self.defect == Some(Defect::LeaseListSkips) && leases.len() > 1 {
                    leases.remove(1);
                }
                self.leases_are_listed(member, &listed, &leases)?;
            }
            Err(error) => self.list_is_refused(member, &listed, error)?,
        }
        self.checks.checked += 1;
        self.request_is_over(listed.pending.client, number);
        Ok(())
    }

    /// The leases must be those that the member knew all the while, and the caller may read the keys that they had all
    /// the while.
    fn leases_are_listed(
        &mut self,
        member: usize,
        listed: &ListedLeases,
        leases: &[i64],
    ) -> Result<(), Violation> {
        let state = self.auth_state(member)?;
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        let (applied, revision) = (process.opened.reader.applied(), process.opened.reader.current_revision());
        self.checks.auth.listed(leases, listed.from.0, applied)?;
        self.coverage.event("lists of leases checked");
        let (caller, (now, is_enabled)) = (&listed.pending.caller, state.position());
        let is_present = match caller {
            Caller::Internal => true,
            Caller::Anonymous => !is_enabled,
            Caller::User { revision, .. } => *revision == now,
        };
        let kept = self.keys_kept(listed.from.1, revision, leases);
        let denied = kept.iter().find(|key| state.access(caller, KeyAccess::Read, key, &[]).is_err());
        if is_present && (denied.is_none() || state.is_root(caller)) {
            return Ok(());
        }
        let text = format!("{caller:?} learns of {leases:?} with {denied:?}, in {state:?}");
        Violation::err(CHECK, text)
    }

    /// The keys that leases had at a revision and had up to another one, as far as these are known.
    fn keys_kept(&self, from: i64, through: i64, leases: &[i64]) -> Vec<Bytes> {
        let history = &self.checks.history;
        if through > history.revision() {
            return Vec::new();
        }
        let changed: BTreeSet<&Bytes> =
            history.between(from + 1, through).map(|(_, change)| &change.key).collect();
        let attached = history.view(from).all().filter(|kv| leases.contains(&kv.lease));
        attached.map(|kv| &kv.key).filter(|key| !changed.contains(key)).cloned().collect()
    }

    /// A list is refused if users or roles have changed, or for a key that a lease has had meanwhile.
    fn list_is_refused(
        &mut self,
        member: usize,
        listed: &ListedLeases,
        error: Error,
    ) -> Result<(), Violation> {
        let state = self.auth_state(member)?;
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        let revision = process.opened.reader.current_revision();
        self.coverage.event("lists of leases refused");
        let (caller, (now, is_enabled)) = (&listed.pending.caller, state.position());
        let history = &self.checks.history;
        let is_explained = match (error, caller) {
            (Error::UserEmpty, Caller::Anonymous) => is_enabled,
            (Error::AuthOldRevision, Caller::User { revision: named, .. }) => *named != now,
            (Error::PermissionDenied, _) if revision > history.revision() => true,
            (Error::PermissionDenied, Caller::User { .. }) => {
                let (before, since) =
                    (history.view(listed.from.1), history.between(listed.from.1 + 1, revision));
                let kvs = before.all().chain(since.filter_map(|(_, change)| change.kv.as_ref()));
                let mut keys = kvs.filter(|kv| kv.lease != 0).map(|kv| &kv.key);
                !state.is_root(caller)
                    && keys.any(|key| state.access(caller, KeyAccess::Read, key, &[]) == Err(error))
            }
            _ => false,
        };
        if is_explained {
            return Ok(());
        }
        let text = format!("{caller:?} is refused the leases ({error}) in {state:?}");
        Violation::err(CHECK, text)
    }
}
