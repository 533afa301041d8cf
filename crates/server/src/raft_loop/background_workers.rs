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

#[cfg(test)]
mod tests {
    //! A lane whose job blocks holds up its own jobs and no others.
    use std::time::Duration;

    use bytes::Bytes;
    use log::{Disk, MemDisk, Options};
    use member::jobs::PeerRead;
    use member::peer_message::ValueName;
    use member::{OpenedMember, Sequential};
    use parking_lot::Mutex;
    use store::{Damaged, ValueRef, Values};

    use super::*;
    use crate::config::{FeatureGates, Parsed, parse};
    use crate::startup::describe::member_config;

    /// Values that are read when the test says so: when it drops the sender.
    struct HeldValues(Mutex<Receiver<()>>);

    impl Values for HeldValues {
        fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
            let _ = self.0.lock().recv();
            Ok(vec![0; value.len as usize].into())
        }

        fn retain(&self, _: &ValueRef) {}

        fn release(&self, _: &ValueRef) {}
    }

    fn opened() -> OpenedMember {
        let Ok(Parsed::Run(config)) = parse(std::iter::once("stele".into()), std::iter::empty()) else {
            panic!("good flags");
        };
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let options = Options { segment_bytes: 1 << 16, ..Options::new("/data") };
        member::open(&disk, &options, member_config(&config, 0), &Sequential).expect("an empty disk")
    }

    /// A job of a lane that reads one value, and what releases it when dropped.
    fn job(lane: JobLane, log: &log::Reader) -> (Job, Sender<()>) {
        let (go_on, held) = channel();
        let values: Arc<dyn Values> = Arc::new(HeldValues(Mutex::new(held)));
        let value = ValueRef { address: 1, len: 3, checksum: 0 };
        let job = match lane {
            JobLane::Files => Job::ReadValues { wanted: vec![value], values, pin: log.pin() },
            JobLane::Repair => {
                let name = ValueName { main: 2, sub: 0, len: 3, checksum: 0, key: "k".into() };
                let read = PeerRead::Value { name, value, values, pin: log.pin() };
                Job::ReadForPeer { to: 2, read }
            }
            JobLane::Space => panic!("its jobs read no single value"),
        };
        assert_eq!(job.lane(), lane);
        (job, go_on)
    }

    /// The lanes of the next results, as many as `count`.
    fn next_done(inputs: &InputQueue, count: usize) -> Vec<JobLane> {
        let (mut all, mut taken) = (Vec::new(), Vec::new());
        while all.len() < count {
            inputs.wait(Instant::now() + Duration::from_secs(60));
            inputs.take(&mut taken);
            assert!(!taken.is_empty(), "{all:?} and nothing else for a minute");
            all.extend(taken.drain(..).map(|input| match input {
                Input::Background(done) => match *done {
                    Done::ValuesRead(_) => JobLane::Files,
                    Done::ReadForPeer { .. } => JobLane::Repair,
                    other => panic!("another result: {other:?}"),
                },
                other => panic!("another input: {other:?}"),
            }));
        }
        all
    }

    #[test]
    fn a_blocked_lane_holds_up_no_other() {
        let metrics = Metrics::new(&FeatureGates::parse("").expect("none"), false).expect("metrics");
        let (inputs, metrics, member) = (Arc::new(InputQueue::default()), Arc::new(metrics), opened());
        let log_writer = Arc::new(LogWriter::new(inputs.clone(), metrics.clone()));
        let (workers, threads) = BackgroundWorkers::start(&inputs, log_writer, &metrics).expect("threads");
        for (blocked, other) in [(JobLane::Files, JobLane::Repair), (JobLane::Repair, JobLane::Files)] {
            let submit = |lane| {
                let (job, go_on) = job(lane, &member.log);
                workers.submit(job);
                go_on
            };
            let held = submit(blocked);
            drop(submit(blocked));
            drop(submit(other));
            assert_eq!(next_done(&inputs, 1), [other], "while {blocked:?} is blocked");
            drop(held);
            assert_eq!(next_done(&inputs, 2), [blocked, blocked]);
        }
        drop(workers);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }
}
