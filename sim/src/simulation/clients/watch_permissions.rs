//! The steps of a watch stream, and the permissions of its client: what a member decides (`store::PermittedWatches`),
//! held against the model.
//!
//! A member looks at the auth revision before it takes a response from a stream, and behind it. The first look may be
//! long ago, as when a thread was stopped in between; then the second one finds what has changed, and drops what was
//! taken.

use std::convert::Infallible;

use api::etcdserverpb::WatchResponse;
use api::etcdserverpb::watch_request::RequestUnion;
use prost::Message;
use store::{Caller, ServedStep};

use super::users::user_of_watcher;
use super::watches::{MAX_WATCHES, create_request};
use crate::checks::permissions::CHECK;
use crate::checks::permissions::model::KeyAccess;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::watch_stream::{DecidedWatch, SimWatchStream};

/// Percentage of visits of a client at whose beginning its member has looked at the auth revision long ago.
const LOOKED_PERCENT: u64 = 50;

impl Simulation {
    /// Asks a member for a watch.
    pub(super) fn create_watch(&mut self, watcher: usize, member: usize, id: i64) -> Result<(), Violation> {
        let state = &mut self.workload.watchers[watcher];
        let Some(owed) = state.owed.get(&id) else { return Ok(()) };
        let request = RequestUnion::CreateRequest(create_request(id, owed));
        state.inactive.insert(id);
        self.request_of_watcher(watcher, member, request)
    }

    /// The member has created watches, or refused them; by what their user may read at this moment.
    pub(super) fn watches_are_decided(&mut self, watcher: usize, member: usize) -> Result<(), Violation> {
        let Some(stream) = self.watch_stream(watcher, member) else { return Ok(()) };
        for DecidedWatch { request, is_created } in stream.take_decided() {
            let is_permitted = self.may_watch(watcher, member, &request.key, &request.range_end)?;
            if is_created != is_permitted {
                let name = user_of_watcher(watcher);
                let state = self.auth_state(member)?;
                let text = format!("{name} watches {request:?}, created: {is_created}, in {state:?}");
                return Violation::err(CHECK, text);
            }
            if is_created {
                continue;
            }
            self.coverage.event("watches denied");
            let state = &mut self.workload.watchers[watcher];
            if request.watch_id > MAX_WATCHES as i64 {
                state.owed.remove(&request.watch_id);
            } else {
                state.denied.insert(request.watch_id);
            }
        }
        Ok(())
    }

    /// The next step of a stream; the first one of a visit or another. Notes which watches are canceled because
    /// their user may not read their ranges any more. One that is canceled without this reason is noticed by its
    /// answer.
    pub(super) fn next_response_of_watch(
        &mut self,
        watcher: usize,
        member: usize,
        is_first: bool,
    ) -> Result<Option<ServedStep<Infallible>>, Violation> {
        let changes = self.plan.changes_permissions;
        let has_looked = is_first && changes && self.workload.rng.percent(LOOKED_PERCENT);
        let Some(watches) = self.watch_stream(watcher, member) else { return Ok(None) };
        if has_looked {
            watches.caller().stop_after_look();
        }
        let mut gone = if changes { ranges_of(watches) } else { Vec::new() };
        let next = watches.next();
        let taken = watches.take_taken();
        if changes {
            let left: Vec<i64> = watches.stream().ranges().map(|(id, ..)| id).collect();
            gone.retain(|(id, ..)| {
                !left.contains(id) && !is_canceled(&taken, *id) && !is_compacted(&next, *id)
            });
        }
        let arrived = watches.arrived();
        let requests = &mut self.workload.watchers[watcher].requests;
        requests.take(&taken)?;
        requests.leave(arrived);
        match &next {
            ServedStep::Busy if !gone.is_empty() => {
                let ids: Vec<i64> = gone.iter().map(|(id, ..)| *id).collect();
                requests.drop_response(&ids);
            }
            // A value is looked at behind the answers only, so damage ends their round as events do.
            ServedStep::Busy | ServedStep::Idle | ServedStep::Damaged(_) => requests.step()?,
            ServedStep::Behind => requests.hold(),
            ServedStep::Send(_) | ServedStep::Failed(_) => {}
        }
        self.watches_are_decided(watcher, member)?;
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

/// The watches of a stream: their ids, and the first key and the end of their ranges.
fn ranges_of(watches: &mut SimWatchStream) -> Vec<(i64, Vec<u8>, Vec<u8>)> {
    let owned = |(id, start, end): (i64, &[u8], &[u8])| (id, start.to_vec(), end.to_vec());
    watches.stream().ranges().map(owned).collect()
}

/// Whether the client itself cancels a watch with one of these requests.
fn is_canceled(taken: &[RequestUnion], id: i64) -> bool {
    taken.iter().any(|request| match request {
        RequestUnion::CancelRequest(cancel) => cancel.watch_id == id,
        RequestUnion::CreateRequest(_) | RequestUnion::ProgressRequest(_) => false,
    })
}

/// Whether a response ends a watch because what it needs was compacted.
fn is_compacted(next: &ServedStep<Infallible>, id: i64) -> bool {
    let ServedStep::Send(frame) = next else { return false };
    let response = WatchResponse::decode(frame.to_bytes());
    frame.watch_id == id && response.is_ok_and(|response| response.compact_revision > 0)
}

/// The user of a watching client. Its watches are the user's, whatever the auth revision is by now.
fn present(watcher: usize) -> Caller {
    Caller::User { name: user_of_watcher(watcher).into(), revision: u64::MAX }
}
