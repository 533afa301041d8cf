//! The threads that do the raft loop's slow work: `stele-log` writes; `stele-files`, `stele-space` and `stele-repair`
//! run the jobs of one lane each, one after another. Each submits its results as inputs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use member::Input;
use member::jobs::{Job, JobLane};

use super::input_queue::InputQueue;
use super::log_writer::LogWriter;

/// The queues of these threads. When it is dropped, the threads finish what is queued, and end.
pub(super) struct BackgroundWorkers {
    log_writer: Arc<LogWriter>,
    lanes: Vec<(JobLane, Sender<Job>)>,
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
    ) -> std::io::Result<(BackgroundWorkers, Vec<JoinHandle<()>>)> {
        let writer = log_writer.clone();
        let mut threads = vec![spawn("stele-log", move || writer.run())?];
        let mut lanes = Vec::new();
        for lane in JobLane::ALL {
            let (jobs, queue) = channel();
            let inputs = inputs.clone();
            threads.push(spawn(thread_name(lane), move || run_jobs(&queue, &inputs))?);
            lanes.push((lane, jobs));
        }
        Ok((BackgroundWorkers { log_writer, lanes }, threads))
    }

    /// Queues a job behind the others of its lane.
    pub(super) fn submit(&self, job: Job) {
        let lane = self.lanes.iter().find(|(lane, _)| *lane == job.lane());
        let (_, jobs) = lane.expect("every lane has a thread");
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

fn run_jobs(queue: &Receiver<Job>, inputs: &InputQueue) {
    while let Ok(job) = queue.recv() {
        inputs.submit(Input::Background(Box::new(job.run())));
    }
}
