//! What keeps a member small and quick to restart: checkpoints, truncation of the log, purging of compacted history,
//! files prepared and given back, seals; and the comparison of state hashes with the peers.
//!
//! Nothing here is urgent: each call does one small step, long work goes to the background thread.

use std::collections::VecDeque;

use log::{LogId, Space};
use store::{CheckpointKind, Outcome};

use crate::background::{CheckpointJob, Done, Job, Purpose};
use crate::io::{Answer, Fatal, Notice, Now, Output};
use crate::member::Member;
use crate::peer_message::PeerMessage;

/// Changes purged in one step: some tens of microseconds, so that no request waits long behind it.
const PURGE_STEPS: usize = 256;

/// Pause after each step of purging, in nanoseconds: requests go first. All members purge the same history at the same
/// time, so without it they would take every core there is for as long as it lasts.
const PURGE_PAUSE_NS: u64 = 1_000_000;

/// A base is written when the deltas have grown to so many times its size. The more, the fewer bytes a growing index
/// writes (all bases together are a half of the last one, not as much again as with 1), and the more a restart merges.
const DELTAS_TO_BASE: u64 = 2;

/// Deltas after which a base is written whatever their size. A few keys that change for ever make small ones, and what
/// a restart reads, the list of them and the history that only purging knew would grow without end.
const MAX_DELTAS: usize = 256;

/// State hashes remembered, to compare with peers that are a little behind.
const HASHES_KEPT: usize = 1_000;

/// What upkeep remembers.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    commands_since_checkpoint: u64,
    checkpoint_running: bool,
    /// A checkpoint is wanted at or behind this entry.
    checkpoint_wanted: Option<u64>,
    /// A graceful stop was asked for: a last checkpoint, then the end.
    stopping: bool,
    /// Whether compacted history is left to purge.
    purging: bool,
    /// When the next step of it is due.
    purge_at_ns: u64,
    /// Physical compactions that wait: token, the revision they cut at, the answer.
    waiting_for_purge: Vec<(u64, i64, Outcome)>,
    wrote_at_ns: u64,
    seal_pending: bool,
    hashes: VecDeque<(u64, u64)>,
    hash_sent: u64,
    /// Alarms this member has proposed and not yet seen applied.
    pub(crate) alarm_proposed: bool,
    published_at_ns: Option<u64>,
}

impl Upkeep {
    pub(crate) fn wrote(&mut self, now_ns: u64) {
        self.wrote_at_ns = now_ns;
        self.seal_pending = true;
    }

    pub(crate) fn applied(&mut self, commands: u64) {
        self.commands_since_checkpoint += commands;
    }

    /// The state was replaced by that of a snapshot, which is a checkpoint.
    pub(crate) fn installed(&mut self) {
        self.commands_since_checkpoint = 0;
        self.purging = true;
        self.alarm_proposed = false;
    }

    pub(crate) fn is_checkpoint_running(&self) -> bool {
        self.checkpoint_running
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(crate) fn leader_changed(&mut self) {
        self.alarm_proposed = false;
    }

    pub(crate) fn alarms_changed(&mut self) {
        self.alarm_proposed = false;
    }

    pub(crate) fn compacted(&mut self) {
        self.purging = true;
    }

    /// History may be left that somebody's pin kept when it was purged last.
    pub(crate) fn purge_again(&mut self) {
        self.purging = true;
    }

    pub(crate) fn wait_for_purge(&mut self, token: u64, compacted: i64, outcome: Outcome) {
        self.waiting_for_purge.push((token, compacted, outcome));
    }

    pub(crate) fn remember_hash(&mut self, index: u64, hash: u64) {
        if self.hashes.len() == HASHES_KEPT {
            self.hashes.pop_front();
        }
        self.hashes.push_back((index, hash));
    }

    fn hash_at(&self, index: u64) -> Option<u64> {
        let at = self.hashes.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        Some(self.hashes[at].1)
    }

    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let seal_after_ns = log::SEAL_AFTER.as_nanos() as u64;
        let seal_at_ns = self.seal_pending.then_some(self.wrote_at_ns + seal_after_ns);
        let purge_at_ns = self.purging.then_some(self.purge_at_ns);
        [seal_at_ns, purge_at_ns].into_iter().flatten().min()
    }
}

impl Member {
    /// One round of upkeep.
    pub(crate) fn keep_up(&mut self, now: Now, out: &mut Output) {
        self.purge(now, out);
        self.seal(now, out);
        self.checkpoint_if_due(out);
        self.drive_repair(now, out);
        self.reclaim_space(now, out);
        while let Some(job) = self.log.next_job() {
            out.background.push(Job::Log(job));
        }
    }

