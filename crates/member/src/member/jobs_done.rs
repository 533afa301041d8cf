//! Results of background jobs.

use consensus::Write;
use log::{CheckpointDone, InstallDone, InstallWaiting, JobError, LogId, ReadError, RelocationDone};

use store::{CompactionHashScan, KeptHash};

use super::Member;
use super::ready_loop::to_log_hard_state;
use crate::apply::{ApplyQueue, from_log};
use crate::io::{MemberFatal, Notice, Now, Output, SnapshotEvent};
use crate::jobs::{Done, Job, Scrubbed};
use crate::snapshot::Installation;

impl Member {
    pub(super) fn on_job_done(&mut self, now: Now, done: Done, out: &mut Output) -> Result<(), MemberFatal> {
        match done {
            Done::Log(done) => {
                if let Err(error) = self.log.background_done(done) {
                    out.notices.push(Notice::Failure { text: error.to_string() });
                }
            }
            Done::Checkpoint { id, done } => self.on_checkpoint_done(now, id, done, out),
            Done::CheckpointsMerged(done) => self.on_checkpoints_merged(done, out),
            Done::ReadEntries { from, single, entries } => self.on_entries_read(from, single, entries, out),
            Done::ValuesRead(read) => self.on_values_read(read),
            Done::CompactionHashed(hashed) => self.on_compaction_hashed(hashed, out),
            Done::Relocated(copied) => {
                for (key, address) in
                    self.relocate(out, |relocation, context| relocation.copied(*copied, context))?
                {
                    self.value_repairs.begin(address, Some(key));
                }
            }
            done @ Done::RepairedValuesWritten(_) if self.store.is_mid_command() => {
                self.held_jobs.push(done);
            }
            Done::RepairedValuesWritten(done) => self.on_values_written(now, done, out)?,
            Done::ReadForPeer { to, answer } => self.repair_server.read_done(to, &answer, out),
            Done::Scrubbed(done) => self.on_scrubbed(now, done, out),
            Done::EntryRepaired { index, result } => self.entry_repairs.written(index, result, out)?,
            Done::Installed(done) => self.installing.ended(done),
            Done::InstallWaiting(InstallWaiting { installer, error }) => {
                self.installing.wait(installer, &error, out);
            }
            Done::StateDropped => {}
            Done::SnapshotAbandoned(done) => {
                // Nothing was committed, so nothing follows; its files are removed.
                let hard_state = self.log.hard_state();
                let _ = self.log.install_done(done, hard_state);
            }
        }
        Ok(())
    }

    /// Continues the hash of a compaction, keeps it, or gives it up because the state was replaced or the next
    /// compaction waits to be purged. At its end purging continues.
    fn on_compaction_hashed(
        &mut self,
        hashed: Result<KeptHash, Option<Box<CompactionHashScan>>>,
        out: &mut Output,
    ) {
        match hashed {
            Err(Some(scan)) if self.reader.compacted() <= scan.revision() => {
                return out.background.push(Job::HashCompaction(scan));
            }
            Err(_) => {}
            Ok(hash) => {
                self.store.keep_hash(hash);
                out.notices.push(Notice::HashStored(hash));
            }
        }
        self.purge.hashed();
    }

    /// A pin that kept compacted history may be gone.
    pub(super) fn resume_purging(&mut self) {
        if self.reader.purged() < self.reader.compacted() || self.purge.is_awaited() {
            self.purge.start();
        }
    }

    fn on_checkpoint_done(&mut self, now: Now, id: LogId, done: CheckpointDone, out: &mut Output) {
        self.checkpoints.done();
        // Nothing was purged while it was written, and under load there is one in most of the time.
        self.resume_purging();
        match self.log.checkpoint_done(done) {
            Ok(()) => {
                self.store.checkpoint_written();
                out.notices.push(Notice::Checkpoint { index: id.index });
                if self.checkpoints.take_replaced() {
                    let text = "the checkpoints, by a new base".to_owned();
                    out.notices.push(Notice::Repaired { text });
                }
                self.truncate();
                // An installation replaces all of them, and consensus waits for it.
                if !self.is_stopping && !self.installing.is_running() {
                    out.background
                        .extend(self.checkpoints.begin_merge(&mut self.log, self.config.store_limits));
                }
            }
            Err(error) => {
                self.store.abandon_checkpoint();
                self.checkpoints.failed(now.monotonic_ns, error.is_full());
                self.relocation.checkpoint_failed();
                let text = format!("the checkpoint was not written: {error}");
                out.notices.push(Notice::Failure { text });
            }
        }
        out.stopped |= self.is_stopping;
    }

    /// The chain is shorter, or as it was. The state of the newest checkpoint is the same.
    fn on_checkpoints_merged(&mut self, done: CheckpointDone, out: &mut Output) {
        let result = self.log.checkpoint_done(done);
        self.checkpoints.merged(&result);
        if let Err(error) = &result
            && !matches!(error, JobError::GivenUp)
        {
            out.notices.push(Notice::Failure { text: format!("checkpoints were not merged: {error}") });
        }
        if self.is_stopping {
            self.on_stop(out);
        }
    }

