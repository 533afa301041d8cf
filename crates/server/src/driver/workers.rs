//! The log thread and the background thread: each runs jobs in order and reports back.
//!
//! The log thread takes all write jobs that wait and runs them as one group commit: all writes, then one sync.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use log::WriteJob;
use member::Input;
use member::background::Job;

use super::Mailbox;
use crate::metrics::Metrics;

/// A sync that takes longer is worth a warning; etcd's limit.
const SLOW_SYNC: Duration = Duration::from_secs(1);

/// The queues of both threads; dropping it lets them finish and end.
pub(crate) struct Workers {
    pub(crate) writes: Sender<WriteJob>,
    pub(crate) jobs: Sender<Job>,
}

/// Starts both threads.
///
/// # Errors
/// When the system refuses a thread.
pub(crate) fn start(
    mailbox: &Arc<Mailbox>,
    metrics: Arc<Metrics>,
) -> std::io::Result<(Workers, Vec<JoinHandle<()>>)> {
    let (writes, write_queue) = channel();
    let (jobs, job_queue) = channel();
    let threads = vec![
        spawn("stele-log", mailbox, move |mailbox| write_log(&write_queue, mailbox, &metrics))?,
        spawn("stele-background", mailbox, move |mailbox| run_jobs(&job_queue, mailbox))?,
    ];
    Ok((Workers { writes, jobs }, threads))
}

fn spawn(
    name: &str,
    mailbox: &Arc<Mailbox>,
    body: impl FnOnce(&Mailbox) + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let mailbox = mailbox.clone();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || body(&mailbox))
}

fn write_log(queue: &Receiver<WriteJob>, mailbox: &Mailbox, metrics: &Metrics) {
    let start = Instant::now();
    let mut next = None;
    while let Some(first) = next.take().or_else(|| queue.recv().ok()) {
        let jobs = std::iter::once(first).chain(queue.try_iter()).collect();
        let done = WriteJob::run_all(jobs, &|| start.elapsed());
        for took in &done.sync_times {
            metrics.events.wal_fsync.observe(took.as_secs_f64());
            if *took > SLOW_SYNC {
                tracing::warn!(
                    took = format!("{took:?}"),
                    expected_duration = format!("{SLOW_SYNC:?}"),
                    "slow fdatasync"
                );
            }
        }
        // With more to write, others decide.
        next = queue.try_recv().ok();
        match next {
            Some(_) => mailbox.send(Input::Written(done)),
            None => mailbox.bring(vec![Input::Written(done)]),
        }
    }
}

fn run_jobs(queue: &Receiver<Job>, mailbox: &Mailbox) {
    while let Ok(job) = queue.recv() {
        mailbox.send(Input::Background(Box::new(job.run())));
    }
}