    fn purge(&mut self, now: Now, out: &mut Output) {
        if !self.upkeep.purging || now.monotonic_ns < self.upkeep.purge_at_ns {
            return;
        }
        self.upkeep.purge_at_ns = now.monotonic_ns + PURGE_PAUSE_NS;
        self.upkeep.purging = !self.store.purge_step(PURGE_STEPS);
        let purged = self.reader.purged();
        let waiting = std::mem::take(&mut self.upkeep.waiting_for_purge);
        let (done, waiting) = waiting.into_iter().partition(|(_, compacted, _)| *compacted <= purged);
        self.upkeep.waiting_for_purge = waiting;
        let done: Vec<(u64, i64, Outcome)> = done;
        for (token, _, outcome) in done {
            self.answer(token, Answer::Applied(outcome), out);
        }
    }

    fn seal(&mut self, now: Now, out: &mut Output) {
        let seal_at_ns = self.upkeep.wrote_at_ns + log::SEAL_AFTER.as_nanos() as u64;
        if !self.upkeep.seal_pending || now.monotonic_ns < seal_at_ns {
            return;
        }
        // Not durable yet: the completion of the write brings us back here.
        if self.log.durable_position() == self.log.position() {
            self.upkeep.seal_pending = false;
            out.writes.extend(self.log.seal());
        } else {
            self.upkeep.wrote_at_ns = now.monotonic_ns;
        }
    }

    fn checkpoint_if_due(&mut self, out: &mut Output) {
        let due = self.upkeep.commands_since_checkpoint >= self.config.checkpoint_commands
            || self.upkeep.checkpoint_wanted.is_some_and(|index| index <= self.backlog.applied());
        if due && !self.upkeep.checkpoint_running && !self.snapshots.is_installing() {
            self.begin_checkpoint(out);
        }
    }

    /// Ends the active segment, if another can be spared, and wants a checkpoint behind it, so that the next start
    /// reads nothing of what is there now. Returns the entry it ends with.
    pub(crate) fn leave_segment(&mut self, now: Now, out: &mut Output) -> u64 {
        if let Some(rolled) = self.log.roll_over() {
            out.writes.push(rolled.job);
            self.upkeep.wrote(now.monotonic_ns);
        }
        let last = self.log.last_index();
        self.upkeep.checkpoint_wanted = Some(last);
        last
    }

    /// A delta as a rule; a base when the deltas have grown to a multiple of its size, or are many.
    pub(crate) fn begin_checkpoint(&mut self, out: &mut Output) {
        let (base, deltas) = self.log.checkpoint_bytes();
        // Without a base there is nothing to grow to, so one is due.
        let is_base_due =
            deltas >= base.saturating_mul(DELTAS_TO_BASE) || self.log.checkpoint_deltas() >= MAX_DELTAS;
        let wanted = if is_base_due { CheckpointKind::Base } else { CheckpointKind::Delta };
        let source = self.store.begin_checkpoint(wanted);
        let kind = match source.kind() {
            CheckpointKind::Base => log::CheckpointKind::Base,
            CheckpointKind::Delta => log::CheckpointKind::Delta,
        };
        let id = LogId { index: self.backlog.applied(), term: self.backlog.applied_term() };
        let writer = self.log.begin_checkpoint(kind, id);
        let head = crate::head::encode(&self.consensus.status().conf_state);
        self.upkeep.checkpoint_running = true;
        self.upkeep.checkpoint_wanted.take_if(|index| *index <= id.index);
        self.upkeep.commands_since_checkpoint = 0;
        out.background.push(Job::Checkpoint(Box::new(CheckpointJob { id, writer, head, source })));
    }

    pub(crate) fn on_background(&mut self, now: Now, done: Done, out: &mut Output) -> Result<(), Fatal> {
        match done {
            Done::Log(done) => {
                if let Err(error) = self.log.background_done(done) {
                    out.notices.push(Notice::Failure { text: error.to_string() });
                }
            }
            Done::Checkpoint { id, done } => self.checkpoint_done(id, done, out),
            Done::ReadEntries { from, single, entries } => self.entries_read(from, single, entries, out),
            Done::Relocated { purpose: Purpose::Space, done } => self.on_copied(done, out)?,
            Done::Relocated { purpose: Purpose::Repair, done } => self.on_values_written(now, done, out)?,
            Done::ReadForPeer { to, answer } => self.on_read_for_peer(to, &answer, out),
            Done::EntryRepaired { index, result } => self.on_entry_repaired(index, result, out)?,
            Done::Installed(done) => self.on_installed(now, done, out)?,
            Done::InstallAbandoned(done) => self.install_abandoned(done),
        }
        Ok(())
    }

    fn checkpoint_done(&mut self, id: LogId, done: log::CheckpointDone, out: &mut Output) {
        self.upkeep.checkpoint_running = false;
        match self.log.checkpoint_done(done) {
            Ok(()) => {
                out.notices.push(Notice::Checkpoint { index: id.index });
                self.truncate();
            }
            Err(error) => {
                self.store.abandon_checkpoint();
                self.reclaim.checkpoint_failed();
                out.notices
                    .push(Notice::Failure { text: format!("the checkpoint was not written: {error}") });
            }
        }
        out.stopped |= self.upkeep.stopping;
    }

