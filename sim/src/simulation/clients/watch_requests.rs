//! The requests of watching clients. Where clients send many at once, these wait on the stream while events leave, and
//! now and then for the token of their caller; elsewhere a stream takes each one when it arrives.

use api::etcdserverpb::WatchProgressRequest;
use api::etcdserverpb::watch_request::RequestUnion;

use super::watches::MAX_WATCHES;
use crate::checks::watches::OwedEvents;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::watch_stream::SimWatchStream;

/// Percentage of visits of a client in which it sends many requests.
const BURST_PERCENT: u64 = 12;

/// Most requests that are sent together.
const BURSTS: [u64; 3] = [3, 30, 150];

/// Watches of a stream that a client adds for a while, at most about this many.
const MAX_BRIEF_WATCHES: usize = 60;

/// The first revision of such a watch is at most this many before the newest one.
const MAX_REVISIONS_BEHIND: u64 = 60;

/// Percentage of bursts that wait for the token of their caller, where users change.
const BEHIND_PERCENT: u64 = 15;

impl Simulation {
    /// A client's stream, if its member has one.
    pub(super) fn watch_stream(&mut self, watcher: usize, member: usize) -> Option<&mut SimWatchStream> {
        self.machines[member].process.as_mut()?.watch_streams.get_mut(&watcher)
    }

    /// A request arrives on the stream of a client.
    pub(super) fn request_of_watcher(
        &mut self,
        watcher: usize,
        member: usize,
        request: RequestUnion,
    ) -> Result<(), Violation> {
        let waits = self.plan.pipelines;
        let Some(stream) = self.watch_stream(watcher, member) else { return Ok(()) };
        stream.arrive(request);
        if waits { Ok(()) } else { self.take_arrived(watcher, member).map(drop) }
    }

    /// An idle stream takes a request. Returns whether one had arrived.
    pub(super) fn take_arrived(&mut self, watcher: usize, member: usize) -> Result<bool, Violation> {
        let Some(stream) = self.watch_stream(watcher, member) else { return Ok(false) };
        stream.take_arrived();
        let taken = stream.take_taken();
        self.workload.watchers[watcher].requests.take(&taken)?;
        self.watches_are_decided(watcher, member)?;
        Ok(!taken.is_empty())
    }

    /// The member of a stream catches up with the token of its caller.
    pub(super) fn watch_caller_is_known(&mut self, watcher: usize, member: usize) -> Result<(), Violation> {
        if self.plan.pipelines
            && let Some(stream) = self.watch_stream(watcher, member)
        {
            stream.catch_up();
            self.watches_are_decided(watcher, member)?;
        }
        Ok(())
    }

    /// A client sends many requests at once, now and then: it creates watches for a while, most of which have events to
    /// catch up with, cancels them, and asks for progress.
    pub(super) fn send_watch_requests(&mut self, watcher: usize, member: usize) -> Result<(), Violation> {
        if !self.plan.pipelines || self.ending.faults_stopped_ns.is_some() {
            return Ok(());
        }
        let rng = &mut self.workload.stream_rng;
        if !rng.percent(BURST_PERCENT) {
            return Ok(());
        }
        let most = BURSTS[rng.below(BURSTS.len() as u64) as usize];
        let requests = rng.between(1, most);
        let is_behind = self.plan.changes_permissions && rng.percent(BEHIND_PERCENT);
        self.coverage.event("bursts of watch requests");
        if is_behind && let Some(stream) = self.watch_stream(watcher, member) {
            stream.caller().set_behind(true);
        }
        for _ in 0..requests {
            self.send_watch_request(watcher, member)?;
        }
        Ok(())
    }

    fn send_watch_request(&mut self, watcher: usize, member: usize) -> Result<(), Violation> {
        let (rng, state) = (&mut self.workload.stream_rng, &mut self.workload.watchers[watcher]);
        let is_brief = |id: &&i64| **id > MAX_WATCHES as i64;
        let brief: Vec<i64> =
            state.owed.keys().filter(is_brief).filter(|id| !state.inactive.contains(*id)).copied().collect();
        match rng.below(10) {
            0 => {
                let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
                self.request_of_watcher(watcher, member, progress)
            }
            1..=4 if !brief.is_empty() => {
                let id = brief[rng.below(brief.len() as u64) as usize];
                self.cancel_watch(watcher, member, id)
            }
            _ if state.owed.len() > MAX_BRIEF_WATCHES => Ok(()),
            _ => {
                let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
                let newest = process.opened.reader.current_revision();
                let next = (newest - rng.below(MAX_REVISIONS_BEHIND) as i64).max(1);
                let key = self.plan.names.name(rng.below(self.plan.names.keys)).into();
                state.brief_watches += 1;
                let id = MAX_WATCHES as i64 + state.brief_watches;
                let owed = OwedEvents { key, range_end: "".into(), no_put: false, no_delete: false, next };
                state.owed.insert(id, owed);
                self.create_watch(watcher, member, id)
            }
        }
    }
}
