//! Watching clients. Each has one stream with one watch or several, of other ranges and filters. It reads now fast and
//! now slowly, cancels a watch now and then and creates it again, and reconnects from its last revisions when its
//! member is gone.

use std::sync::Arc;

use api::etcdserverpb::watch_create_request::FilterType;
use api::etcdserverpb::watch_request::RequestUnion;
use api::etcdserverpb::{WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchResponse};
use prost::Message;
use store::watch::WatchStream;
use store::{MAX_REQUESTS_AT_ONCE, PermittedWatches, ServedStep};

use super::users::user_of_watcher;
use crate::checks::limits;
use crate::checks::streams::watch_requests::TakenRequests;
use crate::checks::watches::{OwedEvents, WatchOutcome};
use crate::defects::Defect;
use crate::plan::key_names::KeyNames;
use crate::report::trace::Violation;
use crate::simulation::state::{SimWatcher, Simulation};
use crate::world::machine::FRAGMENT_BYTES;
use crate::world::queue::SimEvent;
use crate::world::watch_caller::SimWatchCaller;
use crate::world::watch_stream::SimWatchStream;

const MS: u64 = 1_000_000;

/// Most watches on one stream.
pub(super) const MAX_WATCHES: usize = 3;

/// Requests of a stream that are taken between two responses with events, where clients send many, by stream: so few
/// that they often send more, and the product's number.
const AT_ONCE: [usize; 3] = [2, 11, MAX_REQUESTS_AT_ONCE];

/// The watch id of a response that concerns all watches of its stream.
const NO_WATCH: i64 = -1;

/// What follows from a response.
enum WatchStep {
    GoOn,
    /// This watch was ended by a compaction: it is canceled, and created again from another revision.
    Cancel(i64),
    /// This watch is canceled, and is created again.
    Create(i64),
}

/// What a watch must receive that begins at revision `next`. Its range follows from `number`, its filter from its `id`.
fn first_owed(names: &KeyNames, number: usize, id: usize, next: i64) -> OwedEvents {
    let (key, range_end) = match number % 3 {
        0 => ("\0".into(), "\0".into()),
        1 => (names.name(0).into(), names.name((names.keys / 8).max(5)).into()),
        _ => (names.name(1).into(), "".into()),
    };
    OwedEvents { key, range_end, no_put: id == 2, no_delete: id == 3, next }
}

pub(super) fn create_request(id: i64, owed: &OwedEvents) -> WatchCreateRequest {
    let filters = [(owed.no_put, FilterType::Noput), (owed.no_delete, FilterType::Nodelete)];
    WatchCreateRequest {
        watch_id: id,
        key: owed.key.clone(),
        range_end: owed.range_end.clone(),
        start_revision: owed.next,
        progress_notify: id != 1,
        filters: filters.iter().filter(|(is_set, _)| *is_set).map(|(_, filter)| *filter as i32).collect(),
        ..Default::default()
    }
}

/// How much less often watchers read in a quiet period.
const QUIET_FACTOR: u64 = 20;

impl Simulation {
    /// A watching client reads from its stream, or opens one.
    pub(in crate::simulation) fn watcher_reads(&mut self, watcher: usize) -> Result<(), Violation> {
        let quiet = self.plan.quiet_until(self.now_ns).is_some();
        let factor = if quiet { QUIET_FACTOR } else { 1 };
        let again_ns = [5 * MS, 50 * MS, 900 * MS][self.workload.rng.below(3) as usize] * factor;
        self.queue.schedule(
            self.now_ns + 1 + self.workload.rng.below(again_ns),
            SimEvent::WatcherReads { watcher },
        );
        let at = self.workload.watchers[watcher].connected_to;
        let alive = at.filter(|(member, run)| {
            let machine = &self.machines[*member];
            machine.run == *run && machine.is_up() && !machine.damaged
        });
        match alive {
            None => self.open_watch(watcher)?,
            // Now and then a client reconnects by itself.
            Some((member, _)) if self.workload.rng.below(150) == 0 => {
                if let Some(process) = self.machines[member].process.as_mut() {
                    process.watch_streams.remove(&watcher);
                }
                self.workload.watchers[watcher].connected_to = None;
            }
            Some((member, _)) => self.receive_events(watcher, member, 40)?,
        }
        Ok(())
    }

