//! The raft loop, and the path of a request to it and back.
//!
//! One [`member::Member`] decides everything that happens in this process, one input after another. It is behind a
//! lock, and the thread `stele-raft` runs it or, while that sleeps, the thread that submits (flat combining, below).
//! Every other thread reaches it through a [`Handoff`]: it submits an [`Input`] and, for a request, waits for the
//! [`member::Answer`].
//!
//! ```text
//!  RPC worker 1: request() -> submission queue 1 --.
//!  RPC worker 2: request() -> submission queue 2 --|                              .-> completion queue 1 -> caller
//!  peer threads: control_frame(), bulk_frame() ----+-> input queue -> iteration --+-> completion queue 2 -> caller
//!  log thread:   "writes synced" ------------------|                    |   |     '-> frames to peers
//!  lane threads: "job done" -----------------------'                    |   |
//!                                                        write queue <--'   '--> background jobs, by lane
//!                                                             |                       |
//!                                                         stele-log     stele-files, -space, -repair
//! ```
//!
//! An *iteration* takes all inputs that wait, lets the member decide once, and carries out the output. It never waits
//! for a write, a socket, or a lock that is held for long, and never reads the disk. The order in which its output is
//! carried out is explained in `iteration.rs`.
//!
//! # Batching
//!
//! Waking a thread costs more than most decisions, so each queue is handed over whole. Example: RPC worker 1 receives
//! three puts in one read of a socket.
//!
//! 1. Each put calls [`Handoff::request`], which appends to submission queue 1. The first one wakes the task of that
//!    queue; within a worker that costs no system call.
//! 2. The task runs when the connection has nothing more to do. It moves all three inputs to the input queue: one lock,
//!    at most one wake-up of another thread.
//! 3. The iteration that applies them appends three answers to completion queue 1 and wakes its task once.
//! 4. That task completes the three futures, again within its worker.
//!
//! # Flat combining
//!
//! Under load the raft loop is always awake, finds inputs whenever it looks, and no thread wakes another. When it
//! sleeps, a thread that submits with `submit_and_run` runs the iteration itself, on the loop's state, instead of
//! waking the loop; `submit` wakes it:
//!
//! ```text
//!              the queue is empty                     submit(): wake the loop
//!   running ------------------------->  sleeping  ------------------------------> running
//!                                        |    ^
//!            submit_and_run(): the       |    |  the queue is empty, and nothing is due
//!            submitter runs the          |    |  before the loop wakes up by itself
//!            iteration                   v    |
//!                                       combining --------------------------------> running
//!                                             inputs are left, something is due earlier,
//!                                             or the output needs the loop: wake it
//! ```
//!
//! While a thread combines, others only append. It runs one iteration, and a second one if inputs arrived during the
//! first; then it wakes the loop if anything is left. So a lone put needs no wake-up of `stele-raft`: the RPC worker
//! proposes it, the log thread reports the write, the reader of a peer receives the acknowledgement, and each of them
//! runs the iteration that follows from it. RFC 0006 has the measurements.
//!
//! A combining thread carries out what is urgent: answers, frames, writes, background jobs. What starts threads, closes
//! connections or writes log lines is left to the raft loop.
//!
//! # Inline flush
//!
//! The thread that reads a peer's bulk stream may wait for the disk. When it combines, it also writes and syncs what
//! its iteration produced, instead of waking the log thread: see `write_queue.rs` and [`Handoff::bulk_frame`], its only
//! caller.

mod background_workers;
mod clock;
mod input_queue;
mod iteration;
mod log_writer;
mod step_metrics;
mod worker_queues;
mod write_queue;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use member::{Input, Member};
use tokio::sync::{oneshot, watch};

pub(crate) use iteration::Edge;
pub(crate) use log_writer::report_overdue_writes;
pub(crate) use worker_queues::{AnswerTimes, MAX_RPC_WORKERS, TimedAnswer};

use clock::Clock;
use input_queue::InputQueue;
use iteration::RaftLoop;
use log_writer::LogWriter;
use step_metrics::StepMetrics;
use worker_queues::WorkerQueues;

use crate::live_settings::LiveSettings;
use crate::metrics::Metrics;
use crate::overload::{LongestWorkerWait, QueueWaits, WaitEstimate, measure_own_worker};

/// How the raft loop ended, once it has.
pub(crate) type LoopEnd = watch::Receiver<Option<Result<(), String>>>;

