//! Linearizable reads and lease renewals: one queue of waiters, which wait for proof that the leader still leads.
//!
//! A leader proves it with a *ReadIndex round* (Raft paper, section 8; the round itself is in `consensus`): it notes
//! its commit index, asks a quorum whether its term is still theirs, and every waiter that arrived before the round
//! began may read at that index. A follower sends the leader one *read-index question* for all its waiters. A *granted*
//! waiter knows its index and is *released* when that index is applied here.
//!
//! ```text
//! arrive(1) arrive(2)          waiting: 1 2
//! begin_round -> 7             waiting: -      round 7: 1 2      (sent to consensus)
//! arrive(3)                    waiting: 3      round 7: 1 2      3 came too late for round 7
//! round_won(7, index 40)       waiting: 3      granted at 40: 1 2
//! take_released(applied 40)    waiting: 3      -> 1 2            answered from the local state
//! ```
//!
//! No waiter is lost: when the leader changes or a question goes unanswered, waiters return to the queue and wait for
//! the next round. The table of callers answers those whose deadline passes, not this module.

use std::collections::VecDeque;

use crate::lease::{LeaseQuestion, RETRY_NS};
use crate::proposals::batch::Origin;

/// Waiters that may wait for a round: as many as commands.
pub(crate) const MAX_WAITING: usize = crate::proposals::queue::MAX_WAITING_COMMANDS;

/// Waiters that make a round large. After a large round the next begins no sooner than [`ROUND_DELAY_NS`] after it
/// began; below that, latency matters more than the messages saved.
const LARGE_ROUND: usize = 10;

/// Least time from the beginning of a large round to that of the next, in nanoseconds: several times what a round
/// takes, so that rounds cost all members a small part of what the reads cost, and no more than a reader waits for the
/// processor anyway. It is constant: a delay in proportion to the size of a round would shrink to nothing, because a
/// shorter delay gathers fewer waiters.
const ROUND_DELAY_NS: u64 = 600_000;

/// What waits for a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A linearizable read of a caller of this process, by token.
    Read(u64),
    /// A follower's question; it stands for all the follower's waiters.
    Follower { peer: Origin, question: u64 },
    /// A lease to renew or to look up.
    Lease(LeaseQuestion),
}

impl Waiter {
    /// Whether its caller is in this process; a peer's waiter is asked again by the peer.
    fn is_local(&self) -> bool {
        match self {
            Waiter::Read(_) => true,
            Waiter::Follower { .. } => false,
            Waiter::Lease(question) => question.peer.is_none(),
        }
    }
}

/// Waiters that share a round (leader) or a question (follower).
#[derive(Debug)]
struct WaiterGroup {
    number: u64,
    began_ns: u64,
    waiters: Vec<Waiter>,
}

/// Waiters whose read index is known and perhaps not applied yet.
#[derive(Debug)]
struct Granted {
    index: u64,
    began_ns: u64,
    waiters: Vec<Waiter>,
}

/// All waiters of this member; see the module.
#[derive(Debug, Default)]
pub(crate) struct ReadIndex {
    /// In order of arrival, for the next round.
    waiting: Vec<Waiter>,
    /// Leader: the round in flight.
    round: Option<WaiterGroup>,
    /// Follower: the question sent to the leader.
    question: Option<WaiterGroup>,
    granted: VecDeque<Granted>,
    last_number: u64,
    last_began_ns: u64,
    last_size: usize,
    /// Rounds and questions in flight that a change of leadership has ended.
    failed: u64,
}

impl ReadIndex {
    /// Adds a waiter to the next round.
    pub(crate) fn arrive(&mut self, waiter: Waiter) {
        self.waiting.push(waiter);
    }

    /// Number of waiters of the next round.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Rounds and questions that a change of leadership has ended since the process started.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Whether a leader may begin a round now: one at a time, and after the delay.
    pub(crate) fn may_begin_round(&self, now_ns: u64) -> bool {
        !self.waiting.is_empty() && self.round.is_none() && now_ns >= self.not_before_ns()
    }

    /// When a question is repeated or, where `rounds_may_begin`, when the delay lets the next round begin.
    pub(crate) fn next_due_ns(&self, rounds_may_begin: bool) -> Option<u64> {
        let question = self.question.as_ref().map(|question| question.began_ns + RETRY_NS);
        let begins = rounds_may_begin && !self.waiting.is_empty() && self.round.is_none();
        let round = begins.then(|| self.not_before_ns());
        [question, round].into_iter().flatten().min()
    }

    fn not_before_ns(&self) -> u64 {
        if self.last_size < LARGE_ROUND { 0 } else { self.last_began_ns + ROUND_DELAY_NS }
    }

