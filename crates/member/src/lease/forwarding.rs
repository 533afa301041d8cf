//! A follower's lease questions on their way to the leader.
//!
//! Questions leave together. Those that arrive while the leader owes answers wait in the queue, so that under load many
//! share a frame; but one answer may have to wait for a command, so after [`MAX_WAIT_NS`] the next questions leave
//! anyway.

use std::collections::BTreeMap;

use super::LeaseQuestion;
use crate::io::Output;
use crate::peer_message::{LeaseQuestionFields, MAX_LEASES_PER_FRAME, PeerMessage};

/// A question to the leader is sent again when it has not been answered for this long, in nanoseconds.
pub(crate) const RETRY_NS: u64 = 500_000_000;

/// Questions leave this long after those before them at the latest, in nanoseconds.
const MAX_WAIT_NS: u64 = 5_000_000;

#[derive(Debug)]
struct SentQuestion {
    question: LeaseQuestion,
    at_ns: u64,
}

/// The questions sent to the current leader. Dropped with the leadership.
#[derive(Debug, Default)]
pub(crate) struct LeaseForwarding {
    /// By sequence number.
    sent: BTreeMap<u64, SentQuestion>,
    /// When questions last left, until one of them is answered or [`MAX_WAIT_NS`] has passed.
    waits_since_ns: Option<u64>,
}

impl LeaseForwarding {
    /// Questions that the leader has not answered.
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Whether further questions should wait for an answer to those before.
    pub(crate) fn waits(&self) -> bool {
        self.waits_since_ns.is_some()
    }

    /// Sends the questions of this process `run`, in as few frames as the limit allows.
    pub(crate) fn send(
        &mut self,
        now_ns: u64,
        (leader, run): (u64, u64),
        questions: Vec<LeaseQuestion>,
        out: &mut Output,
    ) {
        for chunk in questions.chunks(MAX_LEASES_PER_FRAME) {
            let ask = |question: &LeaseQuestion| {
                let LeaseQuestion { sequence, lease, renew, .. } = *question;
                LeaseQuestionFields { sequence, lease, renew }
            };
            out.send(leader, &PeerMessage::LeaseQuestions(run, chunk.iter().map(ask).collect()));
        }
        self.waits_since_ns = (!questions.is_empty()).then_some(now_ns);
        for question in questions {
            self.sent.insert(question.sequence, SentQuestion { question, at_ns: now_ns });
        }
    }

    /// The leader answered some questions.
    pub(crate) fn answers_arrived(&mut self) {
        self.waits_since_ns = None;
    }

    /// Takes the question that an answer belongs to.
    pub(crate) fn take(&mut self, sequence: u64) -> Option<LeaseQuestion> {
        self.sent.remove(&sequence).map(|sent| sent.question)
    }

    /// Takes all questions back, to be sent again: to renew twice does no harm.
    pub(crate) fn take_all(&mut self) -> Vec<LeaseQuestion> {
        self.waits_since_ns = None;
        std::mem::take(&mut self.sent).into_values().map(|sent| sent.question).collect()
    }

    /// Takes back the questions that the leader did not answer in time.
    pub(crate) fn take_unanswered(&mut self, now_ns: u64) -> Vec<LeaseQuestion> {
        let is_late = |_: &u64, sent: &mut SentQuestion| now_ns >= sent.at_ns + RETRY_NS;
        self.sent.extract_if(.., is_late).map(|(_, sent)| sent.question).collect()
    }

    /// Lets the next questions leave when those before have waited long enough.
    pub(crate) fn expire_wait(&mut self, now_ns: u64) {
        self.waits_since_ns = self.waits_since_ns.filter(|since_ns| now_ns < since_ns + MAX_WAIT_NS);
    }

    /// When [`LeaseForwarding::expire_wait`] has an effect.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.waits_since_ns.map(|since_ns| since_ns + MAX_WAIT_NS)
    }
}

#[cfg(test)]
mod tests {
    //! When questions leave, and which come back.
    use super::*;

    fn question(sequence: u64) -> LeaseQuestion {
        LeaseQuestion { peer: None, sequence, lease: 1, renew: true }
    }

    #[test]
    fn questions_wait_for_an_answer_but_not_for_ever() {
        let mut forwarding = LeaseForwarding::default();
        let mut out = Output::default();
        forwarding.send(0, (2, 1), vec![question(1)], &mut out);
        assert_eq!(out.frames.len(), 1);
        assert!(forwarding.waits());
        assert_eq!(forwarding.next_due_ns(), Some(MAX_WAIT_NS));
        forwarding.answers_arrived();
        assert!(!forwarding.waits());
        forwarding.send(2, (2, 1), vec![question(2), question(3)], &mut out);
        forwarding.expire_wait(1 + MAX_WAIT_NS);
        assert!(forwarding.waits());
        forwarding.expire_wait(2 + MAX_WAIT_NS);
        assert!(!forwarding.waits(), "an answer that is held delays no other question forever");
        assert_eq!(forwarding.len(), 3);
    }

    #[test]
    fn unanswered_questions_return() {
        let mut forwarding = LeaseForwarding::default();
        forwarding.send(0, (2, 1), vec![question(1)], &mut Output::default());
        forwarding.send(9, (2, 1), vec![question(2)], &mut Output::default());
        assert_eq!(forwarding.take_unanswered(RETRY_NS), [question(1)]);
        assert_eq!(forwarding.take(1), None);
        assert_eq!(forwarding.take(2), Some(question(2)));
        forwarding.send(9, (2, 1), vec![question(3)], &mut Output::default());
        assert_eq!(forwarding.take_all(), [question(3)]);
        assert!(!forwarding.waits());
    }
}
