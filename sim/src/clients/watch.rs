//! Watching clients: each watches a range, reads now fast and now slowly, and goes on elsewhere from its
//! last revision when
//! its member is gone.

use std::sync::Arc;

use api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use prost::Message;
use store::watch::NextResponse;

use crate::checks::queues;
use crate::checks::watches::{Heard, Owed};
use crate::cluster::Cluster;
use crate::defects::Defect;
use crate::queue::Event;
use crate::report::Violation;

const MS: u64 = 1_000_000;

/// Bytes above which a response is cut, where a watcher asked for that; here none does.
const FRAGMENT_BYTES: usize = 2 << 20;

/// How much more seldom watchers look in a quiet spell.
const QUIET_SLOWER: u64 = 20;

/// A watching client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watcher {
    /// What it is owed, from its first watch on.
    owed: Option<Owed>,
    /// Where it watches: the member and the run of its process.
    at: Option<(usize, u64)>,
    /// A defect makes it lose the first event it is sent.
    skips: bool,
}

impl Cluster {
    /// A watching client reads what has come, or finds somebody to ask.
    pub(crate) fn poll_watch(&mut self, watcher: usize) -> Result<(), Violation> {
        let quiet = self.plan.quiet_until(self.now_ns).is_some();
        let slower = if quiet { QUIET_SLOWER } else { 1 };
        let again_ns = [5 * MS, 50 * MS, 900 * MS][self.client_rng.below(3) as usize] * slower;
        self.queue.plan(self.now_ns + 1 + self.client_rng.below(again_ns), Event::PollWatch { watcher });
        let at = self.watchers[watcher].at;
        let alive = at.filter(|(member, run)| {
            let machine = &self.machines[*member];
            machine.run == *run && machine.is_up() && !machine.damaged
        });
        match alive {
            None => self.watch_somewhere(watcher),
            // Now and then a client reconnects for reasons of its own.
            Some((member, _)) if self.client_rng.below(150) == 0 => {
                if let Some(process) = self.machines[member].process.as_mut() {
                    process.streams.remove(&watcher);
                }
                self.watchers[watcher].at = None;
            }
            Some((member, _)) => self.hear(watcher, member, 40)?,
        }
        Ok(())
    }

    fn watch_somewhere(&mut self, watcher: usize) {
        self.watchers[watcher].at = None;
        let member = self.client_rng.below(self.plan.members as u64) as usize;
        let machine = &mut self.machines[member];
        let run = machine.run;
        let paused = machine.process.as_ref().is_none_or(|process| process.paused_until_ns > self.now_ns);
        if paused || machine.damaged || machine.gone.is_some() {
            return;
        }
        let Some(process) = machine.process.as_mut() else { return };
        let owed = self.watchers[watcher].owed.get_or_insert_with(|| {
            let (key, range_end) = match watcher % 3 {
                0 => ("\0".into(), "\0".into()),
                1 => ("k00".into(), "k05".into()),
                _ => ("k01".into(), "".into()),
            };
            Owed { key, range_end, next: process.opened.reader.current_revision() + 1 }
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
        self.watchers[watcher].skips = behind && self.defect == Some(Defect::WatchSkipsEvent);
        self.coverage.event(if behind { "watches that catch up" } else { "watches that are synced" });
        process.streams.insert(watcher, stream);
        self.watchers[watcher].at = Some((member, run));
    }

    /// Takes up to `most` responses from the stream.
    fn hear(&mut self, watcher: usize, member: usize, most: usize) -> Result<(), Violation> {
        let state = &mut self.watchers[watcher];
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(()) };
        let Some(stream) = process.streams.get_mut(&watcher) else { return Ok(()) };
        if self.client_rng.percent(10) {
            stream.progress();
            stream.notify_progress_due();
        }
        for _ in 0..most {
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
                    queues::response(member, &response)?;
                    if !response.events.is_empty() && std::mem::take(&mut state.skips) {
                        response.events.remove(0);
                    }
                    let Some(owed) = state.owed.as_mut() else { break };
                    self.checks.checked += 1;
                    self.trace.mix(&[7, self.now_ns, watcher as u64, response.events.len() as u64]);
                    if let Heard::Compacted(at) = owed.hear(&response, &self.checks.history)? {
                        self.coverage.event("watches ended by compaction");
                        owed.next = at;
                        process.streams.remove(&watcher);
                        state.at = None;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// At the end every watcher gets the rest, as far as its member has come, and nothing is owed.
    pub(crate) fn watchers_have_all(&mut self) -> Result<(), Violation> {
        for watcher in 0..self.watchers.len() {
            let Some((member, run)) = self.watchers[watcher].at else { continue };
            if self.machines[member].run != run {
                continue;
            }
            self.hear(watcher, member, 100_000)?;
            let state = &self.watchers[watcher];
            let still_there = state.at.is_some();
            let process = self.machines[member].process.as_ref();
            let here = process.map_or(0, |process| process.opened.reader.current_revision());
            let owes = |owed: &Owed| owed.is_owed(&self.checks.history, here);
            if still_there && state.owed.as_ref().is_some_and(owes) {
                let text = format!("a watcher at member {member} never got the rest: {:?}", state.owed);
                return Violation::err("watches are complete", text);
            }
        }
        Ok(())
    }
}
