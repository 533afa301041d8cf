//! Committed entries into the store, and what follows from them for watchers, leases and callers.

use api::etcdserverpb as pb;
use bytes::Bytes;
use consensus::{Entry, EntryKind};
use prost::Message;
use store::{Applied, Damaged, Event, LeaseChange, Outcome, Reply, Slice, ValueRef};

use super::Member;
use crate::apply::{self, BatchBeingApplied};
use crate::io::{Answer, MemberFatal, Now, Output};
use crate::jobs::Job;
use crate::lease::LeaderLeases;
use crate::own_syncs::OwnSync;
use crate::proposals::batch::{CommandKind, LogCommand};
use crate::read_index::Waiter;
use crate::status::step_counts::StepCounts;

impl Member {
    /// Applies about one slice of what is committed. What is left waits for the next step, so that frames and answered
    /// reads leave in between. `spent` counts the keys of this step. Returns whether an entry was applied.
    pub(super) fn apply_committed(
        &mut self,
        now: Now,
        spent: &mut usize,
        out: &mut Output,
    ) -> Result<bool, MemberFatal> {
        let before = self.apply_queue.applied();
        while *spent < self.config.store_limits.slice_keys
            && let Some(entry) = self.apply_queue.next()
        {
            match entry.kind {
                EntryKind::Batch => {
                    if !self.apply_slice(now, &entry, spent, out)? {
                        break;
                    }
                }
                // The configuration is that of the snapshot already, and the state after it replaces this one.
                EntryKind::ConfChange if self.installing.is_running() => break,
                EntryKind::ConfChange => self.apply_conf_change(&entry, out)?,
                EntryKind::Empty => self.store.apply_empty(apply::applied_id(&entry)),
            }
            self.entry_applied(now, &entry, out);
        }
        let applied = self.apply_queue.applied();
        if applied > before {
            self.consensus.applied(applied);
        }
        Ok(applied > before)
    }

    /// Whether so much is committed and not applied that no more is let in.
    pub(super) fn has_too_much_to_apply(&self) -> bool {
        self.apply_queue.bytes() >= self.config.max_unapplied_bytes
    }

    fn entry_applied(&mut self, now: Now, entry: &Entry, out: &mut Output) {
        self.apply_queue.advance();
        self.value_repairs.apply_went_on();
        let term = self.leadership.term;
        if let Some(leader) = self.leadership.as_leader_mut()
            && entry.term == term
            && leader.leases.is_none()
        {
            // From now on this leader answers lease questions: every command of earlier terms is applied.
            let leases = self.reader.leases(i64::MIN, usize::MAX);
            leader.leases = Some(LeaderLeases::start(now.monotonic_ns, leases));
            self.propose_cluster_version(now);
            self.settle_held_commands(out);
        }
        self.state_hashes.remember(entry.index, self.reader.state_hash().1);
    }

    /// Applies a slice of a batch. Returns whether the batch is applied; else it goes on in a later step, or waits for
    /// values that it compares.
    fn apply_slice(
        &mut self,
        now: Now,
        entry: &Entry,
        spent: &mut usize,
        out: &mut Output,
    ) -> Result<bool, MemberFatal> {
        if self.applying.is_none() {
            let address = self.log.address(entry.index).expect("a committed entry is in the log");
            let is_watched = self.hub.is_watched();
            let origin = self.config.origin();
            self.applying = Some(apply::begin_batch(&mut self.store, entry, address, origin, is_watched)?);
        }
        let applied = match self.store.apply_slice(spent) {
            Slice::Partial { events, revision } => {
                self.publish(revision, events);
                None
            }
            Slice::NeedsValues(wanted) => {
                // The pin keeps the files from going before the job has read them.
                let (values, pin) = (self.values.clone(), self.log.reader().pin());
                out.background.push(Job::ReadValues { wanted, values, pin });
                self.apply_queue.block();
                None
            }
            Slice::Last(mut applied) => {
                self.publish(applied.revision, std::mem::take(&mut applied.events));
                Some(applied)
            }
        };
        if !self.store.is_mid_command() {
            self.take_held_jobs(now, out)?;
        }
        out.counts.apply_goes_on = applied.is_none();
        let Some(applied) = applied else { return Ok(false) };
        let batch = self.applying.take().expect("the batch whose last slice this was");
        let own_sync = self.own_syncs.applied(entry.index, now.monotonic_ns);
        self.batch_applied(now, batch, applied, own_sync, out);
        Ok(true)
    }

    /// Values for the batch in progress were read, or could not be.
    pub(super) fn on_values_read(&mut self, read: Result<Vec<(ValueRef, Bytes)>, Damaged>) {
        self.apply_queue.unblock();
        match read {
            // A snapshot may have been installed meanwhile.
            Ok(values) if self.store.is_applying() => self.store.supply_values(values.into_iter()),
            Ok(_) => {}
            Err(damaged) => self.wait_for_repair(&damaged),
        }
    }

