//! Linearizable reads and leases: what waits for a confirm round, and what happens when it is won.

use std::collections::BTreeMap;

use crate::batch::Kind;
use crate::io::{Answer, Now, Output};
use crate::lease::{Expiry, KeepAlive, LeaseClock, MAX_RECORDED_PER_COMMAND};
use crate::member::Member;
use crate::peer_message::{LeaseAnswer, LeaseAsk, MAX_LEASES_PER_FRAME, PeerMessage};
use crate::reads::{LeaseReader, RETRY_NS, Reader};

/// Reads and lease questions that may wait in a member: as many as commands.
pub(crate) const MAX_WAITING_READS: usize = crate::proposal_queue::MAX_WAITING_COMMANDS;

/// A lease question sent to a leader.
#[derive(Debug)]
pub(crate) struct Asked {
    question: LeaseReader,
    at_ns: u64,
}

/// The leader's duty towards leases.
#[derive(Debug, Default)]
pub(crate) struct LeaseDuty {
    pub(crate) clock: LeaseClock,
    /// Whether an entry of the own term is applied: before that nothing is said about leases.
    pub(crate) active: bool,
    /// Renewals that wait for a command about their lease to be applied.
    held: BTreeMap<i64, Vec<LeaseReader>>,
}

impl LeaseDuty {
    /// Leadership is gone.
    pub(crate) fn stop(&mut self) {
        self.clock.clear();
        self.active = false;
    }

    /// Renewals that waited here.
    pub(crate) fn take_held(&mut self) -> Vec<Reader> {
        std::mem::take(&mut self.held).into_values().flatten().map(Reader::Lease).collect()
    }

    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.active.then(|| self.clock.next_due_ns()).flatten()
    }
}

impl Member {
    pub(crate) fn on_read(&mut self, now: Now, token: u64, out: &mut Output) {
        if self.reads.len() >= MAX_WAITING_READS {
            return out.answers.push((token, Answer::Failed(api::Error::TooManyRequests)));
        }
        self.waiting.insert(token, now.monotonic_ns + self.config.request_timeout_ns());
        self.reads.arrive(Reader::Local(token));
    }

    pub(crate) fn on_lease(&mut self, now: Now, token: u64, lease: i64, renew: bool, out: &mut Output) {
        if self.reads.len() + self.asked_leases.len() >= MAX_WAITING_READS {
            return out.answers.push((token, Answer::Failed(api::Error::TooManyRequests)));
        }
        self.waiting.insert(token, now.monotonic_ns + self.config.request_timeout_ns());
        self.reads.arrive(Reader::Lease(LeaseReader { peer: None, sequence: token, lease, renew }));
    }

    pub(crate) fn on_read_ask(&mut self, from: u64, round: u64, out: &mut Output) {
        if self.leadership.leading {
            self.reads.arrive(Reader::Peer { peer: from, round });
        } else {
            self.send(from, &PeerMessage::ReadAnswer(round, None), out);
        }
    }

    pub(crate) fn on_lease_asks(&mut self, from: u64, asks: Vec<LeaseAsk>) {
        if !self.leadership.leading {
            let refusals = asks.iter().map(|ask| (ask.sequence, LeaseAnswer::NotLeader));
            return self.lease_answers.entry(from).or_default().extend(refusals);
        }
        for LeaseAsk { sequence, lease, renew } in asks {
            self.reads.arrive(Reader::Lease(LeaseReader { peer: Some(from), sequence, lease, renew }));
        }
    }

    /// The leader spoke about leases of clients of ours. A former leader's "not me" sends the question on.
    pub(crate) fn on_lease_answers(&mut self, answers: Vec<(u64, LeaseAnswer)>, out: &mut Output) {
        self.reads.leases_answered();
        for (sequence, answer) in answers {
            let Some(Asked { question, .. }) = self.asked_leases.remove(&sequence) else { continue };
            if answer == LeaseAnswer::NotLeader {
                self.reads.arrive(Reader::Lease(question));
            } else {
                self.answer(sequence, Answer::Lease(answer), out);
            }
        }
    }