/// Every other thread's handle to the raft loop. A clone shares its queues.
#[derive(Clone)]
pub(crate) struct Handoff {
    inputs: Arc<InputQueue>,
    worker_queues: Arc<WorkerQueues>,
    log_writer: Arc<LogWriter>,
    clock: Clock,
    waits: Arc<QueueWaits>,
    worker_wait: Arc<LongestWorkerWait>,
}

impl Handoff {
    /// The queues of a loop that has not been started, for `workers` RPC workers. Inputs wait until it is.
    pub(crate) fn new(workers: usize, metrics: Arc<Metrics>) -> Handoff {
        let inputs = Arc::new(InputQueue::default());
        let log_writer = Arc::new(LogWriter::new(inputs.clone(), metrics));
        let worker_queues = Arc::new(WorkerQueues::new(workers, inputs.clone()));
        let (waits, worker_wait) = (Arc::default(), Arc::default());
        Handoff { inputs, worker_queues, log_writer, clock: Clock::start(), waits, worker_wait }
    }

    /// The time from which the times of answers are counted.
    pub(crate) fn epoch(&self) -> Instant {
        self.clock.epoch()
    }

    /// Serves the queues of all threads that are no RPC workers, on the runtime of the caller.
    pub(crate) fn serve_shared(&self) {
        self.worker_queues.serve_shared();
    }

    /// Gives this thread, whose runtime the caller is on, the queues of RPC worker `index`, from 0, and measures how
    /// far it is behind.
    pub(crate) fn serve_worker(&self, index: usize) {
        self.worker_queues.serve_worker(index);
        measure_own_worker(self.worker_wait.clone());
    }

    /// Submits a request, made from the token of its answer. The answer comes through the channel; the channel is
    /// closed when the raft loop has ended.
    pub(crate) fn request(&self, input: impl FnOnce(u64) -> Input) -> oneshot::Receiver<TimedAnswer> {
        self.worker_queues.request(input)
    }

    /// The number of inputs that wait for the raft loop.
    pub(crate) fn waiting_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// How long new requests would wait.
    pub(crate) fn waits(&self) -> &QueueWaits {
        &self.waits
    }

    /// The longest that an RPC worker was behind since the last call.
    pub(crate) fn take_worker_wait(&self) -> Duration {
        self.worker_wait.take()
    }

    /// Submits an input that has no answer.
    pub(crate) fn submit(&self, input: Input) {
        self.inputs.submit(input);
    }

    /// Takes the inputs that wait for a loop that was not started.
    #[cfg(test)]
    pub(crate) fn take_inputs(&self) -> Vec<Input> {
        let mut inputs = Vec::new();
        self.inputs.take(&mut inputs);
        inputs
    }

    /// Submits a frame of a peer's control stream. Never waits for a write: a slow disk must not delay heartbeats.
    pub(crate) fn control_frame(&self, from: u64, bytes: Bytes) {
        self.inputs.submit_and_run([Input::Frame { from, bytes }]);
    }

    /// Submits a frame of a peer's bulk stream; waits while too many bytes of such frames are queued. `more`: another
    /// frame follows close behind, and is better written together with this one, by the log thread.
    pub(crate) fn bulk_frame(&self, from: u64, bytes: Bytes, more: bool) {
        self.inputs.reserve_bulk(bytes.len());
        let run = || self.inputs.submit_and_run([Input::Frame { from, bytes }]);
        if more { run() } else { self.log_writer.flush_inline(run) }
    }

    /// Starts the raft loop and its threads. An apply that takes long, as `live` defines it, is logged.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn start(
        &self,
        member: Member,
        edge: impl Edge + 'static,
        metrics: Arc<Metrics>,
        live: Arc<LiveSettings>,
    ) -> std::io::Result<LoopEnd> {
        let (ended, end) = watch::channel(None);
        let Handoff { inputs, worker_queues, log_writer, clock, waits, worker_wait: _ } = self.clone();
        let ending = worker_queues.clone();
        let steps = StepMetrics::new(metrics.clone(), live);
        let waits = WaitEstimate::new(waits);
        let raft_loop =
            RaftLoop { member, inputs, worker_queues, log_writer, clock, edge, metrics, steps, waits };
        std::thread::Builder::new().name("stele-raft".to_owned()).spawn(move || {
            let result = raft_loop.run();
            ending.close();
            let _ = ended.send(Some(result.map_err(|fatal| fatal.to_string())));
        })?;
        Ok(end)
    }
}
