//! Messages from peers: each is decoded, checked, and given to the component it is for.
//!
//! A peer is not trusted: what does not decode, or no sound member sends, is reported and ends its connections.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use consensus::{Body, Message};

use super::Member;
use crate::io::{Notice, Now, Output};
use crate::maintenance::alarms::Shortage;
use crate::maintenance::log_room::Admission;
use crate::peer_message::{LeaseAnswer, PeerMessage, Reason};
use crate::proposals::batch::{self, LogCommand, Origin};
use crate::proposals::growth::RoomUse;
use crate::repair::entries;

/// The largest command that a peer forwards: `--max-request-bytes` allows no larger one. A frame may have twice as many
/// bytes, so the entry of the command fits into an append for each other member.
const MAX_COMMAND_BYTES: usize = 32 << 20;

impl Member {
    pub(super) fn on_frame(&mut self, now: Now, from: u64, bytes: Bytes, out: &mut Output) {
        let Some(message) = PeerMessage::decode(bytes) else {
            return out.reject_frame(from, "it does not decode");
        };
        match message {
            PeerMessage::Consensus(bytes) => self.on_consensus_message(now, from, bytes, out),
            PeerMessage::Forward(batch) => self.on_forward(from, &batch, out),
            PeerMessage::Refused { reason, run, sequences } => {
                // A leader may refuse late, when another leads.
                if run == self.config.process_run {
                    self.proposals.refused(from, reason, &sequences, &mut self.callers, out);
                    self.refuse_returned(out);
                }
            }
            PeerMessage::ReadQuestion(run, question) => {
                self.on_read_question(Origin { member: from, run }, question, out);
            }
            PeerMessage::ReadAnswer(run, question, index) => {
                if self.is_answer(from, run) {
                    self.read_index.question_answered(question, index);
                }
            }
            PeerMessage::LeaseQuestions(run, questions) => {
                self.on_lease_questions(Origin { member: from, run }, questions);
            }
            PeerMessage::LeaseAnswers(run, answers) => {
                if self.is_answer(from, run) {
                    self.on_lease_answers(answers, out);
                }
            }
            PeerMessage::StateHash { index, hash } => self.on_state_hash(from, index, hash, out),
            PeerMessage::ValueQuestion(name) => {
                let (log, reader) = (&self.log, &self.reader);
                self.repair_server.value_asked(from, name, log, reader, &self.values, out);
            }
            PeerMessage::ValueAnswer(name, value) => {
                self.repair(now, out, |repairs, context| repairs.answered(&name, value, context));
            }
            PeerMessage::EntryQuestion { index, term } => {
                self.repair_server.entry_asked(from, (index, term), &self.log, out);
            }
            PeerMessage::MembershipRequest { run, sequence, request } => {
                self.on_membership_request(Origin { member: from, run }, sequence, request, out);
            }
            PeerMessage::MembershipRefusal { run, sequence, error } => {
                if run == self.config.process_run {
                    self.on_membership_refusal(from, sequence, error, out);
                }
            }
            PeerMessage::Introduction { id, peer_urls } => {
                if id != from {
                    return out.reject_frame(from, "it introduces another member");
                }
                self.on_introduction(from, peer_urls);
            }
            PeerMessage::EntryAnswer { index, term, entry } => {
                let entry = entries::from_answer(index, term, entry);
                let (now_ns, log) = (now.monotonic_ns, &self.log);
                if !self.entry_repairs.answered(now_ns, from, entry, log, &self.connected, out) {
                    self.give_up_entry(index);
                }
            }
        }
    }