    fn open_watch(&mut self, watcher: usize) -> Result<(), Violation> {
        self.workload.watchers[watcher].connected_to = None;
        let member = self.workload.rng.below(self.plan.machines() as u64) as usize;
        let machine = &mut self.machines[member];
        let run = machine.run;
        let paused = machine.process.as_ref().is_none_or(|process| process.paused_until_ns > self.now_ns);
        if paused || !machine.serves() || machine.damaged || machine.excluded.is_some() {
            return Ok(());
        }
        let Some(process) = machine.process.as_mut() else { return Ok(()) };
        let reader = &process.opened.reader;
        let current = reader.current_revision();
        let state = &mut self.workload.watchers[watcher];
        state.denied.clear();
        state.revoked.clear();
        state.owed.retain(|id, _| *id <= MAX_WATCHES as i64);
        state.brief_watches = 0;
        for id in 1..=(1 + watcher % MAX_WATCHES) {
            state
                .owed
                .entry(id as i64)
                .or_insert_with(|| first_owed(&self.plan.names, watcher + id, id, current + 1));
        }
        state.inactive.clear();
        // Without users all are anonymous, and nothing changes.
        let is_blind = self.defect == Some(Defect::WatchNotRechecked);
        let caller = SimWatchCaller::new(user_of_watcher(watcher), reader.clone(), is_blind);
        let stream = process.opened.hub.open(Arc::new(|| {}), FRAGMENT_BYTES);
        let watches = PermittedWatches::new(stream, reader, caller);
        let at_once = match self.plan.pipelines {
            true => AT_ONCE[self.workload.stream_rng.below(AT_ONCE.len() as u64) as usize],
            false => MAX_REQUESTS_AT_ONCE,
        };
        state.requests = TakenRequests::new(at_once);
        let is_unlimited = self.defect == Some(Defect::WatchRequestsUnlimited);
        let waits = self.defect == Some(Defect::WatchRequestsWait);
        let limit = if is_unlimited { usize::MAX } else { at_once };
        let stream = SimWatchStream::new(watches, limit, waits);
        let behind = state.owed.values().any(|owed| owed.next <= current);
        let ids: Vec<i64> = state.owed.keys().copied().collect();
        state.loses_event = behind && self.defect == Some(Defect::WatchSkipsEvent);
        state.connected_to = Some((member, run));
        self.coverage.event(if behind { "watches that catch up" } else { "watches that are synced" });
        process.watch_streams.insert(watcher, stream);
        ids.into_iter().try_for_each(|id| self.create_watch(watcher, member, id))
    }

    /// Takes one response. Returns what follows from it.
    fn take_response(&mut self, watcher: usize, response: &WatchResponse) -> Result<WatchStep, Violation> {
        let state = &mut self.workload.watchers[watcher];
        let id = response.watch_id;
        if response.created {
            if !state.revoked.contains(&id) {
                state.inactive.remove(&id);
            }
            return Ok(WatchStep::GoOn);
        }
        if response.canceled && response.compact_revision == 0 && state.revoked.remove(&id) {
            state.denied.insert(id);
            return Ok(WatchStep::GoOn);
        }
        if response.canceled && response.compact_revision == 0 && state.inactive.contains(&id) {
            self.coverage.event("watches canceled");
            if id > MAX_WATCHES as i64 {
                state.owed.remove(&id);
                return Ok(WatchStep::GoOn);
            }
            return Ok(WatchStep::Create(id));
        }
        // Progress of the whole stream speaks for each of its watches.
        let SimWatcher { owed, inactive, .. } = state;
        let named = owed.iter_mut().filter(|(other, _)| **other == id || id == NO_WATCH);
        for (id, owed) in named.filter(|(id, _)| response.watch_id != NO_WATCH || !inactive.contains(id)) {
            if let WatchOutcome::Compacted(revision) = owed.receive(response, &self.checks.history)? {
                self.coverage.event("watches ended by compaction");
                owed.next = revision;
                // Its id is in use until it is canceled.
                return Ok(WatchStep::Cancel(*id));
            }
        }
        Ok(WatchStep::GoOn)
    }

