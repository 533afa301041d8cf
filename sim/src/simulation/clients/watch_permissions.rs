//! The permissions of watching clients, as a server asks for them: when a watch begins, and around each response.
//!
//! A response is taken from the stream between two looks at the auth revision. The first look may be long ago, as when
//! a thread was stopped in between; then the second one finds what has changed, and drops what was taken.

use store::Caller;

use super::users::user_of_watcher;
use crate::checks::permissions::CHECK;
use crate::checks::permissions::model::KeyAccess;
use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;

impl Simulation {
    /// Whether a watch may begin on a member.
    pub(super) fn may_watch(&mut self, watcher: usize, member: usize, id: i64) -> Result<bool, Violation> {
        if !self.plan.changes_permissions {
            return Ok(true);
        }
        let Some(owed) = self.workload.watchers[watcher].owed.get(&id) else { return Ok(false) };
        let (start, end) = (owed.key.clone(), owed.range_end.clone());
        let is_permitted = self.check_watched(watcher, member, &start, &end)?;
        let state = &mut self.workload.watchers[watcher];
        if !is_permitted {
            self.coverage.event("watches denied");
            state.denied.insert(id);
            state.inactive.insert(id);
        }
        Ok(is_permitted)
    }

    /// Whether the user of a watching client may read a range on a member, which must be what the model says.
    fn check_watched(
        &mut self,
        watcher: usize,
        member: usize,
        start: &[u8],
        end: &[u8],
    ) -> Result<bool, Violation> {
        let state = self.auth_state(member)?;
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(false) };
        let caller = present(watcher);
        let checked = process.opened.reader.check_range(&caller, start, end);
        let expected = state.access(&caller, KeyAccess::Read, start, end);
        if checked != expected {
            let text = format!(
                "{caller:?} watches {start:?}..{end:?}: {checked:?}, the model says {expected:?} in {state:?}"
            );
            return Violation::err(CHECK, text);
        }
        Ok(checked.is_ok())
    }

    /// Revokes the watches of a stream that are not permitted any more, if users or roles have changed since the last
    /// look. Returns their ids.
    pub(super) fn recheck_watches(&mut self, watcher: usize, member: usize) -> Result<Vec<i64>, Violation> {
        let process = self.machines[member].process.as_ref();
        let (Some(process), true) = (process, self.plan.changes_permissions) else { return Ok(Vec::new()) };
        let now = (process.opened.reader.auth_revision(), process.opened.reader.is_auth_enabled());
        let is_checked = self.workload.watchers[watcher].checked_at == now;
        if is_checked || self.defect == Some(Defect::WatchNotRechecked) {
            return Ok(Vec::new());
        }
        let mut ranges = Vec::new();
        self.with_stream(watcher, member, |stream, state| {
            let owned = |(id, start, end): (i64, &[u8], &[u8])| (id, start.to_vec(), end.to_vec());
            ranges = stream.ranges().map(owned).collect();
            state.checked_at = now;
        });
        let mut revoked = Vec::new();
        for (id, start, end) in ranges {
            if !self.check_watched(watcher, member, &start, &end)? {
                self.coverage.event("watches revoked");
                self.with_stream(watcher, member, |stream, state| {
                    stream.revoke(id, "permission denied".to_owned());
                    state.inactive.insert(id);
                    state.revoked.insert(id);
                });
                revoked.push(id);
            }
        }
        Ok(revoked)
    }

    /// A response with events, or with progress of one watch, leaves: its user may read the range at this moment.
    pub(super) fn watch_is_permitted(
        &mut self,
        watcher: usize,
        member: usize,
        id: i64,
    ) -> Result<(), Violation> {
        let Some(owed) = self.workload.watchers[watcher].owed.get(&id) else { return Ok(()) };
        let (start, end) = (owed.key.clone(), owed.range_end.clone());
        let state = self.auth_state(member)?;
        self.coverage.event("watch responses permitted");
        match state.access(&present(watcher), KeyAccess::Read, &start, &end) {
            Ok(()) => Ok(()),
            Err(error) => {
                let name = user_of_watcher(watcher);
                let text = format!("{name} is sent events of {start:?}..{end:?}, in {state:?}: {error}");
                Violation::err(CHECK, text)
            }
        }
    }

    /// Creates the watches that were denied, as far as they are permitted by now.
    pub(super) fn watch_again(&mut self, watcher: usize, member: usize) -> Result<(), Violation> {
        if self.workload.watchers[watcher].denied.is_empty() || !self.workload.rng.percent(30) {
            return Ok(());
        }
        for id in std::mem::take(&mut self.workload.watchers[watcher].denied) {
            self.create_watch(watcher, member, id)?;
        }
        Ok(())
    }
}

/// The user of a watching client. Its watches are the user's, whatever the auth revision is by now.
fn present(watcher: usize) -> Caller {
    Caller::User { name: user_of_watcher(watcher).into(), revision: u64::MAX }
}
