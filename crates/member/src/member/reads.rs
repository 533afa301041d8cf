//! ReadIndex rounds and lease questions: who asks whom, and what a released waiter gets.

use super::Member;
use crate::io::{Answer, Now, Output};
use crate::leadership::RoleState;
use crate::lease::{Decision, LeaseQuestion};
use crate::peer_message::{LeaseAnswer, LeaseQuestionFields, PeerMessage};
use crate::proposals::batch::Origin;
use crate::read_index::Waiter;

impl Member {
    /// Begins a ReadIndex round (leader), or sends questions to the leader (follower), for the waiters there are.
    pub(super) fn start_rounds(&mut self, now: Now, out: &mut Output) {
        let (now_ns, leader, run) = (now.monotonic_ns, self.leadership.leader, self.config.process_run);
        match &mut self.leadership.role {
            RoleState::Leader(state) => {
                if state.is_established() && self.read_index.may_begin_round(now_ns) {
                    let round = self.read_index.begin_round(now_ns);
                    // An error means that the leadership is lost (the other reasons are excluded above): the next ready
                    // says so and returns the waiters.
                    let _ = self.consensus.start_round(round);
                }
            }
            RoleState::Follower(state) => {
                if !self.connected.contains(&leader) {
                    return;
                }
                if !state.lease_questions.waits() {
                    let questions = self.read_index.take_leases();
                    state.lease_questions.send(now_ns, (leader, run), questions, out);
                }
                let leases_wait = state.lease_questions.waits();
                if let Some(question) = self.read_index.begin_question(now_ns, leases_wait) {
                    out.send(leader, &PeerMessage::ReadQuestion(run, question));
                }
            }
        }
    }

    /// A follower asks for a read index.
    pub(super) fn on_read_question(&mut self, peer: Origin, question: u64, out: &mut Output) {
        if self.leadership.leads() {
            self.read_index.arrive(Waiter::Follower { peer, question });
        } else {
            answer_read(peer, question, None, out);
        }
    }

    /// Whether a message answers what this process asked the present leader.
    pub(super) fn is_answer(&self, from: u64, run: u64) -> bool {
        from == self.leadership.leader && run == self.config.process_run
    }

    /// A follower forwards lease questions of its clients.
    pub(super) fn on_lease_questions(&mut self, peer: Origin, questions: Vec<LeaseQuestionFields>) {
        if !self.leadership.leads() {
            let refusals = questions.iter().map(|question| (question.sequence, LeaseAnswer::NotLeader));
            return self.lease_answers.entry(peer).or_default().extend(refusals);
        }
        for LeaseQuestionFields { sequence, lease, renew } in questions {
            let question = LeaseQuestion { peer: Some(peer), sequence, lease, renew };
            self.read_index.arrive(Waiter::Lease(question));
        }
    }

    /// The leader answers lease questions. Those answered by a member that does not lead wait for the next leader.
    pub(super) fn on_lease_answers(&mut self, answers: Vec<(u64, LeaseAnswer)>, out: &mut Output) {
        let Some(follower) = self.leadership.as_follower_mut() else { return };
        follower.lease_questions.answers_arrived();
        for (sequence, answer) in answers {
            let Some(question) = follower.lease_questions.take(sequence) else { continue };
            if answer == LeaseAnswer::NotLeader {
                self.read_index.arrive(Waiter::Lease(question));
            } else {
                self.callers.answer(sequence, Answer::Lease(answer), out);
            }
        }
    }

    /// A connection broke: lease questions that were sent go back to the queue.
    pub(super) fn take_back_lease_questions(&mut self) {
        let Some(follower) = self.leadership.as_follower_mut() else { return };
        let questions = follower.lease_questions.take_all();
        questions.into_iter().for_each(|question| self.read_index.arrive(Waiter::Lease(question)));
    }

    /// Lease questions that the leader did not answer in time go back to the queue.
    pub(super) fn repeat_lease_questions(&mut self, now: Now) {
        let Some(follower) = self.leadership.as_follower_mut() else { return };
        let questions = follower.lease_questions.take_unanswered(now.monotonic_ns);
        questions.into_iter().for_each(|question| self.read_index.arrive(Waiter::Lease(question)));
    }

    /// Drops waiters of this process whose callers got a time-out.
    pub(super) fn forget_expired_waiters(&mut self) {
        let callers = &self.callers;
        let question_waits =
            |question: &LeaseQuestion| question.peer.is_some() || callers.contains(question.sequence);
        self.read_index.retain_waiting(|waiter| match waiter {
            Waiter::Read(token) => callers.contains(*token),
            Waiter::Lease(question) => question_waits(question),
            Waiter::Follower { .. } => true,
        });
        if let Some(leases) = self.leadership.leases_mut() {
            leases.retain_held(question_waits);
        }
    }

    /// Answers the waiters whose read index is applied.
    pub(super) fn answer_released(&mut self, now: Now, out: &mut Output) {
        let applied = self.apply_queue.applied();
        for (began_ns, waiter) in self.read_index.take_released(applied) {
            match waiter {
                Waiter::Read(token) => self.callers.answer(token, Answer::ReadNow, out),
                Waiter::Follower { peer, question } => {
                    // Every index from the round's on is safe to read at. The applied one is at hand; the round's is
                    // not kept for each waiter.
                    answer_read(peer, question, Some(applied), out);
                }
                Waiter::Lease(question) => self.decide_lease(now, began_ns, question, out),
            }
        }
    }

    fn decide_lease(&mut self, now: Now, began_ns: u64, question: LeaseQuestion, out: &mut Output) {
        let LeaseQuestion { peer, sequence, .. } = question;
        let Some(leases) = self.leadership.leases_mut() else {
            return match peer {
                Some(_) => self.answer_lease(peer, sequence, LeaseAnswer::NotLeader, out),
                None => self.read_index.arrive(Waiter::Lease(question)),
            };
        };
        let renews = question.renew;
        match leases.decide(now.monotonic_ns, began_ns, question) {
            Decision::Answer(answer) => {
                if renews && matches!(answer, LeaseAnswer::Alive { .. }) {
                    self.status.set_leases_renewed(self.status.leases_renewed() + 1);
                }
                self.answer_lease(peer, sequence, answer, out);
            }
            Decision::Held(command) => {
                if let Some((kind, body)) = command {
                    self.proposals.push_own(kind, body);
                }
            }
        }
    }

    /// Proposes expiries, and records remainders of long leases, unless a transfer is under way.
    pub(super) fn propose_lease_commands(&mut self, now: Now) {
        let (term, transfers) = (self.leadership.term, self.transfer.is_some());
        let Some(leases) = self.leadership.leases_mut().filter(|_| !transfers) else { return };
        let reader = &self.reader;
        let keys = |id| reader.lease_keys_len(id);
        for (kind, body) in leases.take_commands(now.monotonic_ns, term, keys) {
            self.proposals.push_own(kind, body);
        }
    }
}

/// Answers a follower's question with a read index; `None` if this member does not lead.
pub(super) fn answer_read(peer: Origin, question: u64, index: Option<u64>, out: &mut Output) {
    out.send(peer.member, &PeerMessage::ReadAnswer(peer.run, question, index));
}
