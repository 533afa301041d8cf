//! The log thread and the background thread: each runs jobs in order and reports back.
//!
//! The log thread takes all write jobs that wait and runs them as one group commit: all writes, then one sync. What a
//! [volunteer](super::writes) writes in its place it writes in the same way.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use log::WriteJob;
use member::Input;
use member::jobs::Job;

use super::Mailbox;
use super::writes::Writes;
use crate::metrics::Metrics;

/// A sync that takes longer is worth a warning; etcd's limit.
const SLOW_SYNC: Duration = Duration::from_secs(1);

/// The log as those who decide and those who write see it.
pub(crate) struct LogDesk {
    writes: Writes<WriteJob>,
    mailbox: Arc<Mailbox>,
    metrics: Arc<Metrics>,
    start: Instant,
}

impl LogDesk {
    /// Whoever has written says so to `mailbox`.
    pub(crate) fn new(mailbox: Arc<Mailbox>, metrics: Arc<Metrics>) -> LogDesk {
        LogDesk { writes: Writes::default(), mailbox, metrics, start: Instant::now() }
    }

    /// Has these jobs written, in order.
    pub(crate) fn push(&self, jobs: impl Iterator<Item = WriteJob>) {
        self.writes.push(jobs);
    }

    /// Calls `decide`, which may lead to writes, and writes them in place of the log thread if that has nothing to do.
    /// For threads that may wait for the disk.
    pub(crate) fn volunteer(&self, decide: impl FnOnce()) {
        if let Some(jobs) = self.writes.volunteer(decide) {
            self.write(jobs);
        }
    }

    /// The log thread.
    fn run(&self) {
        while let Some(jobs) = self.writes.wait() {
            self.write(jobs);
        }
    }

    fn write(&self, jobs: Vec<WriteJob>) {
        let done = WriteJob::run_all(jobs, &|| self.start.elapsed());
        for took in &done.sync_times {
            self.metrics.events.wal_fsync.observe(took.as_secs_f64());
            if *took > SLOW_SYNC {
                tracing::warn!(
                    took = format!("{took:?}"),
                    expected_duration = format!("{SLOW_SYNC:?}"),
                    "slow fdatasync"
                );
            }
        }
        let done = Input::Written(done);
        // With more to write, others decide.
        let report = |more| if more { self.mailbox.send(done) } else { self.mailbox.bring(vec![done]) };
        self.writes.written(report);
    }
}

/// What those who decide hand work to. Dropping it lets both threads finish and end.
pub(crate) struct Workers {
    pub(crate) log: Arc<LogDesk>,
    pub(crate) jobs: Sender<Job>,
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.log.writes.close();
    }
}

/// Starts both threads.
///
/// # Errors
/// When the system refuses a thread.
pub(crate) fn start(
    mailbox: &Arc<Mailbox>,
    log: Arc<LogDesk>,
) -> std::io::Result<(Workers, Vec<JoinHandle<()>>)> {
    let (jobs, job_queue) = channel();
    let (writer, mailbox) = (log.clone(), mailbox.clone());
    let threads = vec![
        spawn("stele-log", move || writer.run())?,
        spawn("stele-background", move || run_jobs(&job_queue, &mailbox))?,
    ];
    Ok((Workers { log, jobs }, threads))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

fn run_jobs(queue: &Receiver<Job>, mailbox: &Mailbox) {
    while let Ok(job) = queue.recv() {
        mailbox.send(Input::Background(Box::new(job.run())));
    }
}
