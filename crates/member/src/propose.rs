//! Commands on their way to agreement: admission, batching, forwarding.
//!
//! A command is proposed at most once. It waits in the inbox until this member leads (then it goes into a batch) or
//! knows a leader (then it is forwarded, in one frame with all others that wait). Once it left the inbox its fate is
//! open, and it is never sent again unless the leader said that it refused it.

use bytes::Bytes;

use crate::batch::{self, Command, Kind};
use crate::io::{Answer, Now, Output, Proposal};
use crate::member::Member;
use crate::peer_message::{PeerMessage, Reason};

impl Member {
    pub(crate) fn on_propose(&mut self, now: Now, proposal: Proposal, out: &mut Output) {
        let Proposal { token, kind, body } = proposal;
        if let Err(error) = self.room_for(kind) {
            out.answers.push((token, Answer::Failed(error)));
            return;
        }
        let command =
            Command { origin: self.config.origin(), sequence: token, kind, auth: Bytes::new(), body };
        match self.inbox.push(command) {
            Ok(()) => self.waiting.insert(token, now.monotonic_ns + self.config.request_timeout_ns()),
            Err(_) => out.answers.push((token, Answer::Failed(api::Error::TooManyRequests))),
        }
    }

    /// Whether the store may grow: the quota is counted exactly, before proposing; a nearly full disk counts as full.
    fn room_for(&mut self, kind: Kind) -> Result<(), api::Error> {
        if !kind.grows() {
            return Ok(());
        }
        if self.log.space() == log::Space::Low {
            return Err(api::Error::NoSpace);
        }
        let quota = self.config.quota_bytes;
        if quota > 0 && self.reader.referenced_bytes() >= quota {
            self.raise_no_space();
            return Err(api::Error::NoSpace);
        }
        Ok(())
    }

    pub(crate) fn on_forward(&mut self, from: u64, batch: &Bytes, out: &mut Output) {
        let commands = match batch::decode(batch) {
            Ok(batch) => batch.commands,
            Err(error) => return self.bad_frame(from, error, out),
        };
        let origins = commands.iter().map(|command| command.origin);
        let is_of_one_run = commands.first().is_none_or(|first| origins.clone().all(|o| o == first.origin));
        if !is_of_one_run || commands.first().is_some_and(|first| first.origin.member != from) {
            return self.bad_frame(from, "it forwards commands that are not its own", out);
        }
        if !self.leadership.leading {
            return self.refuse(from, Reason::NotLeader, sequences(&commands), out);
        }
        let (mut no_space, mut too_many) = (Vec::new(), Vec::new());
        for command in commands {
            if self.room_for(command.kind).is_err() {
                no_space.push(command.sequence);
            } else if let Err(command) = self.inbox.push(command) {
                too_many.push(command.sequence);
            }
        }
        self.refuse(from, Reason::NoSpace, no_space, out);
        self.refuse(from, Reason::TooManyRequests, too_many, out);
    }

    fn refuse(&self, to: u64, reason: Reason, sequences: Vec<u64>, out: &mut Output) {
        if !sequences.is_empty() {
            self.send(to, &PeerMessage::Refused(reason, sequences), out);
        }
    }

    /// Forwarded commands came back: certainly not proposed. Those without a leader try the next one.
    pub(crate) fn on_refused(&mut self, reason: Reason, sequences: &[u64], out: &mut Output) {
        for sequence in sequences {
            let Some(command) = self.forwarded.remove(sequence) else { continue };
            match reason {
                Reason::NotLeader => {
                    self.waiting.queued_again(*sequence);
                    self.inbox.give_back(std::iter::once(command));
                }
                Reason::TooManyRequests => {
                    self.answer(*sequence, Answer::Failed(api::Error::TooManyRequests), out);
                }
                Reason::NoSpace => self.answer(*sequence, Answer::Failed(api::Error::NoSpace), out),
            }
        }
    }

    /// Sends what waits in the inbox on its way, if it may leave.
    pub(crate) fn start_commands(&mut self, now: Now, out: &mut Output) {
        self.commands_held = self.transfer.is_some();
        if self.commands_held {
            return;
        }
        if self.leadership.leading {
            while !self.commands_held && !self.inbox.is_empty() && self.pace.ready(now.monotonic_ns) {
                self.propose_batch(now);
            }
        } else if self.leadership.leader != 0 && self.up.contains(&self.leadership.leader) {
            while !self.inbox.is_empty() {
                self.forward_batch(now, out);
            }
        }
    }

    fn propose_batch(&mut self, now: Now) {
        let commands = self.inbox.take_batch();
        let payload = batch::encode(now.wall_ms, &commands);
        match self.consensus.propose(payload) {
            Ok((index, _)) => {
                self.pace.started(now.monotonic_ns, commands.len());
                self.own_batches.push_back(index);
                let own = commands.iter().filter(|command| command.origin == self.config.origin());
                own.for_each(|command| self.waiting.underway(command.sequence));
            }
            // Not proposed: consensus leads no more, of which we hear with its next messages, or is busy. They wait.
            Err(_) => {
                self.commands_held = true;
                self.inbox.give_back(commands.into_iter());
            }
        }
    }

    fn forward_batch(&mut self, now: Now, out: &mut Output) {
        let commands = self.inbox.take_batch();
        self.send(self.leadership.leader, &PeerMessage::Forward(batch::encode(now.wall_ms, &commands)), out);
        for command in commands {
            self.waiting.underway(command.sequence);
            self.forwarded.insert(command.sequence, command);
        }
    }

    /// Commands of peers that wait here when leadership is lost go back to them.
    pub(crate) fn return_foreign_commands(&mut self, out: &mut Output) {
        let origin = self.config.origin();
        for command in self.inbox.take_foreign(origin) {
            self.refuse(command.origin.member, Reason::NotLeader, vec![command.sequence], out);
        }
    }
}

fn sequences(commands: &[Command]) -> Vec<u64> {
    commands.iter().map(|command| command.sequence).collect()
}
