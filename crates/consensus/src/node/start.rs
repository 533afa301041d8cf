//! What consensus starts from: its settings, and the contents of its files.
//!
//! Before the node exists, its owner has replayed everything it knows committed, so the node begins with commit =
//! applied. Of the log the node gets the terms of all entries and the entries that are not applied; the rest stays on
//! disk.

use crate::entry::{Entry, HardState};
use crate::error::StartError;
use crate::log_view::Terms;
use crate::membership::ConfState;
use crate::replication::MAX_INFLIGHT_MESSAGES;

/// Bytes of entries in one append; a larger entry travels alone. Large enough to amortise a frame, small enough that a
/// lost one costs little.
pub const MAX_APPEND_BYTES: u64 = 1 << 20;
/// Bytes of committed entries handed out at once, which limits the time one iteration spends on applying.
pub const MAX_COMMITTED_BYTES: u64 = 4 << 20;
/// Bytes proposed and not committed, at which proposals are refused. The owner's queues have lower limits of their own.
pub const MAX_UNCOMMITTED_BYTES: u64 = 256 << 20;

/// The settings of a node.
#[derive(Debug, Clone)]
pub struct Config {
    /// This member's id, not 0.
    pub id: u64,
    /// Ticks without a leader before an election; each term draws from this to twice this.
    pub election_tick: usize,
    /// Ticks between heartbeats; less than `election_tick`.
    pub heartbeat_tick: usize,
    /// Ask for pre-votes before an election, so that a member that was cut off does not depose a leader when it
    /// returns.
    pub pre_vote: bool,
    /// Step down when messages of no quorum arrived for an election timeout.
    pub check_quorum: bool,
    /// Determines, with id and term, the election timeouts.
    pub seed: u64,
}

/// The contents of a node's files.
#[derive(Debug, Clone)]
pub struct Start {
    /// The stored hard state. Its `commit` may not be above `applied`.
    pub hard_state: HardState,
    /// The configuration at `applied`; without voters for a member that still has to receive it.
    pub conf_state: ConfState,
    /// Applied, and therefore committed: at least the hard state's commit and the checkpoint's index.
    pub applied: u64,
    /// (index, term) of the entry before the first one in the log: a segment header's or the checkpoint's.
    pub previous: (u64, u64),
    /// The terms of the log's entries, as (last index, term) of each run of equal terms, ascending.
    pub terms: Vec<(u64, u64)>,
    /// The last entries of the log, consecutive, at least all after `applied`.
    pub recent: Vec<Entry>,
}

impl Start {
    /// (index, term) of the point at which a new cluster begins. It is not (0, 0), so that a member that joins with an
    /// empty log always receives a snapshot, and with it the first configuration, which is in no entry.
    pub const BOOTSTRAP: (u64, u64) = (1, 1);

    /// A member of a new cluster of these voters. Its checkpoint is at [`Start::BOOTSTRAP`].
    pub fn bootstrap(voters: impl IntoIterator<Item = u64>) -> Start {
        let (index, term) = Start::BOOTSTRAP;
        Start {
            hard_state: HardState { term, vote: 0, commit: index },
            conf_state: ConfState::of_voters(voters),
            applied: index,
            previous: Start::BOOTSTRAP,
            terms: Vec::new(),
            recent: Vec::new(),
        }
    }

    /// A member that joins a running cluster, with an empty log.
    pub fn joining() -> Start {
        Start {
            hard_state: HardState::default(),
            conf_state: ConfState::default(),
            applied: 0,
            previous: (0, 0),
            terms: Vec::new(),
            recent: Vec::new(),
        }
    }

