//! The permissions of watching clients: what a member decides (`store::PermittedWatches`), held against the model.
//!
//! A member looks at the auth revision before it takes a response from a stream, and behind it. The first look may be
//! long ago, as when a thread was stopped in between; then the second one finds what has changed, and drops what was
//! taken.

use api::etcdserverpb::WatchResponse;
use prost::Message;
use store::watch::NextResponse;
use store::{Caller, Damaged};

use super::users::user_of_watcher;
use super::watches::create_request;
use crate::checks::permissions::CHECK;
use crate::checks::permissions::model::KeyAccess;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;

/// Percentage of visits of a client at whose beginning its member has looked at the auth revision long ago.
const LOOKED_PERCENT: u64 = 50;

impl Simulation {
    /// Creates a watch on a member, if its user may have it.
    pub(super) fn create_watch(&mut self, watcher: usize, member: usize, id: i64) -> Result<(), Violation> {
        let Some(owed) = self.workload.watchers[watcher].owed.get(&id).cloned() else { return Ok(()) };
        let request = create_request(id, &owed);
        let process = self.machines[member].process.as_mut();
        let watches = process.and_then(|process| process.watch_streams.get_mut(&watcher));
        let Some(is_created) = watches.map(|watches| watches.create(&request).is_some()) else {
            return Ok(());
        };
        self.workload.watchers[watcher].inactive.insert(id);
        let is_permitted = self.may_watch(watcher, member, &owed.key, &owed.range_end)?;
        if is_created != is_permitted {
            let name = user_of_watcher(watcher);
            let state = self.auth_state(member)?;
            let text = format!("{name} watches {owed:?}, created: {is_created}, in {state:?}");
            return Violation::err(CHECK, text);
        }
        if !is_created {
            self.coverage.event("watches denied");
            self.workload.watchers[watcher].denied.insert(id);
        }
        Ok(())
    }

    /// The next response of a stream; the first one of a visit or another. Notes which watches are canceled because
    /// their user may not read their ranges any more. One that is canceled without this reason is noticed by its answer.
    pub(super) fn next_response_of_watch(
        &mut self,
        watcher: usize,
        member: usize,
        is_first: bool,
    ) -> Result<Option<Result<NextResponse, Damaged>>, Violation> {
        let changes = self.plan.changes_permissions;
        let has_looked = is_first && changes && self.workload.rng.percent(LOOKED_PERCENT);
        let process = self.machines[member].process.as_mut();
        let watches = process.and_then(|process| process.watch_streams.get_mut(&watcher));
        let Some(watches) = watches else { return Ok(None) };
        if !changes {
            return Ok(Some(watches.next(0)));
        }
        if has_looked {
            watches.caller().stop_after_look();
        }
        let owned = |(id, start, end): (i64, &[u8], &[u8])| (id, start.to_vec(), end.to_vec());
        let mut gone: Vec<_> = watches.stream().ranges().map(owned).collect();
        let next = watches.next(0);
        let left: Vec<i64> = watches.stream().ranges().map(|(id, ..)| id).collect();
        gone.retain(|(id, ..)| !left.contains(id) && !is_compacted(&next, *id));
        for (id, start, end) in gone {
            if self.may_watch(watcher, member, &start, &end)? {
                continue;
            }
            self.coverage.event("watches revoked");
            let state = &mut self.workload.watchers[watcher];
            state.inactive.insert(id);
            state.revoked.insert(id);
        }
        Ok(Some(next))
    }

    /// Whether the user of a watching client may read a range, by the model.
    fn may_watch(
        &mut self,
        watcher: usize,
        member: usize,
        start: &[u8],
        end: &[u8],
    ) -> Result<bool, Violation> {
        if !self.plan.changes_permissions {
            return Ok(true);
        }
        let state = self.auth_state(member)?;
        Ok(state.access(&present(watcher), KeyAccess::Read, start, end).is_ok())
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

/// Whether a response ends a watch because what it needs was compacted.
fn is_compacted(next: &Result<NextResponse, Damaged>, id: i64) -> bool {
    let Ok(NextResponse::Send(frame)) = next else { return false };
    let response = WatchResponse::decode(frame.to_bytes());
    frame.watch_id == id && response.is_ok_and(|response| response.compact_revision > 0)
}

/// The user of a watching client. Its watches are the user's, whatever the auth revision is by now.
fn present(watcher: usize) -> Caller {
    Caller::User { name: user_of_watcher(watcher).into(), revision: u64::MAX }
}