    /// Sends what was decided about leases of peers, as few frames as the limit allows.
    pub(crate) fn send_lease_answers(&mut self, out: &mut Output) {
        for (peer, answers) in std::mem::take(&mut self.lease_answers) {
            for some in answers.chunks(MAX_LEASES_PER_FRAME) {
                self.send(peer, &PeerMessage::LeaseAnswers(some.to_vec()), out);
            }
        }
    }

    /// Lease questions that are under way when the leader changes or a connection breaks are asked anew: to renew twice
    /// does no harm.
    pub(crate) fn take_back_leases(&mut self) {
        self.reads.leases_answered();
        for asked in std::mem::take(&mut self.asked_leases).into_values() {
            self.reads.arrive(Reader::Lease(asked.question));
        }
    }

    /// Asks again for what a leader has not answered for a while.
    pub(crate) fn ask_leases_again(&mut self, now: Now) {
        let old = |_: &u64, asked: &mut Asked| now.monotonic_ns >= asked.at_ns + RETRY_NS;
        for asked in self.asked_leases.extract_if(.., old).map(|(_, asked)| asked).collect::<Vec<_>>() {
            self.reads.arrive(Reader::Lease(asked.question));
        }
    }

    /// Forgets readers of this process that were told that their time ran out.
    pub(crate) fn forget_expired_readers(&mut self) {
        let Member { reads, leases, waiting, .. } = self;
        let waits = |reader: &Reader| match reader {
            Reader::Local(token) => waiting.contains(*token),
            Reader::Lease(question) => question.peer.is_some() || waiting.contains(question.sequence),
            Reader::Peer { .. } => true,
        };
        reads.retain_arrived(waits);
        leases.held.values_mut().for_each(|held| {
            held.retain(|question| question.peer.is_some() || waiting.contains(question.sequence));
        });
        leases.held.retain(|_, held| !held.is_empty());
    }

    /// Rounds that ended with a leadership: their readers were taken back when it changed; peers must hear of it.
    pub(crate) fn retry_dropped_reads(&mut self, dropped: Vec<u64>, out: &mut Output) {
        for token in dropped {
            for reader in self.reads.dropped(token) {
                match reader {
                    Reader::Peer { peer, round } => {
                        self.send(peer, &PeerMessage::ReadAnswer(round, None), out)
                    }
                    other => self.reads.arrive(other),
                }
            }
        }
    }

    /// Begins a confirm round (leader) or asks the leader (follower) for those who wait.
    pub(crate) fn start_reads(&mut self, now: Now, out: &mut Output) {
        if self.leadership.leading {
            if self.leases.active && self.reads.may_confirm(now.monotonic_ns) {
                let token = self.reads.confirm(now.monotonic_ns);
                if self.consensus.read(token).is_ok() {
                    self.consensus.start_round();
                }
            }
        } else if self.up.contains(&self.leadership.leader) {
            let leader = self.leadership.leader;
            self.ask_leases(now, leader, out);
            if let Some(round) = self.reads.ask(now.monotonic_ns) {
                self.send(leader, &PeerMessage::ReadAsk(round), out);
            }
        }
    }

    /// Sends all lease questions that wait to the leader.
    fn ask_leases(&mut self, now: Now, leader: u64, out: &mut Output) {
        let questions = self.reads.take_local_leases(now.monotonic_ns);
        for some in questions.chunks(MAX_LEASES_PER_FRAME) {
            let ask = |question: &LeaseReader| {
                let LeaseReader { sequence, lease, renew, .. } = *question;
                LeaseAsk { sequence, lease, renew }
            };
            self.send(leader, &PeerMessage::LeaseAsks(some.iter().map(ask).collect()), out);
        }
        for question in questions {
            self.asked_leases.insert(question.sequence, Asked { question, at_ns: now.monotonic_ns });
        }
    }

    /// Answers those whose index is applied.
    pub(crate) fn release_reads(&mut self, now: Now, out: &mut Output) {
        for (began_ns, reader) in self.reads.take_released(self.backlog.applied()) {
            match reader {
                Reader::Local(token) => self.answer(token, Answer::ReadNow, out),
                Reader::Peer { peer, round } => {
                    let index = self.backlog.applied();
                    self.send(peer, &PeerMessage::ReadAnswer(round, Some(index)), out);
                }
                Reader::Lease(question) => self.decide_lease(now, began_ns, question, out),
            }
        }
    }