    /// Leader: begins a round with all waiters. Returns its number, by which consensus reports its outcome.
    pub(crate) fn begin_round(&mut self, now_ns: u64) -> u64 {
        let waiters = self.take_waiting(now_ns);
        self.last_number += 1;
        self.round = Some(WaiterGroup { number: self.last_number, began_ns: now_ns, waiters });
        self.last_number
    }

    /// A round was won: its waiters may read at `index`. Rounds of an earlier leadership are ignored.
    pub(crate) fn round_won(&mut self, number: u64, index: u64) {
        if let Some(WaiterGroup { began_ns, waiters, .. }) =
            self.round.take_if(|round| round.number == number)
        {
            self.granted.push_back(Granted { index, began_ns, waiters });
        }
    }

    /// Whether waiters wait for the outcome of this round.
    pub(crate) fn waits_for_round(&self, number: u64) -> bool {
        self.round.as_ref().is_some_and(|round| round.number == number)
    }

    /// Follower: begins a question for all waiters, unless one is in flight. While the leader owes answers to lease
    /// questions (`leases_wait`), further lease questions stay in the queue.
    pub(crate) fn begin_question(&mut self, now_ns: u64, leases_wait: bool) -> Option<u64> {
        if self.question.is_some() || self.waiting.is_empty() {
            return None;
        }
        let mut waiters = self.take_waiting(now_ns);
        if leases_wait {
            let is_lease = |waiter: &mut Waiter| matches!(waiter, Waiter::Lease(_));
            self.waiting = waiters.extract_if(.., is_lease).collect();
            if waiters.is_empty() {
                return None;
            }
        }
        self.last_number += 1;
        self.question = Some(WaiterGroup { number: self.last_number, began_ns: now_ns, waiters });
        Some(self.last_number)
    }

    /// The leader answered a question: with an index, or `None` if it does not lead.
    pub(crate) fn question_answered(&mut self, number: u64, index: Option<u64>) {
        let Some(question) = self.question.take_if(|question| question.number == number) else { return };
        let WaiterGroup { began_ns, waiters, .. } = question;
        match index {
            Some(index) => self.granted.push_back(Granted { index, began_ns, waiters }),
            None => self.return_to_front(waiters),
        }
    }

    /// Takes back a question that the leader did not answer in time.
    pub(crate) fn expire_question(&mut self, now_ns: u64) {
        let is_late = |question: &mut WaiterGroup| now_ns >= question.began_ns + RETRY_NS;
        if let Some(question) = self.question.take_if(is_late) {
            self.return_to_front(question.waiters);
        }
    }

    /// Term, leader or role changed: rounds and questions start again. Returns the waiters of peers, which must ask the
    /// new leader themselves.
    pub(crate) fn leadership_changed(&mut self) -> Vec<Waiter> {
        self.failed += u64::from(self.round.is_some() || self.question.is_some());
        let mut waiters = self.round.take().map(|round| round.waiters).unwrap_or_default();
        // A granted read stays good; what was granted about leases was the former leader's to say.
        for granted in &mut self.granted {
            waiters.extend(granted.waiters.extract_if(.., |waiter| matches!(waiter, Waiter::Lease(_))));
        }
        waiters.extend(self.question.take().into_iter().flat_map(|question| question.waiters));
        waiters.append(&mut self.waiting);
        let (local, others) = waiters.into_iter().partition(Waiter::is_local);
        self.waiting = local;
        others
    }

    /// Follower: takes the lease questions out of the queue, to be sent to the leader by themselves.
    pub(crate) fn take_leases(&mut self) -> Vec<LeaseQuestion> {
        let is_lease = |waiter: &mut Waiter| matches!(waiter, Waiter::Lease(_));
        let taken = self.waiting.extract_if(.., is_lease);
        let question = |waiter| if let Waiter::Lease(question) = waiter { Some(question) } else { None };
        taken.filter_map(question).collect()
    }

    /// Takes the waiters whose index is applied, each with the time its round began.
    pub(crate) fn take_released(&mut self, applied: u64) -> Vec<(u64, Waiter)> {
        let mut released = Vec::new();
        self.granted.retain_mut(|granted| {
            let is_applied = granted.index <= applied;
            if is_applied {
                let began_ns = granted.began_ns;
                released.extend(granted.waiters.drain(..).map(|waiter| (began_ns, waiter)));
            }
            !is_applied
        });
        released
    }

    /// Drops waiters of the next round for which `waits` is false.
    pub(crate) fn retain_waiting(&mut self, waits: impl Fn(&Waiter) -> bool) {
        self.waiting.retain(waits);
    }

    /// Checks that rounds and questions belong to the role in which they can be answered.
    pub(crate) fn check(&self, leads: bool) {
        assert!(
            leads || self.round.is_none(),
            "a ReadIndex round is in flight on a member that does not lead"
        );
        assert!(!leads || self.question.is_none(), "a leader waits for a read index of another leader");
    }

