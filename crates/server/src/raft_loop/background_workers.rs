//! The threads that do the raft loop's slow work: `stele-log` writes; `stele-files`, `stele-space` and `stele-repair`
//! run the jobs of one lane each, one after another. Each submits its results as inputs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use member::Input;
use member::jobs::{Done, Job, JobLane};
use prometheus::IntGauge;

use super::input_queue::InputQueue;
use super::log_writer::LogWriter;
use crate::metrics::Metrics;

/// The queues of these threads. When it is dropped, the threads finish what is queued, and end.
pub(super) struct BackgroundWorkers {
    log_writer: Arc<LogWriter>,
    lanes: Vec<(JobLane, Sender<Job>, IntGauge)>,
}

impl Drop for BackgroundWorkers {
    fn drop(&mut self) {
        self.log_writer.close();
    }
}

impl BackgroundWorkers {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(
        inputs: &Arc<InputQueue>,
        log_writer: Arc<LogWriter>,
        metrics: &Arc<Metrics>,
    ) -> std::io::Result<(BackgroundWorkers, Vec<JoinHandle<()>>)> {
        let writer = log_writer.clone();
        let mut threads = vec![spawn("stele-log", move || writer.run())?];
        let mut lanes = Vec::new();
        for lane in JobLane::ALL {
            let (jobs, queue) = channel();
            let waiting = metrics.own.queue_length(queue_name(lane));
            let (inputs, metrics, left) = (inputs.clone(), metrics.clone(), waiting.clone());
            threads.push(spawn(thread_name(lane), move || run_jobs(&queue, &inputs, &metrics, &left))?);
            lanes.push((lane, jobs, waiting));
        }
        Ok((BackgroundWorkers { log_writer, lanes }, threads))
    }

    /// Queues a job behind the others of its lane.
    pub(super) fn submit(&self, job: Job) {
        let lane = self.lanes.iter().find(|(lane, ..)| *lane == job.lane());
        let (_, jobs, waiting) = lane.expect("every lane has a thread");
        waiting.inc();
        // The thread ends only after this queue was dropped, or by a panic, which ends the process.
        let _ = jobs.send(job);
    }
}

fn thread_name(lane: JobLane) -> &'static str {
    match lane {
        JobLane::Files => "stele-files",
        JobLane::Space => "stele-space",
        JobLane::Repair => "stele-repair",
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// The name of a lane's queue in the metrics.
fn queue_name(lane: JobLane) -> &'static str {
    match lane {
        JobLane::Files => "files",
        JobLane::Space => "space",
        JobLane::Repair => "repair",
    }
}

/// Runs a job, and observes how long it took.
fn run_job(job: Job, metrics: &Metrics) -> Done {
    let began = Instant::now();
    let kind = job.kind();
    let done = job.run();
    let seconds = began.elapsed().as_secs_f64();
    metrics.own.job(kind).observe(seconds);
    match &done {
        Done::Checkpoint { .. } => metrics.events.checkpoint.observe(seconds),
        Done::Installed(_) => metrics.events.snapshot_install.observe(seconds),
        _ => {}
    }
    done
}

fn run_jobs(queue: &Receiver<Job>, inputs: &InputQueue, metrics: &Metrics, waiting: &IntGauge) {
    while let Ok(job) = queue.recv() {
        let done = run_job(job, metrics);
        waiting.dec();
        inputs.submit(Input::Background(Box::new(done)));
    }
}
