//! A member that runs as in the server: one thread decides, one writes the log, one runs background jobs.
//!
//! Its clock is simulated: every iteration takes 5 ms, so that leases, pauses and elections pass quickly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use log::{Disk, WriteJob};
use member::jobs::Job;
use member::{Answer, Input, Now, OpenedMember, Output};

use crate::ledger::Ledger;
use crate::recorder::Recorder;
use crate::setup::{config, options};

/// Duration of an iteration on the member's clock.
const ITERATION_NS: u64 = 5_000_000;
/// How long an iteration waits for jobs that are under way.
const WAIT: Duration = Duration::from_millis(5);
/// Iterations within which an expected condition must hold.
pub(crate) const MAX_ITERATIONS: usize = 4_000;

/// Why a process ended.
#[derive(Debug)]
pub(crate) enum LiveError {
    /// The process was killed, as planned.
    Killed,
    /// Something is wrong.
    Wrong(String),
}

impl From<String> for LiveError {
    fn from(text: String) -> Self {
        LiveError::Wrong(text)
    }
}

/// A running member.
pub(crate) struct LiveMember {
    pub(crate) opened: OpenedMember,
    recorder: Recorder,
    now_ns: u64,
    output: Output,
    /// Completions, each with its number of jobs.
    inputs: Receiver<(Input, usize)>,
    underway: usize,
    /// Answers by token, with the number of operations recorded when each could be given.
    pub(crate) answers: BTreeMap<u64, (usize, Answer)>,
    workers: Option<(Sender<WriteJob>, Sender<Job>)>,
    threads: Vec<JoinHandle<()>>,
}

impl LiveMember {
    /// Opens the recorder's directory and starts the threads.
    pub(crate) fn start(
        recorder: &Recorder,
        data_dir: &std::path::Path,
        process: u64,
    ) -> Result<LiveMember, LiveError> {
        let disk: Arc<dyn Disk> = Arc::new(recorder.clone());
        let opened = member::open(&disk, &options(data_dir), config(process), &member::Sequential);
        let opened = opened.map_err(|error| LiveError::Wrong(format!("process {process}: {error}")))?;
        let (done, inputs) = channel();
        let (writes, write_queue) = channel::<WriteJob>();
        let (jobs, job_queue) = channel::<Job>();
        let written = done.clone();
        let threads = vec![
            std::thread::spawn(move || {
                while let Ok(first) = write_queue.recv() {
                    let group: Vec<WriteJob> = std::iter::once(first).chain(write_queue.try_iter()).collect();
                    let count = group.len();
                    let done = WriteJob::run_all(group, &|| Duration::ZERO);
                    let _ = written.send((Input::WritesSynced(done), count));
                }
            }),
            std::thread::spawn(move || {
                while let Ok(job) = job_queue.recv() {
                    let _ = done.send((Input::Background(Box::new(job.run())), 1));
                }
            }),
        ];
        Ok(LiveMember {
            opened,
            recorder: recorder.clone(),
            now_ns: 0,
            output: Output::default(),
            inputs,
            underway: 0,
            answers: BTreeMap::new(),
            workers: Some((writes, jobs)),
            threads,
        })
    }

    /// One iteration: inputs and completions in, one decision, outputs carried out. The ledger records what the member
    /// shows.
    pub(crate) fn iterate(&mut self, inputs: Vec<Input>, ledger: &mut Ledger) -> Result<(), LiveError> {
        let mut done = Vec::new();
        if inputs.is_empty() && self.underway > 0 {
            done.extend(self.inputs.recv_timeout(WAIT));
        }
        done.extend(self.inputs.try_iter());
        // Everything recorded until now has happened before an answer of this iteration.
        let position = self.recorder.position();
        self.now_ns += ITERATION_NS;
        let now = Now { monotonic_ns: self.now_ns, wall_ms: self.now_ns / 1_000_000 };
        self.underway -= done.iter().map(|(_, jobs)| jobs).sum::<usize>();
        let member = &mut self.opened.member;
        let mut inputs = inputs.into_iter().chain(done.into_iter().map(|(input, _)| input));
        let decided = inputs.try_for_each(|input| member.handle(now, input, &mut self.output));
        let decided = decided.and_then(|()| member.drive(now, &mut self.output));
        // A killed process sends no answers and shows no state.
        if self.recorder.is_killed() {
            return Err(LiveError::Killed);
        }
        decided.map_err(|fatal| LiveError::Wrong(fatal.to_string()))?;
        self.carry_out();
        self.answers.extend(self.output.answers.drain(..).map(|(token, answer)| (token, (position, answer))));
        ledger.watch(&self.opened)?;
        Ok(())
    }

    fn carry_out(&mut self) {
        let Some((writes, jobs)) = &self.workers else { return };
        for job in self.output.writes.drain(..) {
            self.underway += usize::from(writes.send(job).is_ok());
        }
        for job in self.output.background.drain(..) {
            self.underway += usize::from(jobs.send(job).is_ok());
        }
        self.output.notices.clear();
    }

    /// Iterates until a condition holds.
    pub(crate) fn until(
        &mut self,
        what: &str,
        ledger: &mut Ledger,
        is_so: impl Fn(&LiveMember) -> bool,
    ) -> Result<(), LiveError> {
        for _ in 0..MAX_ITERATIONS {
            if is_so(self) {
                return Ok(());
            }
            self.iterate(Vec::new(), ledger)?;
        }
        Err(LiveError::Wrong(format!("not within {MAX_ITERATIONS} iterations: {what}")))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.output.stopped
    }

    /// Ends the threads: what was handed to them is still done, or fails when the process counts as killed.
    pub(crate) fn end(mut self) {
        self.workers = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
