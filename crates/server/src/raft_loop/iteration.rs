//! The raft loop and one iteration of it: take all inputs, decide once, carry out the output.
//!
//! The state of an iteration is behind a lock, because two kinds of threads run iterations: the raft loop, and a
//! submitter while the loop sleeps (flat combining, see the module `raft_loop`).
//!
//! ```text
//!  iterate, either thread           take inputs -> member decides -> answers -> frames -> writes -> background jobs
//!  then, the raft loop only         members -> snapshots -> disconnects -> notices
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use member::snapshot::Outgoing;
use member::{Answer, Input, Member, MemberFatal, MemberStatus, Membership, Notice, Output};
use parking_lot::Mutex;

use super::background_workers::BackgroundWorkers;
use super::clock::Clock;
use super::input_queue::{InputQueue, RunIteration};
use super::log_writer::LogWriter;
use super::step_metrics::StepMetrics;
use super::worker_queues::{IterationTimes, WorkerQueues};
use crate::metrics::Metrics;
use crate::overload::{Finished, WaitEstimate};

/// Longest sleep when nothing is due: a bound in case a deadline was forgotten, not a period anything relies on.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Carries out what leaves this process: to peers, and to operators.
pub(crate) trait Edge: Send {
    /// This member was removed from its cluster: from now on its clients are sent to other members.
    fn removed(&self);
    /// Sends a frame, in parts, to a peer, without blocking.
    fn send(&self, peer: u64, class: member::MessageClass, parts: &[bytes::Bytes]);
    /// Streams a snapshot to its peer, on a thread of its own, and submits the result as an input.
    fn stream(&self, snapshot: Box<Outgoing>);
    /// Keeps connections to these members, and ends those to members that were removed.
    fn follow_members(&self, membership: &Membership);
    /// Closes the connections to a peer.
    fn disconnect(&self, peer: u64);
    /// Logs a notice for operators.
    fn notice(&self, notice: &Notice);
}

/// What the loop consists of. [`RaftLoop::run`] is the thread `stele-raft`.
pub(super) struct RaftLoop<E> {
    pub(super) member: Member,
    pub(super) inputs: Arc<InputQueue>,
    pub(super) worker_queues: Arc<WorkerQueues>,
    pub(super) log_writer: Arc<LogWriter>,
    pub(super) clock: Clock,
    pub(super) edge: E,
    pub(super) metrics: Arc<Metrics>,
    pub(super) steps: StepMetrics,
    pub(super) waits: WaitEstimate,
}

/// What an iteration needs. The thread that has locked it runs iterations.
struct LoopState<E> {
    parts: RaftLoop<E>,
    background: BackgroundWorkers,
    /// Empty between iterations; keeps its room.
    taken: Vec<Input>,
    /// Between iterations, what is left to the raft loop.
    output: Output,
    /// When the last iteration began to decide, and when it had, by the loop's clock.
    decided_ns: (u64, u64),
    /// The member's numbers.
    status: Arc<MemberStatus>,
    /// The member has stopped, or cannot go on: there are no more iterations.
    end: Option<Result<(), MemberFatal>>,
}

impl<E: Edge + 'static> RaftLoop<E> {
    /// Runs until the member has stopped cleanly.
    ///
    /// # Errors
    /// What makes it impossible to go on; the caller ends the process.
    pub(super) fn run(self) -> Result<(), MemberFatal> {
        let inputs = self.inputs.clone();
        let (background, threads) = BackgroundWorkers::start(&inputs, self.log_writer.clone(), &self.metrics)
            .map_err(|source| MemberFatal::Threads { source })?;
        let status = self.member.status();
        let state = LoopState {
            parts: self,
            background,
            taken: Vec::new(),
            output: Output::default(),
            decided_ns: (0, 0),
            status,
            end: None,
        };
        let state = Arc::new(Mutex::new(state));
        inputs.set_runner(Some(state.clone()));
        let end = loop {
            let mut held = state.lock();
            // A submitter may have run the last iteration.
            if held.end.is_none() {
                held.iterate();
            }
            held.carry_out_rest();
            if let Some(end) = held.end.take() {
                // A submitter that comes later finds that there are no more iterations.
                held.end = Some(Ok(()));
                break end;
            }
            let until = held.due();
            drop(held);
            inputs.wait(until);
        };
        inputs.set_runner(None);
        end?;
        // Dropping the state closes the queues of the background threads.
        drop(state);
        threads.into_iter().for_each(|thread| drop(thread.join()));
        Ok(())
    }
}

impl<E: Edge> RunIteration for Mutex<LoopState<E>> {
    fn run_iteration(&self) -> Option<Instant> {
        let mut state = self.lock();
        if state.end.is_none() {
            state.iterate();
        }
        let is_done = state.end.is_none() && !state.has_rest();
        is_done.then(|| state.due())
    }
}