    /// Takes up to `max_responses` from the stream.
    fn receive_events(
        &mut self,
        watcher: usize,
        member: usize,
        max_responses: usize,
    ) -> Result<(), Violation> {
        self.watch_caller_is_known(watcher, member)?;
        if self.workload.rng.percent(10) {
            self.request_of_watcher(watcher, member, RequestUnion::ProgressRequest(WatchProgressRequest {}))?;
            self.with_stream(watcher, member, WatchStream::notify_progress_due);
        }
        if self.workload.rng.percent(3) {
            let watches = self.workload.watchers[watcher].owed.len() as u64;
            let id = 1 + self.workload.rng.below(watches.max(1)) as i64;
            self.cancel_watch(watcher, member, id)?;
        }
        self.send_watch_requests(watcher, member)?;
        self.watch_again(watcher, member)?;
        for number in 0..max_responses {
            match self.next_response_of_watch(watcher, member, number == 0)? {
                Some(ServedStep::Busy) => {}
                Some(ServedStep::Idle) if self.take_arrived(watcher, member)? => {}
                None | Some(ServedStep::Idle | ServedStep::Behind) => break,
                Some(ServedStep::Failed(failure)) => match failure {},
                Some(ServedStep::Damaged(damaged)) => {
                    self.with_stream(watcher, member, |stream| stream.retry_damaged(damaged.address));
                    break;
                }
                Some(ServedStep::Send(frame)) => {
                    let Ok(mut response) = WatchResponse::decode(frame.to_bytes()) else {
                        return Violation::err("watches are complete", "a response that does not decode");
                    };
                    self.workload.watchers[watcher].requests.send(&response)?;
                    limits::response(member, &response, self.plan.names.are_many())?;
                    if self.plan.changes_permissions && !response.created && !response.canceled {
                        self.watch_is_permitted(watcher, member, response.watch_id)?;
                    }
                    let loses_event = &mut self.workload.watchers[watcher].loses_event;
                    if !response.events.is_empty() && std::mem::take(loses_event) {
                        response.events.remove(0);
                    }
                    self.checks.checked += 1;
                    self.trace.mix(&[7, self.now_ns, watcher as u64, response.events.len() as u64]);
                    match self.take_response(watcher, &response)? {
                        WatchStep::GoOn => {}
                        WatchStep::Cancel(id) => self.cancel_watch(watcher, member, id)?,
                        WatchStep::Create(id) => self.create_watch(watcher, member, id)?,
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn cancel_watch(&mut self, watcher: usize, member: usize, id: i64) -> Result<(), Violation> {
        if !self.workload.watchers[watcher].inactive.insert(id) {
            return Ok(());
        }
        let cancel = RequestUnion::CancelRequest(WatchCancelRequest { watch_id: id });
        self.request_of_watcher(watcher, member, cancel)
    }

    /// Does something with a client's stream, if its member has one.
    fn with_stream(&mut self, watcher: usize, member: usize, act: impl FnOnce(&mut WatchStream)) {
        if let Some(stream) = self.watch_stream(watcher, member) {
            act(stream.stream());
        }
    }

    /// At the end every watcher receives all that its member has applied.
    pub(in crate::simulation) fn check_watchers(&mut self) -> Result<(), Violation> {
        for watcher in 0..self.workload.watchers.len() {
            let Some((member, run)) = self.workload.watchers[watcher].connected_to else { continue };
            if self.machines[member].run != run {
                continue;
            }
            self.receive_events(watcher, member, 100_000)?;
            let state = &self.workload.watchers[watcher];
            let is_connected = state.connected_to.is_some();
            let process = self.machines[member].process.as_ref();
            let here = process.map_or(0, |process| process.opened.reader.current_revision());
            let is_watched = |id: &i64| !state.denied.contains(id) && !state.revoked.contains(id);
            let mut owed = state.owed.iter().filter(|(id, _)| is_watched(id));
            if is_connected && owed.any(|(_, owed)| owed.is_owed(&self.checks.history, here)) {
                let text = format!("a watcher at member {member} never got the rest: {:?}", state.owed);
                return Violation::err("watches are complete", text);
            }
        }
        Ok(())
    }
}
