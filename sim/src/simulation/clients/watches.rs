//! Watching clients. Each watches one range, reads now fast and now slowly, and reconnects from its last revision when
//! its member is gone.

use std::sync::Arc;

use api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use prost::Message;
use store::watch::NextResponse;

use crate::checks::limits;
use crate::checks::watches::{OwedEvents, WatchOutcome};
use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::machine::FRAGMENT_BYTES;
use crate::world::queue::SimEvent;

const MS: u64 = 1_000_000;

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
            None => self.open_watch(watcher),
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

    fn open_watch(&mut self, watcher: usize) {
        self.workload.watchers[watcher].connected_to = None;
        let member = self.workload.rng.below(self.plan.machines() as u64) as usize;
        let machine = &mut self.machines[member];
        let run = machine.run;
        let paused = machine.process.as_ref().is_none_or(|process| process.paused_until_ns > self.now_ns);
        if paused || !machine.serves() || machine.damaged || machine.excluded.is_some() {
            return;
        }
        let Some(process) = machine.process.as_mut() else { return };
        let owed = self.workload.watchers[watcher].owed.get_or_insert_with(|| {
            let (key, range_end) = match watcher % 3 {
                0 => ("\0".into(), "\0".into()),
                1 => ("k00".into(), "k05".into()),
                _ => ("k01".into(), "".into()),
            };
            OwedEvents { key, range_end, next: process.opened.reader.current_revision() + 1 }
        });
        let mut stream = process.opened.hub.open(Arc::new(|| {}), FRAGMENT_BYTES);
        stream.create(&WatchCreateRequest {
            key: owed.key.clone(),
            range_end: owed.range_end.clone(),
            start_revision: owed.next,
            progress_notify: watcher.is_multiple_of(2),
            ..Default::default()
        });
        let behind = owed.next <= process.opened.reader.current_revision();
        self.workload.watchers[watcher].loses_event = behind && self.defect == Some(Defect::WatchSkipsEvent);
        self.coverage.event(if behind { "watches that catch up" } else { "watches that are synced" });
        process.watch_streams.insert(watcher, stream);
        self.workload.watchers[watcher].connected_to = Some((member, run));
    }

    /// Takes up to `max_responses` from the stream.
    fn receive_events(
        &mut self,
        watcher: usize,
        member: usize,
        max_responses: usize,
    ) -> Result<(), Violation> {
        let state = &mut self.workload.watchers[watcher];
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(()) };
        let Some(stream) = process.watch_streams.get_mut(&watcher) else { return Ok(()) };
        if self.workload.rng.percent(10) {
            stream.progress();
            stream.notify_progress_due();
        }
        for _ in 0..max_responses {
            match stream.next(0) {
                Ok(NextResponse::Busy) => {}
                Ok(NextResponse::Idle) => break,
                Err(_) => {
                    stream.retry_damaged();
                    break;
                }
                Ok(NextResponse::Send(frame)) => {
                    let Ok(mut response) = WatchResponse::decode(frame.to_bytes()) else {
                        return Violation::err("watches are complete", "a response that does not decode");
                    };
                    limits::response(member, &response)?;
                    if !response.events.is_empty() && std::mem::take(&mut state.loses_event) {
                        response.events.remove(0);
                    }
                    let Some(owed) = state.owed.as_mut() else { break };
                    self.checks.checked += 1;
                    self.trace.mix(&[7, self.now_ns, watcher as u64, response.events.len() as u64]);
                    if let WatchOutcome::Compacted(revision) =
                        owed.receive(&response, &self.checks.history)?
                    {
                        self.coverage.event("watches ended by compaction");
                        owed.next = revision;
                        process.watch_streams.remove(&watcher);
                        state.connected_to = None;
                        break;
                    }
                }
            }
        }
        Ok(())
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
            let owes = |owed: &OwedEvents| owed.is_owed(&self.checks.history, here);
            if is_connected && state.owed.as_ref().is_some_and(owes) {
                let text = format!("a watcher at member {member} never got the rest: {:?}", state.owed);
                return Violation::err("watches are complete", text);
            }
        }
        Ok(())
    }
}
