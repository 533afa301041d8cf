//! Linearizable reads and lease renewals: everything that waits for proof that the leader still leads.
//!
//! A leader proves it with a *confirm round* (in `consensus`): it notes its commit index, asks a quorum whether its
//! term is still theirs, and everybody who arrived before the round began is released at that index. A follower asks
//! the leader for a read index in the same way, one question for all who wait. Released readers then wait until that
//! index is applied here.
//!
//! Readers never get lost: when the leader changes or a question goes unanswered they return to the front of the queue
//! and are asked for again; a reader that waited too long is answered by the table of deadlines, not here.

use std::collections::{BTreeMap, VecDeque};

/// A follower asks again when the leader has not answered after this long, in nanoseconds.
pub(crate) const RETRY_NS: u64 = 500_000_000;

/// Lease questions follow those before them once one of these is answered, or after this long, in nanoseconds: the
/// answer to one may have to wait for a command, and must not hold up the others.
const LEASES_APART_NS: u64 = 5_000_000;

/// While this many readers or more share a round, the next one starts no sooner than [`APART_NS`] after it: below,
/// latency matters more than the messages saved.
const PACED_FROM: usize = 10;

/// Least time between two rounds of many readers, in nanoseconds: several times what a round takes, so that rounds
/// cost all members a small part of what the reads cost, and no more than a reader waits for the processor anyway. It
/// does not depend on how many share a round: a time in proportion to them would not last, since the fewer come while
/// it runs, the shorter it becomes.
const APART_NS: u64 = 600_000;

/// Who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A client of this member.
    Local(u64),
    /// A follower's question; all its readers are behind one number.
    Peer { peer: u64, round: u64 },
    /// A lease to renew or to look at.
    Lease(LeaseReader),
}

/// A lease question and whom to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseReader {
    /// The asking peer; `None` for a client of this member.
    pub(crate) peer: Option<u64>,
    /// The asker's sequence number or token.
    pub(crate) sequence: u64,
    pub(crate) lease: i64,
    pub(crate) renew: bool,
}

#[derive(Debug)]
struct Asked {
    round: u64,
    at_ns: u64,
    readers: Vec<Reader>,
}

/// All readers of this member.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    arrived: Vec<Reader>,
    /// Leader: readers of the confirm rounds under way, by the number given to consensus, and when each began.
    confirming: BTreeMap<u64, (u64, Vec<Reader>)>,
    /// Follower: the question under way.
    asked: Option<Asked>,
    /// Follower: when lease questions last went to the leader, until one of them is answered.
    leases_asked_ns: Option<u64>,
    /// Released, waiting for their index to be applied: the index, when their round began, who waits.
    granted: VecDeque<(u64, u64, Vec<Reader>)>,
    next_round: u64,
    last_start_ns: u64,
    last_size: usize,
}

impl Reads {
    pub(crate) fn arrive(&mut self, reader: Reader) {
        self.arrived.push(reader);
    }