    /// Answers a lease question. A renewal counts from `began_ns`, when the round began that proved the leadership: a
    /// successor may have counted from any moment after it.
    fn decide_lease(&mut self, now: Now, began_ns: u64, question: LeaseReader, out: &mut Output) {
        let LeaseReader { peer, sequence, lease, renew } = question;
        if !self.leases.active {
            return match peer {
                Some(_) => self.answer_lease(peer, sequence, LeaseAnswer::NotLeader, out),
                None => self.reads.arrive(Reader::Lease(question)),
            };
        }
        let verdict =
            if renew { self.leases.clock.keep_alive(began_ns, lease) } else { KeepAlive::Renewed(0) };
        match verdict {
            KeepAlive::NotFound => self.answer_lease(peer, sequence, LeaseAnswer::NotFound, out),
            KeepAlive::Renewed(_) => {
                let remaining = self.leases.clock.remaining_s(now.monotonic_ns, lease);
                let answer = remaining.map_or(LeaseAnswer::NotFound, |(remaining_s, granted_s)| {
                    LeaseAnswer::Alive { remaining_s, granted_s }
                });
                self.answer_lease(peer, sequence, answer, out);
            }
            KeepAlive::Expiring => self.leases.held.entry(lease).or_default().push(question),
            KeepAlive::RemoveRecordFirst => {
                let waiting = self.leases.held.entry(lease).or_default();
                let first = waiting.is_empty();
                waiting.push(question);
                if first {
                    self.record_remainders(&[(lease, 0)]);
                }
            }
        }
    }

    /// A command about these leases was applied: the clock follows, and renewals that waited for it are decided.
    pub(crate) fn follow_leases(&mut self, now: Now, changes: &[store::LeaseChange]) {
        if !self.leases.active {
            return;
        }
        for change in changes {
            let id = match *change {
                store::LeaseChange::Granted { id, ttl } => {
                    self.leases.clock.granted(now.monotonic_ns, id, ttl);
                    id
                }
                store::LeaseChange::Revoked { id } => {
                    self.leases.clock.revoked(id);
                    id
                }
                store::LeaseChange::Checkpointed { id, remaining } => {
                    self.leases.clock.recorded(id, remaining);
                    id
                }
                store::LeaseChange::ExpiryIgnored { id } => {
                    self.leases.clock.not_proposed(&[id]);
                    id
                }
            };
            // What waited for this is asked anew: its round may have been long ago.
            for question in self.leases.held.remove(&id).unwrap_or_default() {
                self.reads.arrive(Reader::Lease(question));
            }
        }
    }

    /// An entry of the own term is applied: from now on this leader speaks for leases.
    pub(crate) fn take_up_leases(&mut self, now: Now) {
        self.leases.active = true;
        let leases = self.reader.leases(i64::MIN, usize::MAX);
        self.leases
            .clock
            .start(now.monotonic_ns, leases.into_iter().map(|lease| (lease.id, lease.ttl, lease.remaining)));
    }

    /// Proposes what has run out, and records remainders of long leases now and then.
    pub(crate) fn watch_leases(&mut self, now: Now) {
        if !self.leases.active || self.transfer.is_some() {
            return;
        }
        loop {
            let leases = self.leases.clock.take_expired(now.monotonic_ns);
            if leases.is_empty() {
                break;
            }
            let expiry = Expiry { term: self.leadership.term, leases };
            self.propose_own(Kind::LeaseExpire, expiry.encode());
        }
        let remainders = self.leases.clock.take_remainders(now.monotonic_ns);
        remainders.chunks(MAX_RECORDED_PER_COMMAND).for_each(|chunk| self.record_remainders(chunk));
    }

    fn record_remainders(&mut self, remainders: &[(i64, i64)]) {
        let checkpoints = remainders
            .iter()
            .map(|&(id, remaining_ttl)| api::etcdserverpb::LeaseCheckpoint { id, remaining_ttl })
            .collect();
        let body = api::etcdserverpb::LeaseCheckpointRequest { checkpoints };
        self.propose_own(Kind::LeaseCheckpoint, prost::Message::encode_to_vec(&body).into());
    }
}
