//! The first election after a start.
//!
//! Who starts waits for a leader's word, as a rule for an election timeout. Members that went down together would all
//! wait in vain. So until it has heard of a leader, a member that is connected to a quorum asks for votes sooner: at
//! once if its last vote was its own, for then it probably led, and its log is as long as any; after a head start for
//! that one else, each voter at another tick, so that they do not stand in each other's way.
//!
//! It is only ever asked *whether* votes would be given (a pre-vote): whoever hears from a leader says no, and nothing
//! has changed. An answer may be lost while the other side is not connected to us yet, so each tick asks again. After
//! an election timeout the ordinary way takes over.

use consensus::Role;

use crate::member::Member;

/// Ticks that a member which did not lead waits for one that did.
const HEAD_START_TICKS: u32 = 2;

/// A member that has not heard of a leader since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comeback {
    /// Its last vote was its own.
    voted_for_itself: bool,
    /// Ticks since a quorum was connected.
    ticks: u32,
}

impl Comeback {
    /// Of a member whose last vote was for `vote`.
    pub(crate) fn new(member_id: u64, vote: u64) -> Comeback {
        Comeback { voted_for_itself: vote == member_id, ticks: 0 }
    }
}

impl Member {
    /// A peer is connected: perhaps the one that was missing.
    pub(crate) fn come_back(&mut self) {
        let Some(comeback) = self.comeback else { return };
        if comeback.voted_for_itself && self.may_ask_for_votes() {
            self.consensus.campaign();
        }
    }

    /// A tick passed.
    pub(crate) fn come_back_later(&mut self) {
        let Some(comeback) = &mut self.comeback else { return };
        if self.leadership.leader != 0 || comeback.ticks >= self.config.election_ticks {
            self.comeback = None;
            return;
        }
        let voted_for_itself = comeback.voted_for_itself;
        if !self.may_ask_for_votes() {
            return;
        }
        let ticks = self.count_comeback_tick();
        if voted_for_itself || ticks > HEAD_START_TICKS + self.rank() {
            self.consensus.campaign();
        }
    }

    fn count_comeback_tick(&mut self) -> u32 {
        let Some(comeback) = &mut self.comeback else { return 0 };
        comeback.ticks += 1;
        comeback.ticks
    }

    /// Whether votes could be had and would do no harm: a quorum is connected, and no election of ours is under way.
    fn may_ask_for_votes(&self) -> bool {
        let status = self.consensus.status();
        let waits = matches!(status.role, Role::Follower | Role::PreCandidate);
        let there = |id: &&u64| **id == self.config.member_id || self.up.contains(*id);
        let quorum = |voters: &[u64]| voters.iter().filter(there).count() * 2 > voters.len();
        let (now, before) = (&status.conf_state.voters, &status.conf_state.voters_outgoing);
        let connected = quorum(now) && (before.is_empty() || quorum(before));
        self.config.pre_vote && waits && status.leader == 0 && connected
    }

    /// How many voters come before this member.
    fn rank(&self) -> u32 {
        let voters = self.consensus.status().conf_state.voters;
        voters.iter().filter(|id| **id < self.config.member_id).count() as u32
    }
}