    /// Whether somebody waits for a round that has not begun.
    pub(crate) fn waiting(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Whether a leader may begin a round now: one at a time, and paced when many share it.
    pub(crate) fn may_confirm(&self, now_ns: u64) -> bool {
        self.waiting() && self.confirming.is_empty() && now_ns >= self.not_before_ns()
    }

    /// When a question is asked again or, where rounds may begin, when pacing lets the next one begin.
    pub(crate) fn next_due_ns(&self, rounds_may_begin: bool) -> Option<u64> {
        let question = self.asked.as_ref().map(|asked| asked.at_ns + RETRY_NS);
        let leases = self.leases_asked_ns.map(|at_ns| at_ns + LEASES_APART_NS);
        let begins = rounds_may_begin && self.waiting() && self.confirming.is_empty();
        let round = begins.then(|| self.not_before_ns());
        [question, leases, round].into_iter().flatten().min()
    }

    fn not_before_ns(&self) -> u64 {
        if self.last_size < PACED_FROM { 0 } else { self.last_start_ns + APART_NS }
    }

    /// Begins a confirm round with all who arrived; the number is its token.
    pub(crate) fn confirm(&mut self, now_ns: u64) -> u64 {
        let readers = self.take_arrived(now_ns);
        self.next_round += 1;
        self.confirming.insert(self.next_round, (now_ns, readers));
        self.next_round
    }

    /// A confirm round ended: its readers hold `index`.
    pub(crate) fn confirmed(&mut self, token: u64, index: u64) {
        if let Some((began_ns, readers)) = self.confirming.remove(&token) {
            self.granted.push_back((index, began_ns, readers));
        }
    }

    /// A confirm round was given up; its readers.
    pub(crate) fn dropped(&mut self, token: u64) -> Vec<Reader> {
        self.confirming.remove(&token).map_or_else(Vec::new, |(_, readers)| readers)
    }

    /// Begins a question to the leader with all local readers that arrived, unless one is under way.
    pub(crate) fn ask(&mut self, now_ns: u64) -> Option<u64> {
        if self.asked.is_some() || !self.waiting() {
            return None;
        }
        let mut readers = self.take_arrived(now_ns);
        if self.leases_asked_ns.is_some() {
            let is_lease = |reader: &mut Reader| matches!(reader, Reader::Lease(_));
            self.arrived = readers.extract_if(.., is_lease).collect();
            if readers.is_empty() {
                return None;
            }
        }
        self.next_round += 1;
        self.asked = Some(Asked { round: self.next_round, at_ns: now_ns, readers });
        Some(self.next_round)
    }

    /// The leader answered a question.
    pub(crate) fn answered(&mut self, round: u64, index: Option<u64>) {
        let Some(asked) = self.asked.take_if(|asked| asked.round == round) else { return };
        match index {
            Some(index) => self.granted.push_back((index, asked.at_ns, asked.readers)),
            None => self.return_to_front(asked.readers),
        }
    }

    /// Takes back a question that was not answered in time, and lets the next lease questions go.
    pub(crate) fn expire_question(&mut self, now_ns: u64) {
        self.leases_asked_ns = self.leases_asked_ns.filter(|at_ns| now_ns < at_ns + LEASES_APART_NS);
        if let Some(asked) = self.asked.take_if(|asked| now_ns >= asked.at_ns + RETRY_NS) {
            self.return_to_front(asked.readers);
        }
    }

    /// The leader changed: all rounds and questions start again. Returns readers that are not ours to keep: peers must
    /// ask the new leader themselves.
    pub(crate) fn leader_changed(&mut self) -> Vec<Reader> {
        self.leases_asked_ns = None;
        let rounds = std::mem::take(&mut self.confirming);
        let mut readers: Vec<Reader> = rounds.into_values().flat_map(|(_, readers)| readers).collect();
        // Reads that were granted an index stay good; what was granted about leases is the old leader's.
        for (_, _, granted) in &mut self.granted {
            readers.extend(granted.extract_if(.., |reader| matches!(reader, Reader::Lease(_))));
        }
        readers.extend(self.asked.take().into_iter().flat_map(|asked| asked.readers));
        readers.append(&mut self.arrived);
        let (ours, theirs) = readers.into_iter().partition(|reader| match reader {
            Reader::Local(_) => true,
            Reader::Peer { .. } => false,
            Reader::Lease(lease) => lease.peer.is_none(),
        });
        self.arrived = ours;
        theirs
    }

    /// Takes the lease questions of this member's clients out of the queue: a follower sends them to the leader by
    /// themselves. None while those before are under way, so that under load many go together.
    pub(crate) fn take_local_leases(&mut self, now_ns: u64) -> Vec<LeaseReader> {
        if self.leases_asked_ns.is_some() {
            return Vec::new();
        }
        let is_lease = |reader: &mut Reader| matches!(reader, Reader::Lease(_));
        let taken = self.arrived.extract_if(.., is_lease);
        let leases: Vec<LeaseReader> = taken
            .filter_map(|reader| match reader {
                Reader::Lease(lease) => Some(lease),
                _ => None,
            })
            .collect();
        self.leases_asked_ns = (!leases.is_empty()).then_some(now_ns);
        leases
    }

    /// The leader answered lease questions, or its connection broke.
    pub(crate) fn leases_answered(&mut self) {
        self.leases_asked_ns = None;
    }

    /// Readers whose index is applied, each with the moment its round began.
    pub(crate) fn take_released(&mut self, applied: u64) -> Vec<(u64, Reader)> {
        let mut released = Vec::new();
        self.granted.retain_mut(|(index, began_ns, readers)| {
            let done = *index <= applied;
            if done {
                released.extend(readers.drain(..).map(|reader| (*began_ns, reader)));
            }
            !done
        });
        released
    }

    /// Readers that wait for a round to begin.
    pub(crate) fn len(&self) -> usize {
        self.arrived.len()
    }

    /// Keeps those that wait for a round only while `waits` says so.
    pub(crate) fn retain_arrived(&mut self, waits: impl Fn(&Reader) -> bool) {
        self.arrived.retain(waits);
    }

    fn take_arrived(&mut self, now_ns: u64) -> Vec<Reader> {
        self.last_start_ns = now_ns;
        self.last_size = self.arrived.len();
        std::mem::take(&mut self.arrived)
    }

    fn return_to_front(&mut self, mut readers: Vec<Reader>) {
        readers.append(&mut self.arrived);
        self.arrived = readers;
    }
}

#[cfg(test)]
mod tests {
    //! Readers are released at their index, return on leader change, and rounds are paced only when shared by many.
    use super::*;

