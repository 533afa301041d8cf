//! The ready loop: what consensus decided, carried out in the one order that is safe.
//!
//! Consensus knows which of its messages promise something about the disk and holds them back; what is left to do here
//! is to turn each write it wants into one write job, to tell it when that write is synced, and to send what it then
//! releases. A hard state of which only the commit index is new costs no write of its own: it goes with the next one.

use std::collections::VecDeque;

use bytes::Bytes;
use consensus::{Message, Ready, Write};

use crate::batch::Kind;
use crate::io::{Answer, Fatal, Notice, Now, Output};
use crate::member::{Leadership, Member, Transfer};
use crate::peer_message::{LeaseAnswer, PeerMessage};
use crate::proposal_queue::OWN_COMMAND;
use crate::reads::Reader;

/// Writes of consensus under way: (its number, the log position that makes it durable), oldest first.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    under_way: VecDeque<(u64, u64)>,
    durable: u64,
    /// A hard state of which only the commit index is new.
    unwritten: Option<consensus::HardState>,
}

impl Writes {
    /// The newest write that has become durable since the last call.
    fn take_durable(&mut self) -> Option<u64> {
        let durable = self.durable;
        let mut newest = None;
        while let Some((number, _)) = self.under_way.pop_front_if(|(_, position)| *position <= durable) {
            newest = Some(number);
        }
        newest
    }
}

