//! The deciding thread: drain the mailbox, decide once, carry out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use member::snapshot::Outgoing;
use member::{Fatal, Member, Notice, Output};

use super::mailbox::Letter;
use super::workers::Workers;
use super::{Clock, Mailbox, Reply};
use crate::metrics::Metrics;

/// The longest sleep when nothing is due: a bound in case a deadline was forgotten, not a period anything relies on.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// What the deciding thread carries out beyond its own workers: peers and the operator's eyes.
pub(crate) trait Edge: Send {
    /// Sends a frame to a peer, without blocking.
    fn send(&self, peer: u64, class: member::Class, pieces: &[bytes::Bytes]);
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
    pub(crate) clock: Clock,
    pub(crate) edge: E,
    pub(crate) metrics: Arc<Metrics>,
    /// `--warning-apply-duration`.
    pub(crate) slow_apply: Duration,
}

impl<E: Edge> Decider<E> {
    /// Runs until the member has stopped in good order.
    ///
    /// # Errors
    /// What makes it impossible to go on; the caller ends the process.
    pub(crate) fn run(mut self) -> Result<(), Fatal> {
        let (workers, threads) = super::workers::start(&self.mailbox, self.metrics.clone())
            .map_err(|source| Fatal::Threads { source })?;
        let mut replies: HashMap<u64, Reply> = HashMap::new();
        let mut letters = Vec::new();
        let mut output = Output::default();
        loop {
            let timeout = self.member.next_due_ns().map_or(LONGEST_SLEEP, |due| self.clock.until(due));
            self.mailbox.take(&mut letters, timeout.min(LONGEST_SLEEP));
            let now = self.clock.now();
            for Letter { input, reply } in letters.drain(..) {
                replies.extend(reply);
                self.member.handle(now, input, &mut output)?;
            }
            self.member.drive(now, &mut output)?;
            self.watch_time(now.monotonic_ns);
            self.carry_out(&mut output, &workers, &mut replies);
            if output.stopped {
                break;
            }
        }
        drop(workers);
        threads.into_iter().for_each(|thread| drop(thread.join()));
        Ok(())
    }

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

    fn carry_out(&self, output: &mut Output, workers: &Workers, replies: &mut HashMap<u64, Reply>) {
        // The workers outlive this loop; a send can fail only when one has panicked, which aborts the process.
        for job in output.writes.drain(..) {
            let _ = workers.writes.send(job);
        }
        for (peer, class, pieces) in output.frames.drain(..) {
            self.edge.send(peer, class, &pieces);
        }
        output.snapshots.drain(..).for_each(|snapshot| self.edge.stream(snapshot));
        for (token, answer) in output.answers.drain(..) {
            if let Some(reply) = replies.remove(&token) {
                // A caller that gave up does not need its answer.
                let _ = reply.send(answer);
            }
        }
        for job in output.background.drain(..) {
            let _ = workers.jobs.send(job);
        }
        output.disconnect.drain(..).for_each(|peer| self.edge.disconnect(peer));
        output.notices.drain(..).for_each(|notice| self.edge.notice(&notice));
    }
}
