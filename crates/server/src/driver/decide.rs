//! Deciding: drain the mailbox, decide once, carry out; that is a *turn*.
//!
//! Whoever holds the [`Seat`] takes turns. While there is much to do that is the deciding thread, all the time. When it
//! sleeps, a thread that brings news (a frame, a finished write) takes a turn in its place and carries out what is
//! urgent: writes, frames, answers. What may take longer, or may only be done by the deciding thread, is left to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use member::snapshot::Outgoing;
use member::{Fatal, Input, Member, Notice, Output};
use parking_lot::Mutex;

use super::mailbox::Turn;
use super::workers::{LogDesk, Workers};
use super::{Clock, Desks, Mailbox};
use crate::metrics::Metrics;

/// The longest sleep when nothing is due: a bound in case a deadline was forgotten, not a period anything relies on.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// What is carried out beyond our own workers: peers and the operator's eyes.
pub(crate) trait Edge: Send {
    /// Sends a frame to a peer, without blocking.
    fn send(&self, peer: u64, class: member::MessageClass, pieces: &[bytes::Bytes]);
    /// Streams a snapshot to its peer, on a thread of its own, and reports the end to the mailbox.
    fn stream(&self, snapshot: Box<Outgoing>);
    /// Closes the connections to a peer.
    fn disconnect(&self, peer: u64);
    /// Tells operators.
    fn notice(&self, notice: &Notice);
}

/// Runs one member until it stops.
pub(crate) struct Decider<E> {
    pub(crate) member: Member,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) desks: Arc<Desks>,
    pub(crate) log: Arc<LogDesk>,
    pub(crate) clock: Clock,
    pub(crate) edge: E,
    pub(crate) metrics: Arc<Metrics>,
    /// `--warning-apply-duration`.
    pub(crate) slow_apply: Duration,
}

/// What a turn needs. Its holder decides.
struct Seat<E> {
    decider: Decider<E>,
    workers: Workers,
    inputs: Vec<Input>,
    output: Output,
    /// The member has stopped, or cannot go on; there are no more turns.
    end: Option<Result<(), Fatal>>,
}

impl<E: Edge + 'static> Decider<E> {
    /// Runs until the member has stopped in good order.
    ///
    /// # Errors
    /// What makes it impossible to go on; the caller ends the process.
    pub(crate) fn run(self) -> Result<(), Fatal> {
        let mailbox = self.mailbox.clone();
        let (workers, threads) =
            super::workers::start(&mailbox, self.log.clone()).map_err(|source| Fatal::Threads { source })?;
        let output = Output::default();
        let seat = Seat { decider: self, workers, inputs: Vec::new(), output, end: None };
        let seat = Arc::new(Mutex::new(seat));
        mailbox.set_turn(Some(seat.clone()));
        let end = loop {
            let mut held = seat.lock();
            held.take_turn();
            held.carry_out_rest();
            if let Some(end) = held.end.take() {
                // Whoever comes later finds that it is over.
                held.end = Some(Ok(()));
                break end;
            }
            let until = held.due();
            drop(held);
            mailbox.wait(until);
        };
        mailbox.set_turn(None);
        end?;
        // The queues of the workers end with the seat.
        drop(seat);
        threads.into_iter().for_each(|thread| drop(thread.join()));
        Ok(())
    }
}

impl<E: Edge> Turn for Mutex<Seat<E>> {
    fn take(&self) -> Option<Instant> {
        let mut seat = self.lock();
        seat.take_turn();
        let is_done = seat.end.is_none() && !seat.has_rest();
        is_done.then(|| seat.due())
    }
}

impl<E: Edge> Seat<E> {
    /// Drains the mailbox, decides once and carries out what is urgent.
    fn take_turn(&mut self) {
        if self.end.is_some() {
            return;
        }
        self.decider.mailbox.take(&mut self.inputs);
        if let Err(fatal) = self.decide() {
            // What was decided before it rests on what cannot be relied upon.
            self.output = Output::default();
            self.end = Some(Err(fatal));
            return;
        }
        self.carry_out_urgent();
        if self.output.stopped {
            self.end = Some(Ok(()));
        }
    }

    fn decide(&mut self) -> Result<(), Fatal> {
        let Seat { decider, inputs, output, .. } = self;
        let now = decider.clock.now();
        for input in inputs.drain(..) {
            decider.member.handle(now, input, output)?;
        }
        decider.member.drive(now, output)?;
        decider.watch_time(now.monotonic_ns);
        Ok(())
    }

    /// When the next turn is due although nothing happens.
    fn due(&self) -> Instant {
        let timeout =
            self.decider.member.next_due_ns().map_or(LONGEST_SLEEP, |due| self.decider.clock.until(due));
        Instant::now() + timeout.min(LONGEST_SLEEP)
    }

    /// Answers go first, since each is waited for; then frames, since what a peer does with them takes longer than what
    /// is done here.
    fn carry_out_urgent(&mut self) {
        let Seat { decider, workers, output, .. } = self;
        decider.desks.deliver(output.answers.drain(..));
        for (peer, class, pieces) in output.frames.drain(..) {
            decider.edge.send(peer, class, &pieces);
        }
        workers.log.push(output.writes.drain(..));
        // The worker outlives the seat; a send can fail only when it has panicked, which aborts the process.
        for job in output.background.drain(..) {
            let _ = workers.jobs.send(job);
        }
    }

    fn has_rest(&self) -> bool {
        let Output { snapshots, disconnect, notices, .. } = &self.output;
        !(snapshots.is_empty() && disconnect.is_empty() && notices.is_empty())
    }

    /// What starts or ends threads and connections, and what operators hear. For the deciding thread alone.
    fn carry_out_rest(&mut self) {
        let Seat { decider, output, .. } = self;
        output.snapshots.drain(..).for_each(|snapshot| decider.edge.stream(snapshot));
        output.disconnect.drain(..).for_each(|peer| decider.edge.disconnect(peer));
        output.notices.drain(..).for_each(|notice| decider.edge.notice(&notice));
    }
}

impl<E> Decider<E> {
    /// Tells operators when deciding and applying what had come took long.
    fn watch_time(&self, since_ns: u64) {
        let took = Duration::from_nanos(self.clock.monotonic_ns().saturating_sub(since_ns));
        if took > self.slow_apply {
            self.metrics.events.slow_applies.inc();
            tracing::warn!(
                took = format!("{took:?}"),
                expected_duration = format!("{:?}", self.slow_apply),
                "apply request took too long"
            );
        }
    }
}
