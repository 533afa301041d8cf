//! State hashes: each member sends its peers its newest one, and compares theirs with its own at the same index.
//!
//! ```text
//! member 1: applied 900, hash a1     -> StateHash { 900, a1 }
//! member 2: applied 905; remembers 900 -> a1: equal. A different hash at 900 means that the two states diverged.
//! ```
//!
//! Which of the two is corrupt is known to a member that is equal to a quorum of voters at that index or a later one:
//! the other. The leader has no say in it that others do not have. If it sees that no quorum forms, it names no member.
//!
//! ```text
//! 1 leads, its state differs    member 2: 1 differs at 900, 3 is equal at 902     -> 1 is corrupt
//!                               member 1: 2 and 3 differ at 900                   -> waits for the others' verdict
//! of two, the states differ     member 1: 2 differs at 900; for ten ticks no verdict -> no member can be named
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Hashes remembered, to compare with peers that are a little behind.
const MAX_REMEMBERED: usize = 1_000;

/// Ticks until a difference that nobody can attribute to a member is one of the whole cluster. Hashes of all members
/// that are connected arrive within two.
const MAX_UNJUDGED_TICKS: u32 = 10;

/// The member id of an alarm that names no member.
pub(crate) const NO_MEMBER: u64 = 0;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct StateHashes {
    /// (applied index, hash), indexes ascending.
    remembered: VecDeque<(u64, u64)>,
    sent_index: u64,
    /// What is known of connected peers.
    peers: BTreeMap<u64, PeerState>,
}

/// How a peer's state compares with this member's.
#[derive(Debug, Default)]
struct PeerState {
    /// The newest index at which it was equal.
    equal_at: u64,
    /// It differed when its hash was compared last.
    difference: Option<Difference>,
}

#[derive(Debug)]
struct Difference {
    /// The first index at which it was seen.
    index: u64,
    /// Ticks for which no alarm has covered it; none once one has.
    unjudged_ticks: Option<u32>,
}

impl StateHashes {
    /// The state at `index` has this hash.
    pub(crate) fn remember(&mut self, index: u64, hash: u64) {
        if self.remembered.len() == MAX_REMEMBERED {
            self.remembered.pop_front();
        }
        self.remembered.push_back((index, hash));
    }

    /// The newest hash, unless it was taken before.
    pub(crate) fn take_unsent(&mut self) -> Option<(u64, u64)> {
        let newest = self.remembered.back().copied().filter(|(index, _)| *index != self.sent_index)?;
        self.sent_index = newest.0;
        Some(newest)
    }

    /// Notes a peer's hash at `index`. Returns whether it differs from this member's, and did not before. Unknown
    /// indexes tell nothing.
    pub(crate) fn compare(&mut self, peer: u64, index: u64, hash: u64) -> bool {
        let Some(own) = self.hash_at(index) else { return false };
        let state = self.peers.entry(peer).or_default();
        if own == hash {
            *state = PeerState { equal_at: index, difference: None };
            return false;
        }
        let is_news = state.difference.is_none();
        let difference = state.difference.get_or_insert(Difference { index, unjudged_ticks: None });
        // If the alarm was disarmed meanwhile, it is raised again.
        difference.unjudged_ticks.get_or_insert(0);
        is_news
    }

    /// The connection to a peer ended: its next hash is compared as the first one.
    pub(crate) fn forget(&mut self, peer: u64) {
        self.peers.remove(&peer);
    }

    /// Whether a difference is not yet covered by an alarm.
    pub(crate) fn has_unjudged(&self) -> bool {
        let mut differences = self.peers.values().filter_map(|state| state.difference.as_ref());
        differences.any(|difference| difference.unjudged_ticks.is_some())
    }

    /// At each tick: the members that are corrupt, or [`NO_MEMBER`], for which the alarm must be raised. `raised` has
    /// the members of the alarms that are.
    pub(crate) fn judge(
        &mut self,
        own_id: u64,
        voters: &BTreeSet<u64>,
        leads: bool,
        raised: &BTreeSet<u64>,
    ) -> BTreeSet<u64> {
        let equal: Vec<u64> = voters.iter().filter_map(|voter| self.equal_at(*voter, own_id)).collect();
        let mut verdicts = BTreeSet::new();
        for (peer, state) in &mut self.peers {
            let Some(difference) = &mut state.difference else { continue };
            let Some(ticks) = &mut difference.unjudged_ticks else { continue };
            *ticks += 1;
            let is_waiting = *ticks < MAX_UNJUDGED_TICKS;
            let has_quorum = equal.iter().filter(|at| **at >= difference.index).count() > voters.len() / 2;
            let is_covered = if has_quorum { raised.contains(peer) } else { !raised.is_empty() };
            match (has_quorum, is_waiting) {
                _ if is_covered => difference.unjudged_ticks = None,
                (true, _) => drop(verdicts.insert(*peer)),
                (false, true) => {}
                (false, false) if leads => drop(verdicts.insert(NO_MEMBER)),
                // The leader sees differences as well.
                (false, false) => difference.unjudged_ticks = None,
            }
        }
        verdicts
    }

    /// The newest index at which this voter is known to be equal; none if it differs.
    fn equal_at(&self, voter: u64, own_id: u64) -> Option<u64> {
        if voter == own_id {
            return Some(u64::MAX);
        }
        self.peers.get(&voter).filter(|state| state.difference.is_none()).map(|state| state.equal_at)
    }

    fn hash_at(&self, index: u64) -> Option<u64> {
        let at = self.remembered.binary_search_by_key(&index, |(index, _)| *index);
        at.ok().map(|at| self.remembered[at].1)
    }
}

