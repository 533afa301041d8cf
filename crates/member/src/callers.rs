//! The callers of this process that wait for an answer, by token, and their deadlines.
//!
//! Every request that is answered later (a command, a linearizable read, a lease question, a repair) is registered here
//! under the token its caller chose. All requests wait equally long, so deadlines never decrease in the order of
//! registration: the next to expire is always at the front, and no request needs a timer of its own.
//!
//! ```text
//! insert(7, 500)  insert(8, 510)  remove(7)       deadlines: (500, 7) (510, 8)     waiting: 8
//! take_expired(505) -> None                       7 was answered: it is skipped    waiting: 8
//! take_expired(510) -> 8, queued                                                   waiting: -
//! ```
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::io::{Answer, Output};
use crate::own_syncs::OwnSync;
use crate::status::step_counts::WaitedCaller;

/// How far a request got. It decides which error its caller gets at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// In a queue of this member: certainly not proposed.
    Queued,
    /// Handed to consensus here, or sent to a leader: its outcome is unknown.
    Sent,
}

/// What a caller waits for. Metrics count the kinds apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerKind {
    /// A command to be applied.
    Proposal,
    /// A linearizable read.
    Read,
    /// Something else: a lease question, a change of the members or of the leadership, a repair.
    Other,
}

/// A token that waits.
#[derive(Debug)]
struct WaitingCaller {
    kind: CallerKind,
    progress: Progress,
    /// When it was registered.
    since_ns: u64,
}

/// A token whose deadline has passed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExpiredCaller {
    pub(crate) token: u64,
    pub(crate) kind: CallerKind,
    pub(crate) progress: Progress,
}

/// The tokens that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    waiting: BTreeMap<u64, WaitingCaller>,
    /// How many of them wait for commands.
    proposals: usize,
    /// How many of them wait for linearizable reads.
    reads: usize,
    /// (deadline, token), deadlines never decreasing; answered tokens are skipped when they come up.
    deadlines: VecDeque<(u64, u64)>,
}

impl Callers {
    /// Registers a token from now until `deadline_ns`.
    pub(crate) fn insert(&mut self, token: u64, kind: CallerKind, now_ns: u64, deadline_ns: u64) {
        let not_before = self.deadlines.back().map_or(0, |(deadline, _)| *deadline);
        self.deadlines.push_back((deadline_ns.max(not_before), token));
        self.remove(token);
        self.waiting.insert(token, WaitingCaller { kind, progress: Progress::Queued, since_ns: now_ns });
        self.proposals += usize::from(kind == CallerKind::Proposal);
        self.reads += usize::from(kind == CallerKind::Read);
    }

    /// The request has left this member's queue.
    pub(crate) fn mark_sent(&mut self, token: u64) {
        if let Some(waiting) = self.waiting.get_mut(&token) {
            waiting.progress = Progress::Sent;
        }
    }

    /// The request came back to this member's queue: certainly not proposed.
    pub(crate) fn mark_queued(&mut self, token: u64) {
        if let Some(waiting) = self.waiting.get_mut(&token) {
            waiting.progress = Progress::Queued;
        }
    }

    /// Whether the token still waits.
    pub(crate) fn contains(&self, token: u64) -> bool {
        self.waiting.contains_key(&token)
    }

    /// Answers the token, unless it expired or was answered before.
    pub(crate) fn answer(&mut self, token: u64, answer: Answer, out: &mut Output) {
        self.answer_synced(token, answer, OwnSync::default(), out);
    }

    /// The same for a command: says when this member's own log had it on disk.
    pub(crate) fn answer_synced(&mut self, token: u64, answer: Answer, own_sync: OwnSync, out: &mut Output) {
        if let Some(WaitingCaller { since_ns, .. }) = self.take(token) {
            out.counts.waited.push(WaitedCaller { token, since_ns, own_sync });
            out.answers.push((token, answer));
        }
    }

    /// The token no longer has a deadline, nor an answer through this registry. Returns whether it waited.
    pub(crate) fn remove(&mut self, token: u64) -> bool {
        self.take(token).is_some()
    }

    fn take(&mut self, token: u64) -> Option<WaitingCaller> {
        let waiting = self.waiting.remove(&token)?;
        self.proposals -= usize::from(waiting.kind == CallerKind::Proposal);
        self.reads -= usize::from(waiting.kind == CallerKind::Read);
        Some(waiting)
    }

    /// Takes the tokens of requests for which nothing has happened: those that wait in a queue of this member, and all
    /// reads. In their order.
    pub(crate) fn take_untaken(&mut self) -> BTreeSet<u64> {
        let is_untaken =
            |caller: &WaitingCaller| caller.kind == CallerKind::Read || caller.progress == Progress::Queued;
        let untaken = self.waiting.iter().filter(|(_, caller)| is_untaken(caller)).map(|(token, _)| *token);
        let untaken: BTreeSet<u64> = untaken.collect();
        for token in &untaken {
            self.take(*token);
        }
        untaken
    }

    /// Number of tokens that wait for a command.
    pub(crate) fn proposals(&self) -> usize {
        self.proposals
    }

    /// Number of tokens that wait for a linearizable read.
    pub(crate) fn reads(&self) -> usize {
        self.reads
    }

    /// Removes and returns one token whose deadline has passed.
    pub(crate) fn take_expired(&mut self, now_ns: u64) -> Option<ExpiredCaller> {
        while let Some(&(deadline, token)) = self.deadlines.front() {
            if deadline > now_ns && self.waiting.contains_key(&token) {
                return None;
            }
            self.deadlines.pop_front();
            if let Some(WaitingCaller { kind, progress, .. }) = self.take(token) {
                return Some(ExpiredCaller { token, kind, progress });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    //! Tokens expire in order of their deadlines; answered tokens never expire.
    use super::*;

    #[test]
    fn tokens_expire_in_order_and_answered_ones_do_not() {
        let mut callers = Callers::default();
        callers.insert(1, CallerKind::Proposal, 0, 10);
        callers.insert(2, CallerKind::Proposal, 0, 20);
        callers.insert(3, CallerKind::Read, 0, 15); // a clock that jumped back does not reorder
        callers.mark_sent(2);
        assert_eq!((callers.proposals(), callers.reads()), (2, 1));
        assert!(callers.remove(1));
        assert_eq!(callers.proposals(), 1);
        assert_eq!(callers.take_expired(19), None);
        let expired = |token, kind, progress| Some(ExpiredCaller { token, kind, progress });
        assert_eq!(callers.take_expired(20), expired(2, CallerKind::Proposal, Progress::Sent));
        assert_eq!(callers.take_expired(20), expired(3, CallerKind::Read, Progress::Queued));
        assert_eq!(callers.take_expired(u64::MAX), None);
        assert!(!callers.remove(2));
        assert_eq!((callers.proposals(), callers.reads()), (0, 0));
    }

    #[test]
    fn only_what_was_sent_and_is_no_read_may_have_had_an_effect() {
        let mut callers = Callers::default();
        for (token, kind) in [(1, CallerKind::Proposal), (2, CallerKind::Proposal), (3, CallerKind::Read)] {
            callers.insert(token, kind, 0, 10);
        }
        callers.insert(4, CallerKind::Other, 0, 10);
        [2, 3].into_iter().for_each(|token| callers.mark_sent(token));
        assert_eq!(callers.take_untaken(), BTreeSet::from([1, 3, 4]));
        assert_eq!((callers.proposals(), callers.reads()), (1, 0));
        callers.mark_queued(2);
        assert_eq!(callers.take_untaken(), BTreeSet::from([2]), "it was given back");
    }
}