    pub(crate) fn checked_terms(&self) -> Result<Terms, StartError> {
        let flaw = |what| Err(StartError::Log(what));
        let mut terms = Terms::starting_after(self.previous);
        let mut newest = self.previous.1;
        for &(last, term) in &self.terms {
            if last <= terms.last() || term < newest || term == 0 {
                return flaw("terms of entries fall, or runs of them are out of order");
            }
            terms.extend_to(last, term);
            newest = term;
        }
        if newest > self.hard_state.term {
            return flaw("an entry of a term after the hard state's");
        }
        if self.applied < self.previous.0 || self.applied > terms.last() {
            return flaw("the applied index is not in the log");
        }
        if self.hard_state.commit > self.applied {
            return flaw("committed entries are not applied");
        }
        let first_recent = terms.last() + 1 - (self.recent.len() as u64).min(terms.last());
        if first_recent > self.applied + 1 || first_recent < terms.first() {
            return flaw("the recent entries are not the last ones, or do not begin at the applied index");
        }
        let mut expected = self.recent.iter().zip(first_recent..);
        if !expected.all(|(entry, index)| entry.index == index && terms.at(index) == Some(entry.term)) {
            return flaw("the recent entries do not match the terms");
        }
        Ok(terms)
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), StartError> {
        if self.id == 0 {
            return Err(StartError::Config("the member id is not 0"));
        }
        if self.heartbeat_tick == 0 || self.election_tick <= self.heartbeat_tick {
            return Err(StartError::Config("0 < heartbeat ticks < election ticks"));
        }
        Ok(())
    }

    pub(crate) fn for_library(&self, applied: u64) -> raft::Config {
        raft::Config {
            id: self.id,
            election_tick: self.election_tick,
            heartbeat_tick: self.heartbeat_tick,
            applied,
            max_size_per_msg: MAX_APPEND_BYTES,
            max_inflight_msgs: MAX_INFLIGHT_MESSAGES,
            check_quorum: self.check_quorum,
            pre_vote: self.pre_vote,
            max_uncommitted_size: MAX_UNCOMMITTED_BYTES,
            max_committed_size_per_ready: MAX_COMMITTED_BYTES,
            ..raft::Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::entry::EntryKind;
    use crate::node::consensus::Consensus;

    /// Entries 2 to 5, of which 2 and 3 are applied.
    fn sound() -> Start {
        let entry =
            |index, term| Entry { term, index, kind: EntryKind::Batch, payload: Bytes::from_static(b"x") };
        Start {
            hard_state: HardState { term: 3, vote: 0, commit: 2 },
            applied: 3,
            terms: vec![(3, 2), (5, 3)],
            recent: vec![entry(4, 3), entry(5, 3)],
            ..Start::bootstrap([1, 2, 3])
        }
    }

    fn start(change: impl FnOnce(&mut Start)) -> Option<StartError> {
        let config = Config {
            id: 1,
            election_tick: 10,
            heartbeat_tick: 1,
            pre_vote: true,
            check_quorum: true,
            seed: 0,
        };
        let mut start = sound();
        change(&mut start);
        Consensus::new(&config, start).err()
    }

    #[test]
    fn files_that_disagree_are_refused_with_the_reason() {
        let log = |what| Some(StartError::Log(what));
        assert_eq!(start(|_| ()), None);
        assert_eq!(start(|s| s.applied = 6), log("the applied index is not in the log"));
        assert_eq!(start(|s| s.applied = 0), log("the applied index is not in the log"));
        assert_eq!(start(|s| s.hard_state.commit = 4), log("committed entries are not applied"));
        assert_eq!(start(|s| s.hard_state.term = 2), log("an entry of a term after the hard state's"));
        let runs = log("terms of entries fall, or runs of them are out of order");
        assert_eq!(start(|s| s.terms = vec![(3, 2), (5, 1)]), runs);
        assert_eq!(start(|s| s.terms = vec![(3, 2), (3, 3)]), runs);
        let recent = log("the recent entries are not the last ones, or do not begin at the applied index");
        assert_eq!(start(|s| drop(s.recent.remove(0))), recent);
        assert_eq!(start(|s| s.recent[0].term = 2), log("the recent entries do not match the terms"));
        let conf = start(|s| s.conf_state.learners = vec![3]);
        assert_eq!(conf, Some(StartError::ConfState("a learner that votes")));
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let config = Config {
            id: 1,
            election_tick: 1,
            heartbeat_tick: 1,
            pre_vote: true,
            check_quorum: true,
            seed: 0,
        };
        let refused = Consensus::new(&config, sound()).err();
        assert_eq!(refused, Some(StartError::Config("0 < heartbeat ticks < election ticks")));
    }
}
