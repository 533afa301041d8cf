//! Committed entries into the store, and what follows from them for watchers, leases and callers.

use api::membershippb;
use consensus::{ConfChange, Entry, EntryKind};
use prost::Message;
use store::Outcome;

use super::Member;
use crate::apply::{self, AppliedBatch};
use crate::io::{Answer, MemberFatal, Now, Output};
use crate::lease::LeaderLeases;
use crate::proposals::batch::CommandKind;
use crate::read_index::Waiter;

impl Member {
    /// Applies what is committed. Returns whether anything was applied.
    pub(super) fn apply_committed(&mut self, now: Now, out: &mut Output) -> Result<bool, MemberFatal> {
        let before = self.apply_queue.applied();
        while let Some(entry) = self.apply_queue.next() {
            match entry.kind {
                EntryKind::Batch => {
                    if !self.apply_entry(now, &entry, out)? {
                        break;
                    }
                }
                EntryKind::ConfChange => self.apply_conf_change(&entry)?,
                EntryKind::Empty => self.store.apply_empty(apply::applied_id(&entry)),
            }
            self.entry_applied(now, &entry);
        }
        let applied = self.apply_queue.applied();
        if applied > before {
            self.consensus.applied(applied);
        }
        Ok(applied > before)
    }

    fn entry_applied(&mut self, now: Now, entry: &Entry) {
        self.apply_queue.advance();
        let term = self.leadership.term;
        if let Some(leader) = self.leadership.as_leader_mut()
            && entry.term == term
            && leader.leases.is_none()
        {
            // From now on this leader answers lease questions: every command of earlier terms is applied.
            let leases = self.reader.leases(i64::MIN, usize::MAX);
            leader.leases = Some(LeaderLeases::start(now.monotonic_ns, leases));
            self.propose_cluster_version();
        }
        self.state_hashes.remember(entry.index, self.reader.state_hash().1);
    }

    /// Applies one batch. Returns false when it must wait for a damaged value.
    fn apply_entry(&mut self, now: Now, entry: &Entry, out: &mut Output) -> Result<bool, MemberFatal> {
        let address = self.log.address(entry.index).expect("a committed entry is in the log");
        let batch = match apply::decode_and_apply(&mut self.store, entry, address, self.config.origin())? {
            Ok(batch) => batch,
            Err(damaged) => {
                let address = damaged.address;
                // When too much is under repair, the next step tries again.
                if self.value_repairs.begin(damaged.address, damaged.key, out) {
                    self.apply_queue.block();
                    self.value_repairs.mark_for_apply(address);
                }
                return Ok(false);
            }
        };
        self.batch_applied(now, batch, out);
        Ok(true)
    }

    fn batch_applied(&mut self, now: Now, mut batch: AppliedBatch, out: &mut Output) {
        let commands = batch.len();
        self.checkpoints.applied(commands);
        self.status.set_commands_applied(self.status.commands_applied() + commands);
        let events = std::mem::take(&mut batch.applied.events);
        self.hub.publish(batch.applied.revision, &events.into());
        if let Some(leases) = self.leadership.leases_mut() {
            let released = leases.follow(now.monotonic_ns, &batch.applied.leases);
            released.into_iter().for_each(|question| self.read_index.arrive(Waiter::Lease(question)));
        }
        if batch.applied.alarms_changed {
            self.alarms.settled();
        }
        let origin = self.config.origin();
        for (command, outcome) in batch.into_outcomes() {
            if matches!(outcome, Ok(store::Reply::Compaction { .. })) {
                self.purge.start();
            }
            if command.origin == origin {
                self.proposals.applied(command.sequence);
                self.answer_applied(command.sequence, outcome, out);
            }
        }
    }

    /// A physical compaction is answered once its history is purged. It is committed and applied, so the request
    /// timeout has served its purpose: the caller waits as long as its client does.
    fn answer_applied(&mut self, token: u64, outcome: Outcome, out: &mut Output) {
        let Ok(store::Reply::Compaction { compacted, physical: true, .. }) = outcome else {
            return self.callers.answer(token, Answer::Applied(outcome), out);
        };
        if self.callers.remove(token)
            && let Err(error) = self.purge.answer_after(token, compacted, outcome)
        {
            out.answers.push((token, Answer::Failed(error)));
        }
    }

    fn apply_conf_change(&mut self, entry: &Entry) -> Result<(), MemberFatal> {
        let change = ConfChange::decode(entry.payload.clone())
            .map_err(|error| MemberFatal::Entry { index: entry.index, reason: error.to_string() })?;
        self.store.apply_empty(apply::applied_id(entry));
        // A change that does not fit the configuration before has no effect, on any member.
        let _ = self.consensus.apply_conf_change(&change);
        Ok(())
    }

    fn propose_cluster_version(&mut self) {
        if self.reader.cluster_version().is_none() {
            let ver = api::version::CLUSTER_VERSION.to_owned();
            let body = membershippb::ClusterVersionSetRequest { ver };
            self.proposals.push_own(CommandKind::ClusterVersion, body.encode_to_vec().into());
        }
    }
}
