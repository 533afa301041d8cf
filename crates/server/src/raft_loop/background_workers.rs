//! The two threads that do the raft loop's slow work: `stele-log` writes, `stele-background` runs jobs one after
//! another. Each submits its results as inputs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use member::Input;
use member::jobs::Job;

use super::input_queue::InputQueue;
use super::log_writer::LogWriter;

/// The queues of both threads. When it is dropped, the threads finish what is queued, and end.
pub(super) struct BackgroundWorkers {
    pub(super) log: Arc<LogWriter>,
    pub(super) jobs: Sender<Job>,
}

impl Drop for BackgroundWorkers {
    fn drop(&mut self) {
        self.log.close();
    }
}

impl BackgroundWorkers {
    /// Starts both threads.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(
        inputs: Arc<InputQueue>,
        log: Arc<LogWriter>,
    ) -> std::io::Result<(BackgroundWorkers, Vec<JoinHandle<()>>)> {
        let (jobs, queue) = channel();
        let writer = log.clone();
        let threads = vec![
            spawn("stele-log", move || writer.run())?,
            spawn("stele-background", move || run_jobs(&queue, &inputs))?,
        ];
        Ok((BackgroundWorkers { log, jobs }, threads))
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