    #[test]
    fn a_round_releases_those_who_came_before_it_once_their_index_is_applied() {
        let mut reads = Reads::default();
        reads.arrive(Reader::Local(1));
        assert!(reads.may_confirm(0));
        let round = reads.confirm(0);
        reads.arrive(Reader::Local(2));
        assert!(!reads.may_confirm(u64::MAX), "one round at a time");
        reads.confirmed(round, 10);
        assert!(reads.take_released(9).is_empty());
        assert_eq!(reads.take_released(10), [(0, Reader::Local(1))]);
        assert!(reads.may_confirm(0), "a lone reader is not paced");
    }

    #[test]
    fn a_crowded_round_paces_the_next() {
        let mut reads = Reads::default();
        (0..PACED_FROM as u64).for_each(|token| reads.arrive(Reader::Local(token)));
        let round = reads.confirm(100);
        reads.confirmed(round, 1);
        reads.arrive(Reader::Local(99));
        assert!(!reads.may_confirm(100 + APART_NS - 1));
        assert!(reads.may_confirm(100 + APART_NS));
    }

    #[test]
    fn lease_questions_go_together_while_others_are_under_way() {
        let lease = |sequence| LeaseReader { peer: None, sequence, lease: 1, renew: true };
        let mut reads = Reads::default();
        reads.arrive(Reader::Lease(lease(1)));
        reads.arrive(Reader::Local(7));
        assert_eq!(reads.take_local_leases(0), [lease(1)]);
        reads.arrive(Reader::Lease(lease(2)));
        reads.arrive(Reader::Lease(lease(3)));
        assert_eq!(reads.take_local_leases(1), []);
        assert_eq!(reads.next_due_ns(false), Some(LEASES_APART_NS));
        reads.leases_answered();
        assert_eq!(reads.take_local_leases(2), [lease(2), lease(3)]);
        reads.arrive(Reader::Lease(lease(4)));
        reads.expire_question(1 + LEASES_APART_NS);
        assert_eq!(reads.take_local_leases(1 + LEASES_APART_NS), []);
        reads.expire_question(2 + LEASES_APART_NS);
        assert_eq!(
            reads.take_local_leases(2 + LEASES_APART_NS),
            [lease(4)],
            "an answer that is held holds up nobody"
        );
        reads.arrive(Reader::Lease(lease(5)));
        assert!(reads.ask(9).is_some(), "reads have their own question");
        assert_eq!(reads.len(), 1, "which leaves those about leases");
        assert_eq!(reads.ask(9), None);
        reads.leases_answered();
        assert_eq!(reads.take_local_leases(9), [lease(5)]);
        reads.expire_question(u64::MAX - RETRY_NS);
        assert_eq!(reads.len(), 1);
        assert_eq!(reads.next_due_ns(false), None);
    }

    #[test]
    fn a_new_leader_is_asked_again_and_peers_ask_for_themselves() {
        let mut reads = Reads::default();
        reads.arrive(Reader::Local(1));
        reads.arrive(Reader::Peer { peer: 7, round: 3 });
        let round = reads.confirm(0);
        assert_eq!(reads.leader_changed(), [Reader::Peer { peer: 7, round: 3 }]);
        reads.confirmed(round, 1);
        assert!(reads.take_released(u64::MAX).is_empty(), "the old round is void");
        let asked = reads.ask(0).expect("asks the new leader");
        assert_eq!(reads.ask(0), None, "one question at a time");
        reads.answered(asked, None);
        let asked = reads.ask(0).expect("asks again");
        reads.expire_question(RETRY_NS);
        reads.answered(asked, Some(5));
        assert!(reads.take_released(u64::MAX).is_empty(), "a late answer to an old question is void");
        let asked = reads.ask(0).expect("asks again");
        reads.answered(asked, Some(5));
        assert_eq!(reads.take_released(5), [(0, Reader::Local(1))]);
    }
}
