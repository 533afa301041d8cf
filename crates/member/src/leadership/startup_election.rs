//! The first election after a start. `Member::on_peer_up` and each tick (`member/ticks.rs`) ask it.
//!
//! A member that starts waits for a leader's message, as a rule for an election timeout. Members that went down
//! together would all wait in vain. So until it has heard of a leader, a member that is connected to a quorum asks for
//! votes sooner: at once if its last vote was for itself, because it probably led and its log is as long as any;
//! otherwise after a head start for that member, each voter at another tick, so that candidates do not split the votes.
//!
//! ```text
//! three members restart; 2 led before.  HEAD_START_TICKS = 2
//! member 2   voted for itself           asks as soon as a quorum is connected
//! member 1   rank 0                     asks from the third tick on, if 2 did not win
//! member 3   rank 2                     asks from the fifth tick on
//! ```
//!
//! Only a pre-vote is asked for: a voter that hears from a leader refuses, and nothing has changed. An answer may be
//! lost while the other side is not yet connected to this member, so each tick asks again. After an
//! election timeout the ordinary election takes over. Only ticks count during which an election could be won: a quorum
//! is connected, and no leader is known. With `--pre-vote=false` there is no startup election.

use std::collections::BTreeSet;

use consensus::{Role, Status};

/// Ticks that a member which did not lead waits for the one that did.
const HEAD_START_TICKS: u32 = 2;

/// Exists until a leader is known, or an election could be won for as many ticks as an election timeout has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartupElection {
    /// Its last vote was for itself.
    voted_for_itself: bool,
    /// Ticks during which an election could have been won.
    ticks: u32,
}

impl StartupElection {
    /// Of a member whose last vote was for `vote`.
    pub(crate) fn new(member_id: u64, vote: u64) -> StartupElection {
        StartupElection { voted_for_itself: vote == member_id, ticks: 0 }
    }

    /// Whether an election could be won for `election_ticks`, so that the ordinary election takes over.
    pub(crate) fn is_over(&self, election_ticks: u32) -> bool {
        self.ticks >= election_ticks
    }

    /// Whether to ask for votes as soon as a quorum is connected.
    pub(crate) fn asks_at_once(&self) -> bool {
        self.voted_for_itself
    }

    /// A tick passed during which an election could be won. Returns whether to ask for votes now.
    pub(crate) fn tick(&mut self, voters: &[u64], member_id: u64) -> bool {
        self.ticks += 1;
        let rank = voters.iter().filter(|id| **id < member_id).count() as u32;
        self.voted_for_itself || self.ticks > HEAD_START_TICKS + rank
    }
}

/// Whether an election could be won and would disturb no leader: a quorum is connected, no leader is known, and no
/// election of this member is under way.
pub(crate) fn could_win(status: &Status, member_id: u64, connected: &BTreeSet<u64>) -> bool {
    let waits = matches!(status.role, Role::Follower | Role::PreCandidate);
    let is_reachable = |id: &&u64| **id == member_id || connected.contains(*id);
    let quorum = |voters: &[u64]| voters.iter().filter(is_reachable).count() * 2 > voters.len();
    let (now, before) = (&status.conf_state.voters, &status.conf_state.voters_outgoing);
    let is_connected = quorum(now) && (before.is_empty() || quorum(before));
    waits && status.leader == 0 && is_connected
}

#[cfg(test)]
mod tests {
    //! When a member asks for votes after a start.
    use super::*;

    #[test]
    fn the_former_leader_asks_first_and_the_others_by_rank() {
        let voters = [1, 2, 3];
        let mut led = StartupElection::new(2, 2);
        assert!(led.asks_at_once());
        assert!(led.tick(&voters, 2));
        let first_tick = |member_id| {
            let mut election = StartupElection::new(member_id, 2);
            assert!(!election.asks_at_once());
            (1..).find(|_| election.tick(&voters, member_id))
        };
        assert_eq!(first_tick(1), Some(3));
        assert_eq!(first_tick(3), Some(5));
    }

    #[test]
    fn it_ends_after_an_election_timeout() {
        let mut election = StartupElection::new(1, 2);
        for _ in 0..9 {
            election.tick(&[1, 2, 3], 1);
        }
        assert!(!election.is_over(10));
        election.tick(&[1, 2, 3], 1);
        assert!(election.is_over(10));
    }
}
