//! Requests of this process: admission, registration of the caller, and the component that serves them.

use bytes::Bytes;

use super::Member;
use crate::callers::CallerKind;
use crate::io::{Answer, Now, Output, Proposal, WantedEntries};
use crate::leadership::Transfer;
use crate::lease::LeaseQuestion;
use crate::maintenance::alarms::{Shortage, shortage};
use crate::proposals::batch::CommandKind;
use crate::proposals::growth;
use crate::read_index::{MAX_WAITING, Waiter};
use crate::snapshot::{Receiver, SendError, SentSnapshot, SnapshotOffer};

impl Member {
    pub(super) fn on_propose(&mut self, now: Now, proposal: Proposal, out: &mut Output) {
        let (token, kind, body) = (proposal.token, proposal.kind, &proposal.body);
        if kind.since() > self.reader.command_set() {
            // A member of an older release could not apply it.
            return out.answers.push((token, Answer::Failed(api::Error::NotCapable)));
        }
        let shortage = if kind.may_grow() { self.shortage() } else { None };
        if let Some(shortage) = shortage.filter(|_| growth::grows(kind, body)) {
            self.note_shortage(shortage);
            out.answers.push((token, Answer::Failed(shortage.error())));
            return;
        }
        match self.proposals.push(proposal) {
            Ok(()) => self.register(now, token, CallerKind::Proposal),
            Err(error) => out.answers.push((token, Answer::Failed(error))),
        }
    }

    /// Why the store may not grow now, if it may not.
    pub(super) fn shortage(&self) -> Option<Shortage> {
        let is_out_of_memory = self.memory_limit.is_exceeded();
        let referenced_bytes = || self.reader.referenced_bytes();
        shortage(self.log.space(), self.config.quota_bytes, referenced_bytes, is_out_of_memory)
    }

    /// A command was refused: a used-up quota and the memory limit raise the alarm, a full disk is seen by the log
    /// itself.
    pub(super) fn note_shortage(&mut self, shortage: Shortage) {
        if matches!(shortage, Shortage::Quota | Shortage::Memory) {
            self.raise_alarm(api::etcdserverpb::AlarmType::Nospace, self.config.member_id);
        }
    }

    pub(super) fn raise_alarm(&mut self, alarm: api::etcdserverpb::AlarmType, member_id: u64) {
        if let Some(body) = self.alarms.raise(alarm, member_id, &self.reader) {
            self.proposals.push_own(CommandKind::Alarm, body);
        }
    }

    pub(super) fn on_read(&mut self, now: Now, token: u64, out: &mut Output) {
        if self.read_index.len() >= MAX_WAITING {
            return out.answers.push((token, Answer::Failed(api::Error::TooManyRequests)));
        }
        self.register(now, token, CallerKind::Read);
        self.read_index.arrive(Waiter::Read(token));
    }

    pub(super) fn on_lease(&mut self, now: Now, token: u64, lease: i64, renew: bool, out: &mut Output) {
        let sent = self.leadership.as_follower().map_or(0, |follower| follower.lease_questions.len());
        if self.read_index.len() + sent >= MAX_WAITING {
            return out.answers.push((token, Answer::Failed(api::Error::TooManyRequests)));
        }
        self.register(now, token, CallerKind::Other);
        self.read_index.arrive(Waiter::Lease(LeaseQuestion { peer: None, sequence: token, lease, renew }));
    }

    pub(super) fn on_move_leader(&mut self, now: Now, token: u64, to: u64, out: &mut Output) {
        if let Err(error) = self.check_transfer(to) {
            out.answers.push((token, Answer::Failed(error)));
        } else if to == self.config.member_id {
            out.answers.push((token, Answer::LeaderMoved));
        } else if self.consensus.transfer_leader(to).is_err() {
            out.answers.push((token, Answer::Failed(api::Error::BadLeaderTransferee)));
        } else {
            self.register(now, token, CallerKind::Other);
            self.note_transfer(now, Some(token));
        }
    }

    /// A member that stops leaves the leadership to the connected voter with the longest log.
    pub(super) fn on_give_up_leadership(&mut self, now: Now, token: u64, out: &mut Output) {
        let connected = &self.connected;
        match self.consensus.transfer_target(|peer| connected.contains(&peer)) {
            Some(target) => self.on_move_leader(now, token, target, out),
            None => out.answers.push((token, Answer::Failed(api::Error::Unhealthy))),
        }
    }

    fn check_transfer(&self, to: u64) -> Result<(), api::Error> {
        if !self.leadership.leads() {
            return Err(api::Error::NotLeader);
        }
        let votes = self.consensus.status().conf_state.voters.contains(&to);
        if votes && self.transfer.is_none() { Ok(()) } else { Err(api::Error::BadLeaderTransferee) }
    }

    /// A transfer has begun. It is given up after an election timeout.
    pub(super) fn note_transfer(&mut self, now: Now, token: Option<u64>) {
        let election_ns = self.config.election_ns();
        self.transfer = Some(Transfer { token, until_ns: now.monotonic_ns + election_ns });
    }

