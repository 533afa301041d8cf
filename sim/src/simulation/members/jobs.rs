//! The log thread and the background thread of a member: jobs that run later and take time.

use std::time::Duration;

use log::{WriteDone, WriteJob};
use member::Input;
use member::jobs::{Done, Job};

use crate::defects::Defect;
use crate::simulation::state::Simulation;
use crate::world::queue::SimEvent;

/// Longest duration of a checkpoint, and of any other background job.
const MAX_CHECKPOINT_NS: u64 = 300_000_000;
const MAX_JOB_NS: u64 = 25_000_000;

impl Simulation {
    /// Starts a write of all write jobs that wait, unless one is under way.
    pub(super) fn start_writing(&mut self, member: usize) {
        let run = self.machines[member].run;
        let stalled_ns = self.machines[member].syncs_stalled_until_ns;
        let Some(process) = self.machines[member].process.as_mut() else { return };
        if process.writing || process.writes.is_empty() {
            return;
        }
        process.writing = true;
        let took_ns = self.plan.disk.base_ns + self.disk_rng.below(self.plan.disk.jitter_ns);
        self.queue.schedule((self.now_ns + took_ns).max(stalled_ns), SimEvent::WriteLog { member, run });
    }

    /// The log thread writes and syncs what waits for it.
    pub(in crate::simulation) fn write_log(&mut self, member: usize, run: u64) {
        let Some(process) = self.machines[member].process(run) else { return };
        let writes = std::mem::take(&mut process.writes);
        let bytes: u64 = writes.iter().map(WriteJob::bytes).sum();
        let done = WriteJob::run_all(writes, &|| Duration::ZERO);
        self.trace.mix(&[2, self.now_ns, member as u64, bytes]);
        let at_ns = self.now_ns + self.disk_rng.below(200_000);
        self.queue.schedule(at_ns, SimEvent::LogWritten { member, run, done });
    }

    /// The member receives the completion of a write.
    pub(in crate::simulation) fn log_written(&mut self, member: usize, run: u64, done: WriteDone) {
        let Some(process) = self.machines[member].process(run) else { return };
        process.writing = false;
        self.give(member, Input::WritesSynced(done));
        self.start_writing(member);
    }

    /// Starts a background job.
    pub(super) fn start_job(&mut self, member: usize, job: Job) {
        let run = self.machines[member].run;
        let Some(process) = self.machines[member].process.as_mut() else { return };
        match job {
            Job::Log(_) => process.jobs.log += 1,
            Job::Checkpoint(_) => process.jobs.checkpoint += 1,
            Job::Relocate(_) => process.jobs.relocation += 1,
            _ => {}
        }
        let longest_ns = if matches!(job, Job::Checkpoint(_)) { MAX_CHECKPOINT_NS } else { MAX_JOB_NS };
        let took_ns = self.disk_rng.below(longest_ns);
        self.queue.schedule(self.now_ns + took_ns, SimEvent::RunJob { member, run, job });
    }

    /// The background thread runs a job.
    pub(in crate::simulation) fn run_job(&mut self, member: usize, run: u64, job: Job) {
        if self.machines[member].process(run).is_none() {
            return;
        }
        if matches!(job, Job::MergeCheckpoints(_)) {
            self.coverage.event("merges of checkpoints");
        }
        // Looking at the files would count as operations of the disk.
        let is_merge_of_defect =
            matches!(job, Job::MergeCheckpoints(_)) && self.defect == Some(Defect::MergeLosesKeys);
        let before = is_merge_of_defect.then(|| self.machines[member].disk.files());
        let relocates = matches!(job, Job::Relocate(_));
        self.machines[member].disk.set_relocating(relocates);
        let done = job.run();
        self.machines[member].disk.set_relocating(false);
        if let Some(before) = before {
            let mut files = self.machines[member].disk.files().into_iter();
            self.machines[member].merged = files.find(|file| !before.contains(file));
        }
        self.trace.mix(&[3, self.now_ns, member as u64]);
        let at_ns = self.now_ns + self.disk_rng.below(500_000);
        self.queue.schedule(at_ns, SimEvent::JobDone { member, run, done });
    }

    /// The member receives the completion of a job.
    pub(in crate::simulation) fn job_done(&mut self, member: usize, run: u64, done: Done) {
        let Some(process) = self.machines[member].process(run) else { return };
        match done {
            Done::Log(_) => process.jobs.log -= 1,
            Done::Checkpoint { .. } => process.jobs.checkpoint -= 1,
            Done::Relocated(_) => process.jobs.relocation -= 1,
            _ => {}
        }
        self.give(member, Input::Background(Box::new(done)));
    }
}