impl<E: Edge> LoopState<E> {
    /// One iteration, up to what is urgent in its output. Not to be called after the end.
    fn iterate(&mut self) {
        assert!(self.end.is_none(), "there are no iterations after the end");
        self.parts.inputs.take(&mut self.taken);
        if let Err(fatal) = self.decide() {
            // What was decided before the failure rests on state that is no longer reliable.
            self.output = Output::default();
            self.end = Some(Err(fatal));
            return;
        }
        self.carry_out_urgent();
        if self.output.stopped {
            let is_removed = self.parts.member.is_removed();
            self.end = Some(if is_removed { Err(MemberFatal::Removed) } else { Ok(()) });
        }
    }

    fn decide(&mut self) -> Result<(), MemberFatal> {
        let LoopState { parts, taken, output, decided_ns, status, .. } = self;
        let now = parts.clock.now();
        for input in taken.drain(..) {
            parts.member.handle(now, input, output)?;
        }
        parts.member.drive(now, output)?;
        let ended_ns = parts.clock.monotonic_ns();
        let took_ns = ended_ns.saturating_sub(now.monotonic_ns);
        parts.steps.observe(Duration::from_nanos(took_ns), &output.counts);
        *decided_ns = (now.monotonic_ns, ended_ns);
        parts.waits.observe(now.monotonic_ns, finished(&output.answers, status));
        Ok(())
    }

    /// When the next iteration is due although no input arrives.
    fn due(&self) -> Instant {
        let parts = &self.parts;
        let timeout = parts.member.next_due_ns().map_or(MAX_SLEEP, |due| parts.clock.until(due));
        Instant::now() + timeout.min(MAX_SLEEP)
    }

    /// Carries out answers, then frames, then writes.
    ///
    /// This looks like a violation of the ordering rule (persist, then send, then reply;
    /// `crates/consensus/src/replication/unsynced_writes.rs`) and is not. The rule was applied before the output got
    /// here. The answers and frames of an output were released by writes that are already durable, which earlier
    /// inputs reported, or depend on no write at all. A frame that promises something about a write of this same output
    /// is not in the output: consensus holds it back until that write is reported as synced, and it leaves with a later
    /// output.
    ///
    /// So any order is correct, and this one is the fastest. A caller waits for each answer, and what a peer does with
    /// a frame takes longer than a local write, so both start first.
    fn carry_out_urgent(&mut self) {
        let LoopState { parts, background, output, decided_ns: (began_ns, ended_ns), .. } = self;
        let waited = &output.counts.waited;
        let iteration = IterationTimes { began_ns: *began_ns, ended_ns: *ended_ns, waited };
        // Before the answers: a client whose call is not taken must not come back here.
        if output.membership.as_ref().is_some_and(|membership| membership.is_removed) {
            parts.edge.removed();
        }
        parts.worker_queues.deliver(output.answers.drain(..), iteration);
        output.counts.clear();
        for (peer, class, frame) in output.frames.drain(..) {
            parts.edge.send(peer, class, &frame);
        }
        parts.log_writer.push(output.writes.drain(..));
        output.background.drain(..).for_each(|job| background.submit(job));
    }

    fn has_rest(&self) -> bool {
        let Output { snapshots, disconnect, notices, membership, .. } = &self.output;
        !(snapshots.is_empty() && disconnect.is_empty() && notices.is_empty() && membership.is_none())
    }

    /// Carries out what starts or ends threads and connections, and what is logged. For the raft loop's thread alone.
    fn carry_out_rest(&mut self) {
        let LoopState { parts, output, .. } = self;
        if let Some(membership) = output.membership.take() {
            parts.edge.follow_members(&membership);
        }
        output.snapshots.drain(..).for_each(|snapshot| parts.edge.stream(snapshot));
        output.disconnect.drain(..).for_each(|peer| parts.edge.disconnect(peer));
        output.notices.drain(..).for_each(|notice| parts.edge.notice(&notice));
    }
}

/// What these answers and the member's numbers say of its queues.
fn finished(answers: &[(u64, Answer)], status: &MemberStatus) -> Finished {
    let mut finished = Finished {
        waiting_commands: status.pending(),
        waiting_reads: status.pending_reads(),
        has_leader: status.leader() != 0,
        ..Finished::default()
    };
    for (_, answer) in answers {
        match answer {
            Answer::Applied(_) => finished.commands += 1,
            Answer::ReadNow => finished.reads += 1,
            // Time-outs and refusals do not tell how fast requests are served.
            _ => {}
        }
    }
    finished
}
