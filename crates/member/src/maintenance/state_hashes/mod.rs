//! State hashes: each member sends its peers its newest one, and compares theirs with its own at the same index.
//!
//! ```text
//! member 1: applied 900, hash a1     -> StateHash { 900, a1 }
//! member 2: applied 905; remembers 900 -> a1: equal. A different hash at 900 means that the two states diverged.
//! member 3: applied 899; keeps the hash and compares it once 900 is applied. A leader is ahead of its followers.
//! ```
//!
//! Which of the two is corrupt is known to a member that is equal to a quorum of voters at that index or a later one:
//! the other. The leader has no privilege here. If it sees that no quorum forms, it names no member. Only members are
//! compared: the caller forgets a peer that is removed.
//!
//! ```text
//! 1 leads, its state differs    member 2: 1 differs at 900, 3 is equal at 902     -> 1 is corrupt
//!                               member 1: 2 and 3 differ at 900                   -> waits for the others' verdict
//! of two, the states differ     member 1: 2 differs at 900; for ten ticks no verdict -> no member can be named
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Hashes remembered, to compare with peers that are a little behind.
const MAX_REMEMBERED: usize = 1_000;

/// Ticks after which the leader raises the alarm for the cluster ([`NO_MEMBER`]), because no member has been
/// identified. Hashes of all members that are connected arrive within two.
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
    peers: BTreeMap<u64, PeerComparison>,
}

/// How a peer's state compares with this member's.
#[derive(Debug, Default)]
struct PeerComparison {
    /// The newest index at which it was equal.
    equal_at: u64,
    /// It differed when its hash was compared last.
    difference: Option<Difference>,
    /// Its (index, hash) at an index that this member has not applied yet. It stays until it is compared, and newer
    /// ones are dropped meanwhile: a member that is always behind would never compare the newest.
    early: Option<(u64, u64)>,
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

    /// Notes a peer's hash at `index`. Returns whether it differs from this member's, and did not before. A hash at an
    /// index that this member has not applied yet is compared later, see
    /// [`compare_early`](StateHashes::compare_early). An index that is forgotten tells nothing.
    pub(crate) fn compare(&mut self, peer: u64, index: u64, hash: u64) -> bool {
        if self.is_ahead(index) {
            self.peers.entry(peer).or_default().early.get_or_insert((index, hash));
            return false;
        }
        let Some(own) = self.hash_at(index) else { return false };
        let state = self.peers.entry(peer).or_default();
        if own == hash {
            (state.equal_at, state.difference) = (index, None);
            return false;
        }
        let is_news = state.difference.is_none();
        let difference = state.difference.get_or_insert(Difference { index, unjudged_ticks: None });
        // If the alarm was disarmed meanwhile, it is raised again.
        difference.unjudged_ticks.get_or_insert(0);
        is_news
    }

    /// Compares the hashes of peers that came before this member had applied their index, and has since. Returns the
    /// peers whose hash differs and did not before, with the index.
    pub(crate) fn compare_early(&mut self) -> Vec<(u64, u64)> {
        let newest = self.newest_index();
        let is_applied = |early: &mut (u64, u64)| early.0 <= newest;
        let due =
            |(peer, state): (&u64, &mut PeerComparison)| Some((*peer, state.early.take_if(is_applied)?));
        let due: Vec<_> = self.peers.iter_mut().filter_map(due).collect();
        let mut news = Vec::new();
        for (peer, (index, hash)) in due {
            if self.compare(peer, index, hash) {
                news.push((peer, index));
            }
        }
        news
    }

    /// The connection to a peer ended: its next hash is compared as the first one.
    pub(crate) fn forget(&mut self, peer: u64) {
        self.peers.remove(&peer);
    }

    /// Forgets the peers that are no members any more.
    pub(crate) fn retain(&mut self, is_member: impl Fn(u64) -> bool) {
        self.peers.retain(|peer, _| is_member(*peer));
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

    /// Whether this member has not applied `index` yet.
    fn is_ahead(&self, index: u64) -> bool {
        index > self.newest_index()
    }

    /// The newest index whose hash is known; 0 if there is none.
    fn newest_index(&self) -> u64 {
        self.remembered.back().map_or(0, |(index, _)| *index)
    }

    fn hash_at(&self, index: u64) -> Option<u64> {
        let at = self.remembered.binary_search_by_key(&index, |(index, _)| *index);
        at.ok().map(|at| self.remembered[at].1)
    }
}

#[cfg(test)]
mod tests;
