//! Callers who wait: which sequence numbers still owe an answer, and until when.
//!
//! Every request of this process that is answered later (a command, a linearizable read, a question to the leader) is
//! registered here under the token its caller chose. Deadlines grow with registration because all requests wait
//! equally long, so the oldest ones are found at the front; no timer per request is needed.

use std::collections::{BTreeMap, VecDeque};

/// How far a request got; it decides which error a caller gets when time runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In this member's inbox: certainly not proposed.
    Queued,
    /// Handed to consensus here or to a leader elsewhere: its fate is open.
    Underway,
}

/// The tokens that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    stages: BTreeMap<u64, Stage>,
    // (deadline, token), deadlines never decreasing; tokens that were answered are skipped when they come up.
    deadlines: VecDeque<(u64, u64)>,
}

impl Waiting {
    /// Registers a token until `deadline_ns`.
    pub(crate) fn insert(&mut self, token: u64, deadline_ns: u64) {
        let not_before = self.deadlines.back().map_or(0, |(deadline, _)| *deadline);
        self.deadlines.push_back((deadline_ns.max(not_before), token));
        self.stages.insert(token, Stage::Queued);
    }

    /// The token's request left this member's inbox.
    pub(crate) fn underway(&mut self, token: u64) {
        if let Some(stage) = self.stages.get_mut(&token) {
            *stage = Stage::Underway;
        }
    }

    /// The token's request came back to this member's inbox.
    pub(crate) fn queued_again(&mut self, token: u64) {
        if let Some(stage) = self.stages.get_mut(&token) {
            *stage = Stage::Queued;
        }
    }

    /// Whether the token still waits.
    pub(crate) fn contains(&self, token: u64) -> bool {
        self.stages.contains_key(&token)
    }

    /// The token is being answered; false when it had run out before.
    pub(crate) fn remove(&mut self, token: u64) -> bool {
        self.stages.remove(&token).is_some()
    }

    /// Tokens that wait.
    pub(crate) fn len(&self) -> usize {
        self.stages.len()
    }

    /// Takes a token whose time has run out.
    pub(crate) fn take_expired(&mut self, now_ns: u64) -> Option<(u64, Stage)> {
        while let Some(&(deadline, token)) = self.deadlines.front() {
            if deadline > now_ns && self.stages.contains_key(&token) {
                return None;
            }
            self.deadlines.pop_front();
            if let Some(stage) = self.stages.remove(&token) {
                return Some((token, stage));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    //! Deadlines come up in order, answered tokens never do.
    use super::*;

    #[test]
    fn tokens_run_out_in_order_and_answered_ones_do_not() {
        let mut waiting = Waiting::default();
        waiting.insert(1, 10);
        waiting.insert(2, 20);
        waiting.insert(3, 15); // a clock that jumped back does not reorder
        waiting.underway(2);
        assert!(waiting.remove(1));
        assert_eq!(waiting.take_expired(19), None);
        assert_eq!(waiting.take_expired(20), Some((2, Stage::Underway)));
        assert_eq!(waiting.take_expired(20), Some((3, Stage::Queued)));
        assert_eq!(waiting.take_expired(u64::MAX), None);
        assert!(!waiting.remove(2));
        assert_eq!(waiting.len(), 0);
    }
}