    /// Entries for a follower were read. If one is damaged, the entries before it are found by reading one at a time.
    fn on_entries_read(
        &mut self,
        from: u64,
        single: bool,
        entries: Result<Vec<log::Entry>, ReadError>,
        out: &mut Output,
    ) {
        let error = match entries {
            Ok(entries) => {
                let entries = entries.into_iter().filter_map(from_log).collect();
                self.consensus.entries_fetched(from, entries);
                return;
            }
            Err(error) => error,
        };
        if error.is_out_of_descriptors() {
            // Nothing is known to be damaged; consensus asks again.
            out.notices.push(Notice::Failure { text: error.to_string() });
            return self.consensus.fetch_failed(from);
        }
        if !single && let Ok(job) = self.log.read_entries(from, from + 1, 0) {
            out.background.push(Job::ReadEntries { from, single: true, job });
            return;
        }
        self.entry_repairs.begin(from, !error.is_of_the_disk(), error.to_string(), &self.log, out);
        self.consensus.fetch_failed(from);
    }

    /// Values that peers sent are written.
    fn on_values_written(
        &mut self,
        now: Now,
        done: RelocationDone,
        out: &mut Output,
    ) -> Result<(), MemberFatal> {
        let ends_segment = self.repair(now, out, |repairs, context| repairs.written(done, context))?;
        if ends_segment {
            self.end_segment(now, out);
        }
        Ok(())
    }

    /// Begins and ends what may begin or end of a snapshot installation.
    pub(super) fn drive_install(&mut self, now: Now, out: &mut Output) -> Result<(), MemberFatal> {
        self.installing.abandon_unwanted(out);
        // The log continues in a segment of its own behind a snapshot.
        if self.log.can_begin_segment()
            && let Some(done) = self.installing.take_ended()
        {
            self.finish_install(now, done, out)?;
        }
        // A checkpoint of the old state must not be under way when the state is replaced.
        if self.checkpoints.is_running() {
            if self.installing.waits_to_begin() {
                self.checkpoints.give_up_merge();
            }
        } else {
            self.installing.begin(out);
        }
        Ok(())
    }

    /// A snapshot is committed on disk, and the log can begin a segment behind it: log, store, watchers and apply queue
    /// switch to the new state.
    pub(super) fn finish_install(
        &mut self,
        now: Now,
        done: InstallDone,
        out: &mut Output,
    ) -> Result<(), MemberFatal> {
        let Installation { from, meta, write, state, .. } = self.installing.finish();
        let newer = self.write_positions.take_hard_state(&write);
        let mut hard_state = newer.map_or_else(|| self.log.hard_state(), to_log_hard_state);
        hard_state.commit = hard_state.commit.max(meta.index);
        let installed =
            self.log.install_done(done, hard_state).map_err(|source| MemberFatal::Install { source })?;
        out.writes.push(installed.job);
        let old = state.install(&mut self.store, &mut self.log);
        out.background.push(Job::DropState(Box::new(old)));
        self.applying = None;
        self.apply_queue = ApplyQueue::at(LogId { index: meta.index, term: meta.term });
        self.hub.snapshot_installed(self.reader.current_revision());
        self.follow_members();
        self.checkpoints.installed();
        self.purge.start();
        self.alarms.settled();
        self.relocation.state_replaced(&mut self.log);
        self.repair(now, out, |repairs, context| repairs.state_replaced(context));
        match write.entries.is_empty() {
            true => self.note_write(now, write.number, installed.position),
            false => self.plan_write(now, Write { hard_state: None, snapshot: None, ..write }, out),
        }
        let event = SnapshotEvent::Installed { index: meta.index };
        out.notices.push(Notice::Snapshot { peer: from, event });
        for write in self.installing.take_held() {
            self.plan_write(now, write, out);
        }
        self.take_held_jobs(now, out)
    }

    /// Handles the results that waited for the end of a command.
    pub(super) fn take_held_jobs(&mut self, now: Now, out: &mut Output) -> Result<(), MemberFatal> {
        std::mem::take(&mut self.held_jobs).into_iter().try_for_each(|done| self.on_job_done(now, done, out))
    }

    /// What the scrub found damaged is repaired as after any other read, and a checkpoint by a new one. If too much is
    /// under repair, a later round finds it again.
    pub(super) fn on_scrubbed(&mut self, now: Now, done: Scrubbed, out: &mut Output) {
        let news = self.scrub.read(now.monotonic_ns, self.config.scrub, &self.log, done);
        for (key, address) in news.values {
            self.value_repairs.begin(address, Some(key));
        }
        if let Some((index, error)) = news.entry {
            let text = format!("entry {index} of the log: {error}");
            self.entry_repairs.begin(index, !error.is_of_the_disk(), text, &self.log, out);
        }
        if let Some(error) = news.checkpoint {
            self.checkpoints.replace_damaged();
            let (is_damaged, text) = (!error.is_of_the_disk(), error.to_string());
            out.notices.push(if is_damaged { Notice::Damage { text } } else { Notice::Failure { text } });
        }
        self.status.set_scrubbed_bytes(self.status.scrubbed_bytes() + news.bytes);
        if let Some(totals) = news.ended {
            self.status.set_scrub_rounds(self.status.scrub_rounds() + 1);
            out.notices.push(Notice::Scrubbed(totals));
        }
    }
}
