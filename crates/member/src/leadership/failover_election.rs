//! The election when the leader's process has ended. `Member::on_peer_not_listening` (`member/ticks.rs`) begins it.
//!
//! As a rule a follower waits for an election timeout before it asks for votes, because silence may have other causes
//! than the leader's end. A killed process leaves more than silence: its kernel closes its connections, and refuses
//! new ones. A follower that sees both forgets that it has a leader, so that it grants its vote to others, and asks for
//! votes itself, each follower a little later than the one before, so that candidates do not split the votes:
//!
//! ```text
//! three members, 1 leads and is killed                RANK_NS = 40 ms, REPEAT_NS = 10 ms
//!  0 ms   2 and 3 lose both streams to 1
//! 11 ms   2 is refused by the machine of 1: asks for pre-votes; 3 still hears its leader and ignores them
//! 12 ms   3 is refused, too: it would ask at 52 ms
//! 21 ms   2 asks again, 3 grants; then the votes, and the first entry of the new term
//! ```
//!
//! A follower with an older log than another asks in vain, until it is the other's turn.
//!
//! What a follower sees may be wrong: a firewall may refuse in the leader's place. Only a pre-vote is asked for, so a
//! leader that a quorum hears is not disturbed: those that hear it do not answer, and at its next heartbeat this member
//! follows it again. After an election timeout the ordinary election takes over. With `--pre-vote=false` there is no
//! failover election. docs/rfcs/0023 says why this is safe, and what else was weighed.

/// How much later than the follower before it each follower asks: several times what an election takes in one data
/// centre, its syncs included.
const RANK_NS: u64 = 40_000_000;

/// Time after which it asks again those that did not answer, because they had not seen the leader's end yet.
const REPEAT_NS: u64 = 10_000_000;

/// Exists until a leader is known, or an election timeout is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailoverElection {
    /// When to ask for votes next, on the monotonic clock.
    next_ns: u64,
    /// When it is over.
    until_ns: u64,
}

impl FailoverElection {
    /// Begins at `now_ns`, for a member with so many followers before it. `election_ns` is the election timeout.
    pub(crate) fn new(now_ns: u64, rank: usize, election_ns: u64) -> FailoverElection {
        FailoverElection { next_ns: now_ns + RANK_NS * rank as u64, until_ns: now_ns + election_ns }
    }

    /// When something is to be done next.
    pub(crate) fn next_due_ns(&self) -> u64 {
        self.next_ns.min(self.until_ns)
    }

    /// Whether the ordinary election takes over.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns
    }

    /// Whether to ask for votes now. If so, the next time is noted.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.next_ns;
        if is_due {
            self.next_ns = now_ns + REPEAT_NS;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    //! Who asks when.
    use super::*;

    #[test]
    fn followers_ask_one_after_the_other_and_again_until_an_election_timeout_is_over() {
        let ms = |ms: u64| ms * 1_000_000;
        let mut first = FailoverElection::new(ms(5), 0, ms(1000));
        assert!(first.take_due(ms(5)) && !first.take_due(ms(14)) && first.take_due(ms(15)));
        assert_eq!(first.next_due_ns(), ms(25));
        let mut third = FailoverElection::new(ms(5), 2, ms(1000));
        assert!(!third.take_due(ms(84)) && third.take_due(ms(85)));
        assert!(!third.is_over(ms(1004)) && third.is_over(ms(1005)));
        let far = FailoverElection::new(ms(5), 99, ms(1000));
        assert_eq!(far.next_due_ns(), ms(1005), "its turn never comes");
    }
}