impl Member {
    pub(crate) fn on_consensus_message(&mut self, from: u64, bytes: Bytes, out: &mut Output) {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => return self.bad_frame(from, error, out),
        };
        if matches!(message.body, consensus::Body::Snapshot(_)) {
            return self.bad_frame(from, "a snapshot must come on a snapshot stream", out);
        }
        if let Err(rejected) = self.consensus.step(from, message) {
            self.bad_frame(from, rejected, out);
        }
    }

    /// Takes one ready from consensus; false when there is none.
    pub(crate) fn take_ready(&mut self, now: Now, out: &mut Output) -> Result<bool, Fatal> {
        if let Some(number) = self.writes.take_durable() {
            let released = self.consensus.persisted(number);
            self.send_messages(released, out);
        }
        let Some(ready) = self.consensus.ready() else { return Ok(false) };
        self.take_in(now, ready, out)?;
        Ok(true)
    }

    fn take_in(&mut self, now: Now, ready: Ready, out: &mut Output) -> Result<(), Fatal> {
        if let Some(leadership) = ready.leadership {
            self.follow_leadership(now, leadership, out);
        }
        self.send_messages(ready.messages, out);
        if let Some(write) = ready.write {
            self.write(now, write, out);
        }
        for entry in ready.committed {
            self.finish_own_batches(entry.index);
            self.backlog.push(entry);
        }
        for read in ready.reads {
            self.reads.confirmed(read.token, read.index);
        }
        self.fetch_entries(ready.fetches, out);
        ready.snapshots_wanted.into_iter().for_each(|peer| self.prepare_snapshot(peer));
        self.retry_dropped_reads(ready.reads_dropped, out);
        Ok(())
    }

    pub(crate) fn write(&mut self, now: Now, write: Write, out: &mut Output) {
        if self.snapshots.is_installing() {
            return self.hold_write(write);
        }
        if let Some(meta) = write.snapshot.clone() {
            return self.want_install(meta, write);
        }
        let hard_state = write.hard_state.or(self.writes.unwritten);
        if !write.must_sync {
            self.writes.unwritten = hard_state;
            return;
        }
        self.writes.unwritten = None;
        let append = self.log.append(hard_state.map(to_log_hard_state), to_log_entries(write.entries));
        self.note_write(now, write.number, append.position);
        out.writes.push(append.job);
    }

    /// The write of this number is durable when the log is up to `position`.
    pub(crate) fn note_write(&mut self, now: Now, number: u64, position: u64) {
        self.writes.under_way.push_back((number, position));
        self.upkeep.wrote(now.monotonic_ns);
    }

    /// The hard state as it stands with this write.
    pub(crate) fn newest_hard_state(&mut self, write: &Write) -> log::HardState {
        let newer = write.hard_state.or(self.writes.unwritten.take());
        newer.map_or_else(|| self.log.hard_state(), to_log_hard_state)
    }

    fn finish_own_batches(&mut self, index: u64) {
        while self.own_batches.pop_front_if(|own| *own <= index).is_some() {
            self.pace.finished();
        }
    }

    pub(crate) fn send_messages(&mut self, messages: Vec<Message>, out: &mut Output) {
        for message in messages {
            if let consensus::Body::Snapshot(meta) = &message.body {
                self.stream_snapshot(message.to, meta, &message.encode(), out);
                continue;
            }
            let class = message.class();
            out.frames.push((message.to, class, PeerMessage::of_consensus(message.encode())));
        }
    }

    pub(crate) fn on_written(&mut self, done: log::WriteDone) -> Result<(), Fatal> {
        self.writes.durable = self.log.complete(done)?.position;
        Ok(())
    }

    /// Term, leader or role changed: starts over what depends on it.
    fn follow_leadership(&mut self, now: Now, seen: consensus::Leadership, out: &mut Output) {
        let before = self.leadership;
        self.leadership = Leadership {
            term: seen.term,
            leader: seen.leader,
            leading: seen.role == consensus::Role::Leader,
            since_ns: now.monotonic_ns,
        };
        self.status.set_term(seen.term);
        self.status.set_leader(seen.leader);
        if (seen.leader, seen.term) == (before.leader, before.term)
            && self.leadership.leading == before.leading
        {
            self.leadership.since_ns = before.since_ns;
            return;
        }
        if seen.leader != 0 && seen.leader != before.leader {
            self.status.set_leader_changes(self.status.leader_changes() + 1);
        }
        let leading = self.leadership.leading;
        out.notices.push(Notice::Leadership { term: seen.term, leader: seen.leader, leading });
        self.start_over(out);
    }

    fn start_over(&mut self, out: &mut Output) {
        self.own_batches.clear();
        self.pace.reset();
        self.leases.stop();
        self.take_back_leases();
        self.inbox.drop_own(Kind::LeaseCheckpoint);
        self.inbox.drop_own(Kind::LeaseExpire);
        // Nobody waits for the member's own commands, so no deadline would take these away.
        self.forwarded.retain(|sequence, _| sequence & OWN_COMMAND == 0);
        self.upkeep.leader_changed();
        self.drop_unsent_snapshots();
        for reader in self.reads.leader_changed().into_iter().chain(self.leases.take_held()) {
            match reader {
                Reader::Peer { peer, round } => self.send(peer, &PeerMessage::ReadAnswer(round, None), out),
                Reader::Lease(lease) if lease.peer.is_some() => {
                    self.answer_lease(lease.peer, lease.sequence, LeaseAnswer::NotLeader, out);
                }
                local => self.reads.arrive(local),
            }
        }
        if !self.leadership.leading {
            self.return_foreign_commands(out);
        }
        self.finish_transfer(out);
    }

    pub(crate) fn on_move_leader(&mut self, now: Now, token: u64, to: u64, out: &mut Output) {
        if let Err(error) = self.check_transfer(to) {
            out.answers.push((token, Answer::Failed(error)));
        } else if to == self.config.member_id {
            out.answers.push((token, Answer::LeaderMoved));
        } else if self.consensus.transfer_leader(to).is_err() {
            out.answers.push((token, Answer::Failed(api::Error::BadLeaderTransferee)));
        } else {
            let election_ns = self.config.tick_ns * u64::from(self.config.election_ticks);
            self.waiting.insert(token, now.monotonic_ns + self.config.request_timeout_ns());
            self.transfer = Some(Transfer { token, until_ns: now.monotonic_ns + election_ns });
        }
    }

    fn check_transfer(&self, to: u64) -> Result<(), api::Error> {
        if !self.leadership.leading {
            return Err(api::Error::NotLeader);
        }
        let votes = self.consensus.status().conf_state.voters.contains(&to);
        if votes && self.transfer.is_none() { Ok(()) } else { Err(api::Error::BadLeaderTransferee) }
    }

    /// A transfer ends when somebody else leads.
    fn finish_transfer(&mut self, out: &mut Output) {
        let leader = self.leadership.leader;
        if leader == 0 || leader == self.config.member_id {
            return;
        }
        if let Some(transfer) = self.transfer.take() {
            self.answer(transfer.token, Answer::LeaderMoved, out);
        }
    }

    /// A transfer that nobody took is given up after an election timeout.
    pub(crate) fn give_up_transfer(&mut self, now: Now, out: &mut Output) {
        if let Some(transfer) = self.transfer.take_if(|transfer| now.monotonic_ns >= transfer.until_ns) {
            self.answer(transfer.token, Answer::Failed(api::Error::TimeoutLeaderTransfer), out);
        }
    }
}

pub(crate) fn to_log_entries(entries: Vec<consensus::Entry>) -> Vec<log::Entry> {
    let to_log = |entry: consensus::Entry| log::Entry {
        term: entry.term,
        index: entry.index,
        kind: entry.kind as u8,
        payload: entry.payload,
    };
    entries.into_iter().map(to_log).collect()
}

fn to_log_hard_state(state: consensus::HardState) -> log::HardState {
    log::HardState { term: state.term, vote: state.vote, commit: state.commit }
}