    fn take_waiting(&mut self, now_ns: u64) -> Vec<Waiter> {
        self.last_began_ns = now_ns;
        self.last_size = self.waiting.len();
        std::mem::take(&mut self.waiting)
    }

    fn return_to_front(&mut self, mut waiters: Vec<Waiter>) {
        waiters.append(&mut self.waiting);
        self.waiting = waiters;
    }
}

#[cfg(test)]
mod tests {
    //! Waiters are released at their index, return on leader change, and only large rounds delay the next.
    use super::*;

    #[test]
    fn a_round_releases_earlier_waiters_once_their_index_is_applied() {
        let mut reads = ReadIndex::default();
        reads.arrive(Waiter::Read(1));
        assert!(reads.may_begin_round(0));
        let round = reads.begin_round(0);
        reads.arrive(Waiter::Read(2));
        assert!(!reads.may_begin_round(u64::MAX), "one round at a time");
        reads.round_won(round, 10);
        assert!(reads.take_released(9).is_empty());
        assert_eq!(reads.take_released(10), [(0, Waiter::Read(1))]);
        assert!(reads.may_begin_round(0), "a lone waiter delays nothing");
    }

    #[test]
    fn a_large_round_delays_the_next() {
        let mut reads = ReadIndex::default();
        (0..LARGE_ROUND as u64).for_each(|token| reads.arrive(Waiter::Read(token)));
        let round = reads.begin_round(100);
        reads.round_won(round, 1);
        reads.arrive(Waiter::Read(99));
        assert!(!reads.may_begin_round(100 + ROUND_DELAY_NS - 1));
        assert!(reads.may_begin_round(100 + ROUND_DELAY_NS));
    }

    #[test]
    fn reads_and_keep_alives_share_a_round_and_none_is_behind_another() {
        let lease = Waiter::Lease(LeaseQuestion { peer: None, sequence: 9, lease: 1, renew: true });
        let follower = Waiter::Follower { peer: Origin { member: 7, run: 9 }, question: 3 };
        let mut waiters: Vec<Waiter> = (0..20_000).map(Waiter::Read).collect();
        waiters.extend([follower, lease]);
        let mut reads = ReadIndex::default();
        waiters.iter().for_each(|waiter| reads.arrive(waiter.clone()));
        let round = reads.begin_round(4);
        assert_eq!(reads.len(), 0, "none waits for the next round");
        reads.round_won(round, 10);
        let released = reads.take_released(10);
        assert!(released.into_iter().eq(waiters.into_iter().map(|waiter| (4, waiter))));
    }

    #[test]
    fn lease_questions_stay_in_the_queue_while_the_leader_owes_answers() {
        let lease = |sequence| LeaseQuestion { peer: None, sequence, lease: 1, renew: true };
        let mut reads = ReadIndex::default();
        reads.arrive(Waiter::Lease(lease(1)));
        reads.arrive(Waiter::Read(7));
        assert_eq!(reads.take_leases(), [lease(1)]);
        reads.arrive(Waiter::Lease(lease(2)));
        assert!(reads.begin_question(9, true).is_some(), "reads have a question of their own");
        assert_eq!(reads.len(), 1, "which does not hold the lease question");
        assert_eq!(reads.begin_question(9, true), None);
        assert_eq!(reads.take_leases(), [lease(2)]);
        reads.expire_question(9 + RETRY_NS);
        assert_eq!(reads.len(), 1, "the read returned");
        assert_eq!(reads.next_due_ns(false), None);
    }

    #[test]
    fn local_waiters_ask_a_new_leader_and_peers_ask_for_themselves() {
        let mut reads = ReadIndex::default();
        reads.arrive(Waiter::Read(1));
        let asker = Waiter::Follower { peer: Origin { member: 7, run: 9 }, question: 3 };
        reads.arrive(asker.clone());
        let round = reads.begin_round(0);
        assert_eq!(reads.leadership_changed(), [asker]);
        reads.round_won(round, 1);
        assert!(reads.take_released(u64::MAX).is_empty(), "the old round is void");
        let asked = reads.begin_question(0, false).expect("asks the new leader");
        assert_eq!(reads.begin_question(0, false), None, "one question at a time");
        reads.question_answered(asked, None);
        let asked = reads.begin_question(0, false).expect("asks again");
        reads.expire_question(RETRY_NS);
        reads.question_answered(asked, Some(5));
        assert!(reads.take_released(u64::MAX).is_empty(), "a late answer to an old question is void");
        let asked = reads.begin_question(0, false).expect("asks again");
        reads.question_answered(asked, Some(5));
        assert_eq!(reads.take_released(5), [(0, Waiter::Read(1))]);
    }
}