    fn on_consensus_message(&mut self, now: Now, from: u64, bytes: Bytes, out: &mut Output) {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => return out.reject_frame(from, error),
        };
        if matches!(message.body, Body::Snapshot(_)) {
            return out.reject_frame(from, "a snapshot must come on a snapshot stream");
        }
        if !self.admits(now, &message) {
            return;
        }
        if let Err(rejected) = self.consensus.step(from, message) {
            out.reject_frame(from, rejected);
        }
    }

    /// Whether this member has room for what a message appends: in memory, until it is applied, and in the log. If not,
    /// the message counts as lost: the leader sends the entries again, and goes on with the other members. While a
    /// snapshot is installed, writes wait for it anyway.
    fn admits(&mut self, now: Now, message: &Message) -> bool {
        let Body::Append { entries, commit, .. } = &message.body else { return true };
        if entries.is_empty() || self.installing.is_running() {
            return true;
        }
        if self.has_too_much_to_apply() {
            let ends = (self.log.last_index(), *commit);
            let times = (self.config.tick_ns, self.config.election_ns());
            if !self.backpressure.takes(now.monotonic_ns, ends, times) {
                return false;
            }
        }
        let lens = entries.iter().map(|entry| entry.payload.len());
        match self.room.admit(lens, RoomUse::Maintains, &mut self.log) {
            Admission::Admitted => true,
            // The next segment is on its way, as after a start: one write can wait for it.
            Admission::Waits => !self.room.has_waiting(),
            Admission::Refused => false,
        }
    }

    /// A follower forwards the commands of its clients.
    fn on_forward(&mut self, from: u64, batch: &Bytes, out: &mut Output) {
        let commands = match batch::decode(batch) {
            Ok(batch) => batch.commands,
            Err(error) => return out.reject_frame(from, error),
        };
        if commands.iter().any(|command| command.body.len() > MAX_COMMAND_BYTES) {
            return out.reject_frame(from, "it forwards a command that no member takes");
        }
        let Some(peer) = commands.first().map(|first| first.origin) else { return };
        let is_of_one_run = commands.iter().all(|command| command.origin == peer);
        if !is_of_one_run || peer.member != from {
            return out.reject_frame(from, "it forwards commands that are not its own");
        }
        // What a removed member sent is certainly not proposed: it could not learn what becomes of it.
        if !self.leadership.leads() || self.reader.was_removed(from) {
            let sequences = commands.iter().map(|command| command.sequence).collect();
            return refuse(peer, Reason::NotLeader, sequences, out);
        }
        let shortage =
            if commands.iter().any(|command| command.kind.may_grow()) { self.shortage() } else { None };
        let mut are_refused = false;
        for (reason, sequences) in self.proposals.push_forwarded(commands, shortage.map(Shortage::error)) {
            are_refused |= reason == Reason::NoSpace && !sequences.is_empty();
            refuse(peer, reason, sequences, out);
        }
        if let Some(shortage) = shortage.filter(|_| are_refused) {
            self.note_shortage(shortage);
        }
    }

    /// Commands of peers that wait here when leadership is lost go back to them.
    pub(super) fn return_foreign_commands(&mut self, out: &mut Output) {
        return_commands(self.proposals.take_foreign(), out);
    }

    /// A member's hash must equal this member's at the same index; a difference is judged at each tick. A peer that the
    /// state does not name was removed, or may be one of a cluster that this one was forced out of, whose log is
    /// another: no alarm may name it.
    fn on_state_hash(&mut self, from: u64, index: u64, hash: u64, out: &mut Output) {
        let is_member = self.reader.members().iter().any(|member| member.id == from);
        if is_member && self.state_hashes.compare(from, index, hash) {
            out.notices.push(Notice::Diverged { peer: from, index });
        }
    }

    /// Sends the answers to lease questions of peers, in as few frames as the limit allows.
    pub(super) fn send_lease_answers(&mut self, out: &mut Output) {
        for (peer, answers) in std::mem::take(&mut self.lease_answers) {
            for chunk in answers.chunks(crate::peer_message::MAX_LEASES_PER_FRAME) {
                out.send(peer.member, &PeerMessage::LeaseAnswers(peer.run, chunk.to_vec()));
            }
        }
    }

    /// Answers a lease question of a peer, or of a caller of this process.
    pub(super) fn answer_lease(
        &mut self,
        peer: Option<Origin>,
        sequence: u64,
        answer: LeaseAnswer,
        out: &mut Output,
    ) {
        match peer {
            Some(peer) => self.lease_answers.entry(peer).or_default().push((sequence, answer)),
            None => self.callers.answer(sequence, crate::io::Answer::Lease(answer), out),
        }
    }
}

/// Tells peers that these commands of theirs are not proposed: those of one process together.
pub(super) fn return_commands(commands: VecDeque<LogCommand>, out: &mut Output) {
    let mut of_peers: BTreeMap<Origin, Vec<u64>> = BTreeMap::new();
    for LogCommand { origin, sequence, .. } in commands {
        of_peers.entry(origin).or_default().push(sequence);
    }
    for (peer, sequences) in of_peers {
        refuse(peer, Reason::NotLeader, sequences, out);
    }
}

fn refuse(to: Origin, reason: Reason, sequences: Vec<u64>, out: &mut Output) {
    if !sequences.is_empty() {
        out.send(to.member, &PeerMessage::Refused { reason, run: to.run, sequences });
    }
}