    /// Apply waits until a damaged value is repaired. When that cannot be known or too much is under repair, a later
    /// step tries again.
    fn wait_for_repair(&mut self, damaged: &Damaged) {
        if !damaged.is_transient && self.value_repairs.begin(damaged.address, damaged.key.clone()) {
            self.apply_queue.block();
            self.value_repairs.mark_for_apply(damaged.address);
        } else {
            self.apply_queue.defer();
        }
    }

    /// Hands the events of a slice to the watchers, those of a command in progress once its revision is visible.
    fn publish(&mut self, revision: i64, events: Vec<Event>) {
        if self.applying.as_ref().is_some_and(|batch| batch.is_watched) {
            self.hub.publish(revision, &events.into());
        } else {
            self.hub.publish_unwatched(revision);
        }
    }

    fn batch_applied(
        &mut self,
        now: Now,
        batch: BatchBeingApplied,
        applied: Applied,
        own_sync: OwnSync,
        out: &mut Output,
    ) {
        let commands = batch.len();
        self.checkpoints.applied(commands);
        self.status.set_commands_applied(self.status.commands_applied() + commands);
        count_leases(&applied.leases, &mut out.counts);
        if let Some(leases) = self.leadership.leases_mut() {
            let released = leases.follow(now.monotonic_ns, &applied.leases);
            released.into_iter().for_each(|question| self.read_index.arrive(Waiter::Lease(question)));
        }
        if applied.cluster_changed {
            self.cluster_versions.settled();
            self.follow_members();
        }
        if applied.auth_changed {
            self.hub.wake_all();
        }
        if applied.alarms_changed {
            self.alarms.settled();
        }
        let origin = self.config.origin();
        for (command, outcome) in batch.outcomes(applied.outcomes) {
            if command.kind == CommandKind::LeaseExpire
                && let Some(leases) = self.leadership.leases_mut()
            {
                let expired = leases.expiry_applied(&command.body);
                self.status.set_leases_expired(self.status.leases_expired() + expired);
            }
            out.counts.command_applied(command.kind, outcome.is_ok());
            if matches!(outcome, Ok(Reply::Compaction { .. })) {
                self.purge.start();
            }
            if command.origin == origin {
                self.proposals.applied(command.sequence);
                self.answer_applied(&command, outcome, own_sync, out);
            }
        }
    }

    /// A physical compaction is answered once its history is purged, also one that is refused because the revision was
    /// compacted before, as in etcd (`kvstore.updateCompactRev`). It is committed and applied, so the request timeout
    /// has served its purpose: the caller waits as long as its client does.
    fn answer_applied(
        &mut self,
        command: &LogCommand,
        outcome: Outcome,
        own_sync: OwnSync,
        out: &mut Output,
    ) {
        let token = command.sequence;
        if !waits_for_purge(command, &outcome) {
            return self.callers.answer_synced(token, Answer::Applied(outcome), own_sync, out);
        }
        // Also if nothing is left to purge: the next step answers.
        self.purge.start();
        let compacted = self.reader.compacted();
        if self.callers.remove(token)
            && let Err(error) = self.purge.answer_after(token, compacted, outcome)
        {
            out.answers.push((token, Answer::Failed(error)));
        }
    }

    /// The leader keeps the cluster version as it should be.
    pub(super) fn propose_cluster_version(&mut self, now: Now) {
        if !self.leadership.is_established() {
            return;
        }
        let time = (now.monotonic_ns, self.config.request_timeout_ns());
        let (present, target) = (self.reader.cluster_version(), self.reader.downgrade_target());
        if let Some(body) = self.cluster_versions.propose(time, present, target) {
            self.proposals.push_own(CommandKind::ClusterVersion, body);
        }
    }
}

/// Counts what became of leases.
fn count_leases(changes: &[LeaseChange], counts: &mut StepCounts) {
    for change in changes {
        match change {
            LeaseChange::Granted { ttl, .. } => counts.granted_ttls_s.push(*ttl),
            LeaseChange::Revoked { .. } => counts.leases_revoked += 1,
            LeaseChange::Checkpointed { .. } | LeaseChange::ExpiryIgnored { .. } => {}
        }
    }
}

/// Whether the answer to a command waits until compacted history is purged.
fn waits_for_purge(command: &LogCommand, outcome: &Outcome) -> bool {
    let is_compacted = matches!(outcome, Ok(Reply::Compaction { .. }) | Err(api::Error::Compacted));
    command.kind == CommandKind::Compaction
        && is_compacted
        && pb::CompactionRequest::decode(command.body.clone()).is_ok_and(|request| request.physical)
}