#[cfg(test)]
mod tests {
    //! What is compared, what is sent, and who is named.
    use super::*;

    #[test]
    fn only_a_different_hash_at_a_known_index_is_a_difference() {
        let mut hashes = StateHashes::default();
        assert_eq!(hashes.take_unsent(), None);
        (1..=MAX_REMEMBERED as u64 + 1).for_each(|index| hashes.remember(index, 10 * index));
        assert!(hashes.compare(3, 2, 21));
        assert!(!hashes.compare(4, 2, 20));
        assert!(!hashes.compare(5, 1, 11), "forgotten");
        assert!(!hashes.compare(6, 5_000, 1), "not applied here yet");
        assert_eq!(hashes.take_unsent(), Some((1_001, 10_010)));
        assert_eq!(hashes.take_unsent(), None, "sent once");
    }

    /// Each of the members applies entries 1 to 3. At index 2 and 3 it has the hash that is given for it, and the
    /// first one leads. Returns the alarms after so many ticks.
    fn alarms(hashes: &[u64], voters: u64, ticks: u32) -> BTreeSet<u64> {
        let voters: BTreeSet<u64> = (1..=voters).collect();
        let mut raised = BTreeSet::new();
        let mut members: BTreeMap<u64, StateHashes> =
            (1..).zip(hashes.iter().map(|_| <_>::default())).collect();
        for (member, hash) in members.values_mut().zip(hashes) {
            [(1, 10), (2, *hash), (3, *hash)]
                .into_iter()
                .for_each(|(index, hash)| member.remember(index, hash));
        }
        for tick in 0..ticks {
            // Members are not equally fast: what is sent differs in index.
            for (from, hash) in (1..).zip(hashes) {
                let index = 2 + (u64::from(tick) + from) % 2;
                for (_, member) in members.iter_mut().filter(|(id, _)| **id != from) {
                    member.compare(from, index, *hash);
                }
            }
            let before = raised.clone();
            for (id, member) in &mut members {
                raised.extend(member.judge(*id, &voters, *id == 1, &before));
            }
        }
        raised
    }

    #[test]
    fn the_members_that_differ_from_a_quorum_are_named_and_otherwise_none() {
        let long = 2 * MAX_UNJUDGED_TICKS;
        for (hashes, expected) in [
            (&[7, 7, 7][..], &[][..]),
            (&[7, 8, 7], &[2]),
            (&[8, 7, 7], &[1]),
            (&[8, 7], &[NO_MEMBER]),
            (&[7, 8, 9], &[NO_MEMBER]),
            (&[8, 9, 7, 7, 7], &[1, 2]),
            (&[8, 8, 7, 7], &[NO_MEMBER]),
            (&[7, 8, 8, 7, 7], &[2, 3]),
        ] {
            let found = alarms(hashes, hashes.len() as u64, long);
            assert_eq!(found, expected.iter().copied().collect(), "{hashes:?}");
        }
        assert_eq!(alarms(&[8, 7, 7], 3, 3), BTreeSet::from([1]), "at once");
        assert_eq!(alarms(&[8, 7], 2, MAX_UNJUDGED_TICKS - 1), BTreeSet::new(), "the others may know");
    }

    #[test]
    fn learners_do_not_count_and_are_named() {
        let long = 2 * MAX_UNJUDGED_TICKS;
        assert_eq!(alarms(&[7, 7, 7, 8], 3, long), BTreeSet::from([4]));
        assert_eq!(alarms(&[7, 8, 8], 1, long), BTreeSet::from([2, 3]));
        assert_eq!(alarms(&[8, 7, 7, 7], 2, long), BTreeSet::from([NO_MEMBER]));
    }

    #[test]
    fn who_was_equal_before_the_difference_is_not_counted() {
        let mut hashes = StateHashes::default();
        (1..=3).for_each(|index| hashes.remember(index, 7));
        let voters = BTreeSet::from([1, 2, 3]);
        hashes.compare(3, 1, 7);
        hashes.compare(2, 2, 8);
        assert_eq!(hashes.judge(1, &voters, false, &BTreeSet::new()), BTreeSet::new());
        hashes.compare(3, 2, 7);
        assert_eq!(hashes.judge(1, &voters, false, &BTreeSet::new()), BTreeSet::from([2]));
    }

    #[test]
    fn a_difference_is_news_until_it_is_gone_and_is_judged_until_the_alarm_is_raised() {
        let mut hashes = StateHashes::default();
        (1..=4).for_each(|index| hashes.remember(index, 7));
        assert!(!hashes.compare(2, 9, 8), "not applied here yet");
        assert!(hashes.compare(2, 1, 8) && !hashes.compare(2, 2, 8));
        let (one, raised) = (BTreeSet::from([1]), BTreeSet::from([2]));
        assert_eq!(hashes.judge(1, &one, true, &BTreeSet::new()), raised);
        assert_eq!(hashes.judge(1, &one, true, &BTreeSet::new()), raised, "it was not raised yet");
        assert_eq!(hashes.judge(1, &one, true, &raised), BTreeSet::new());
        assert!(!hashes.has_unjudged(), "a disarmed alarm is not raised for what was seen before");
        assert!(!hashes.compare(2, 3, 8) && hashes.has_unjudged(), "but for what is seen after");
        assert!(!hashes.compare(2, 3, 7) && hashes.compare(2, 4, 8), "it was equal in between");
        hashes.forget(2);
        assert!(!hashes.has_unjudged() && hashes.compare(2, 4, 8));
    }
}