    /// Forgets entries that neither recovery nor a follower a little behind needs.
    pub(crate) fn truncate(&mut self) {
        self.watch_followers();
        let checkpoint = self.log.checkpoint_id().map_or(0, |id| id.index);
        let to = checkpoint.min(self.forgettable());
        if to >= self.log.first_index() {
            self.log.truncate_to(to);
            self.consensus.truncate(to);
        }
    }

    pub(crate) fn fetch_entries(&mut self, fetches: Vec<consensus::Fetch>, out: &mut Output) {
        for fetch in fetches {
            match self.log.read_entries(fetch.from, fetch.to, fetch.max_bytes) {
                Ok(job) => out.background.push(Job::ReadEntries { from: fetch.from, single: false, job }),
                Err(_) => self.consensus.fetch_failed(fetch.from),
            }
        }
    }

    fn entries_read(
        &mut self,
        from: u64,
        single: bool,
        entries: Result<Vec<log::Entry>, log::ReadError>,
        out: &mut Output,
    ) {
        let error = match entries {
            Ok(entries) => {
                let entries = entries.into_iter().filter_map(crate::apply::from_log).collect();
                self.consensus.entries_fetched(from, entries);
                return;
            }
            Err(error) => error,
        };
        // One of them is damaged. The ones before it are found by asking for one at a time.
        if !single && let Ok(job) = self.log.read_entries(from, from + 1, 0) {
            out.background.push(Job::ReadEntries { from, single: true, job });
            return;
        }
        out.notices.push(Notice::Damage { text: error.to_string() });
        self.repair_entry(from);
        self.consensus.fetch_failed(from);
    }

    /// A last checkpoint makes the next start quick; if one is running, its end is the end.
    pub(crate) fn on_stop(&mut self, out: &mut Output) {
        self.status.set_stopping();
        self.upkeep.stopping = true;
        if self.upkeep.checkpoint_running {
            return;
        }
        // An installation is cut short: the next start finds the state before it, or after.
        if self.snapshots.is_installing() {
            out.stopped = true;
            return;
        }
        if self.upkeep.commands_since_checkpoint == 0 {
            out.stopped = true;
        } else {
            self.begin_checkpoint(out);
        }
    }

    /// Tells the peers our newest hash, when it is new.
    pub(crate) fn send_state_hash(&mut self, out: &mut Output) {
        let Some(&(index, hash)) = self.upkeep.hashes.back() else { return };
        if index == self.upkeep.hash_sent {
            return;
        }
        self.upkeep.hash_sent = index;
        for peer in self.up.clone() {
            self.send(peer, &PeerMessage::StateHash { index, hash }, out);
        }
    }

    /// A peer's hash at an index that we have passed must be ours. The leader raises the alarm.
    pub(crate) fn on_state_hash(&mut self, from: u64, index: u64, hash: u64, out: &mut Output) {
        if self.upkeep.hash_at(index).is_some_and(|ours| ours != hash) {
            out.notices.push(Notice::Diverged { peer: from, index });
            if self.leadership.leading {
                self.raise_alarm(api::etcdserverpb::AlarmType::Corrupt, from);
            }
        }
    }

    pub(crate) fn raise_no_space(&mut self) {
        self.raise_alarm(api::etcdserverpb::AlarmType::Nospace, self.config.member_id);
    }

    fn raise_alarm(&mut self, alarm: api::etcdserverpb::AlarmType, member_id: u64) {
        let raised = self.reader.alarms().iter().any(|a| a.alarm == alarm as i32 && a.member_id == member_id);
        if raised || std::mem::replace(&mut self.upkeep.alarm_proposed, true) {
            return;
        }
        let action = api::etcdserverpb::alarm_request::AlarmAction::Activate as i32;
        let body = api::etcdserverpb::AlarmRequest { action, member_id, alarm: alarm as i32 };
        self.propose_own(crate::batch::Kind::Alarm, prost::Message::encode_to_vec(&body).into());
    }

    /// Publishes name, client URLs and incarnation once there is a leader, again until it is applied.
    pub(crate) fn publish_self(&mut self, now: Now) {
        let again_ns = self.config.request_timeout_ns();
        let waits = self.upkeep.published_at_ns.is_some_and(|at| now.monotonic_ns < at + again_ns);
        if self.leadership.leader == 0 || waits || self.is_published() {
            return;
        }
        self.upkeep.published_at_ns = Some(now.monotonic_ns);
        let publish = crate::publish::Publish {
            member: self.config.member_id,
            incarnation: self.config.incarnation,
            name: self.config.name.clone(),
            client_urls: self.config.client_urls.clone(),
        };
        self.propose_own(crate::batch::Kind::Publish, publish.encode());
    }

    /// Whether the cluster knows this member as it is configured now.
    pub(crate) fn is_published(&self) -> bool {
        self.reader.members().iter().any(|member| {
            member.id == self.config.member_id
                && member.name == self.config.name
                && member.client_urls == self.config.client_urls
                && member.incarnation == self.config.incarnation
        })
    }

    /// Space may have come back.
    pub(crate) fn retry_space(&mut self) {
        if self.log.space() == Space::Low {
            self.log.retry_space();
        }
    }
}