    /// The target did not take a transfer in time.
    pub(super) fn give_up_transfer(&mut self, now: Now, out: &mut Output) {
        let given_up = self.transfer.take_if(|transfer| now.monotonic_ns >= transfer.until_ns);
        if let Some(token) = given_up.and_then(|transfer| transfer.token) {
            let answer = Answer::Failed(api::Error::TimeoutLeaderTransfer);
            self.callers.answer(token, answer, out);
        }
    }

    pub(super) fn on_repair(
        &mut self,
        now: Now,
        token: u64,
        (address, key): (u64, Option<Bytes>),
        out: &mut Output,
    ) {
        if !self.value_repairs.begin(address, key) {
            return out.answers.push((token, Answer::Failed(api::Error::TooManyRequests)));
        }
        self.value_repairs.add_caller(address, token);
        self.register(now, token, CallerKind::Other);
    }

    /// A backup wants entries; it has everything before them.
    pub(super) fn on_read_entries(&mut self, now: Now, wanted: WantedEntries, out: &mut Output) {
        let WantedEntries { token, from, to, max_bytes } = wanted;
        self.backup_reads.asked(now.monotonic_ns, from);
        let end = to.min(self.apply_queue.applied() + 1);
        let read = if from >= end { Ok(None) } else { self.log.read_entries(from, end, max_bytes).map(Some) };
        let answer = match read {
            Ok(job) => Answer::Entries(job.map(Box::new)),
            Err(_) => Answer::EntriesGone,
        };
        out.answers.push((token, answer));
    }

    pub(super) fn on_defragment(&mut self) {
        self.purge.start();
        self.relocation.start_eager();
    }

    /// A peer wants to send a snapshot; the answer is a receiver, or why not.
    pub(super) fn on_snapshot_offered(
        &mut self,
        now: Now,
        (from, header): (u64, Bytes),
        token: u64,
        out: &mut Output,
    ) {
        let is_busy = self.installing.is_running() || self.is_stopping;
        let refusal = match self.log.space() {
            _ if is_busy => Some("a snapshot is being installed, or the member stops"),
            log::Space::Low => Some("its disk is full"),
            _ if self.receiving.is_pausing(now.monotonic_ns) => Some("the last one did not fit on its disk"),
            log::Space::Ok | log::Space::OutOfDescriptors => None,
        };
        let (member_id, applied) = (self.config.member_id, self.apply_queue.applied());
        let lineage = self.reader.lineage();
        let offer = SnapshotOffer { from, header, member_id, applied, lineage, refusal };
        let accepted = self.receiving.accept(offer, &mut self.log, &mut self.consensus, out);
        out.answers.push((token, accepted.map_or_else(Answer::SnapshotRefused, Answer::SnapshotFrom)));
    }

    pub(super) fn on_snapshot_whole(&mut self, receiver: Box<Receiver>, token: u64, out: &mut Output) {
        let is_busy = self.installing.is_running() || self.is_stopping;
        match self.receiving.whole(receiver, is_busy, &mut self.consensus, out) {
            Ok(arrived) => {
                self.installing.arrived(arrived, out);
                out.answers.push((token, Answer::SnapshotTaken));
            }
            Err(reason) => out.answers.push((token, Answer::SnapshotRefused(reason))),
        }
    }

    pub(super) fn on_snapshot_sent(
        &mut self,
        now: Now,
        sent: SentSnapshot,
        result: &Result<(), SendError>,
        out: &mut Output,
    ) {
        let Some((peer, notice)) = self.sending.ended(now.monotonic_ns, sent, result) else { return };
        self.consensus.report_snapshot(peer, result.is_ok());
        if let Err(SendError { damaged: Some((address, key)), .. }) = result {
            self.value_repairs.begin(*address, key.clone());
        }
        out.notices.push(notice);
    }

    /// A last checkpoint makes the next start quick. It is skipped if writing it would delay the shutdown
    /// (`max_last_changes_bytes`). If one is running, the member stops when it ends.
    pub(super) fn on_stop(&mut self, out: &mut Output) {
        self.status.set_stopping();
        self.is_stopping = true;
        self.refuse_untaken(out);
        if self.checkpoints.is_running() {
            self.checkpoints.give_up_merge();
            return;
        }
        // An installation is cut short: the next start finds the state before it, or after. So is a batch that is being
        // applied: the next start applies it again.
        let is_cut_short = self.installing.is_expected() || self.store.is_applying();
        let is_long = self.reader.memory().changes > self.config.max_last_changes_bytes
            && !self.checkpoints.is_needed_to_start();
        if is_cut_short || is_long || !self.checkpoints.has_changes() {
            out.stopped = true;
        } else {
            self.begin_checkpoint(out);
        }
    }

    /// Registers a caller until the request timeout.
    pub(super) fn register(&mut self, now: Now, token: u64, kind: CallerKind) {
        let now_ns = now.monotonic_ns;
        self.callers.insert(token, kind, now_ns, now_ns + self.config.request_timeout_ns());
    }
}
