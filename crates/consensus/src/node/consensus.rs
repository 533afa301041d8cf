//! One member's part in consensus: the composition of the raft library and the components around it.
//!
//! It keeps to the contract that makes the library safe:
//!
//! - The owner has replayed what is committed, so the node begins with commit = applied (`start`).
//! - Proposals are never forwarded (`propose`).
//! - *Applying before persisting* is never enabled: the library hands out only entries that are persisted here.
//! - [`Consensus::settle`] follows every call into the library. It sets the election timeout and clears what belonged
//!   to a lost leadership.
//! - When a conf change removes our vote, we step down at once: the library would continue as if we had one, and abort.

use raft::{RawNode, StateRole};
use slog::o;

use crate::entry::HardState;
use crate::error::{ProposeError, StartError};
use crate::log_view::LogView;
use crate::membership::{ConfState, conf_state_from_raft, conf_state_to_raft};
use crate::message::{Message, entry_to_raft, hard_state_to_raft};
use crate::node::election_timeout::election_timeout;
use crate::node::guard;
use crate::node::start::{Config, Start};
use crate::node::status::{Leadership, Status};
use crate::read_index::ReadIndexRounds;
use crate::replication::{InflightWindows, StalledDisk, StalledWrite, UnsyncedWrites, stalled_write};

/// One member's part in consensus. `input` and `propose` implement what it takes, `output` what it gives out.
pub struct Consensus {
    pub(super) node: RawNode<LogView>,
    pub(super) election_tick: usize,
    seed: u64,
    /// Ticks since the start.
    pub(super) ticks: u64,
    pub(super) writes: UnsyncedWrites,
    pub(super) windows: InflightWindows,
    pub(super) rounds: ReadIndexRounds,
    pub(super) stalled_disk: StalledDisk,
    /// Leadership checks and their responses, which the library does not know.
    pub(super) outbox: Vec<Message>,
    /// The last committed index handed out to be applied.
    pub(super) handed_out: u64,
    /// What the last [`crate::Ready::leadership`] said.
    pub(super) reported_leadership: Leadership,
    /// The term in which this node leads, to notice that it no longer does.
    pub(super) leading: Option<u64>,
}

impl Consensus {
    /// Starts a node. A sole voter starts an election at once: it waits for no other member.
    pub fn new(config: &Config, start: Start) -> Result<Consensus, StartError> {
        config.check()?;
        let is_joining = start.conf_state == ConfState::default();
        if let Some(flaw) = start.conf_state.flaw().filter(|_| !is_joining) {
            return Err(StartError::ConfState(flaw));
        }
        let terms = start.checked_terms()?;
        let hard_state = HardState { commit: start.applied, ..start.hard_state };
        let conf_state = conf_state_to_raft(&start.conf_state);
        let initial = raft::RaftState::new(hard_state_to_raft(hard_state), conf_state);
        let recent = start.recent.into_iter().map(entry_to_raft).collect();
        let view = LogView::new(initial, terms, recent, start.applied);
        let logger = slog::Logger::root(slog::Discard, o!());
        let node = RawNode::new(&config.for_library(start.applied), view, &logger)
            .map_err(|_| StartError::ConfState("the library refuses it"))?;
        let mut consensus = Consensus {
            node,
            election_tick: config.election_tick,
            seed: config.seed,
            ticks: 0,
            writes: UnsyncedWrites::new(hard_state),
            windows: InflightWindows::default(),
            rounds: ReadIndexRounds::default(),
            stalled_disk: StalledDisk::default(),
            outbox: Vec::new(),
            handed_out: start.applied,
            reported_leadership: Leadership { term: hard_state.term, ..Leadership::default() },
            leading: None,
        };
        consensus.settle();
        if guard::is_alone(&consensus.node) {
            consensus.campaign();
        }
        Ok(consensus)
    }

    /// The state of this node.
    pub fn status(&self) -> Status {
        Status::of(&self.node)
    }

    /// The configuration in force.
    pub fn conf_state(&self) -> ConfState {
        conf_state_from_raft(&self.node.raft.prs().conf().to_conf_state())
    }

    /// Bytes of entries that are kept in memory, for followers or because they are not applied.
    pub fn recent_bytes(&self) -> usize {
        self.node.store().recent_bytes()
    }

    /// Frees memory while nothing is proposed: keeps at most `max_bytes` of applied entries in memory. Followers that
    /// need older ones get them from the disk.
    pub fn release_memory(&mut self, max_bytes: usize) {
        self.node.mut_store().release(max_bytes);
    }

    /// Whether this node leads.
    pub fn is_leader(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    /// The oldest write that is not synced, however young.
    pub fn stalled_write(&self) -> Option<StalledWrite> {
        stalled_write(&self.node, &self.writes, self.ticks)
    }

    /// Starts an election now. Nothing happens if this node leads, has no vote, or is installing a snapshot.
    pub fn campaign(&mut self) {
        if guard::may_campaign(&self.node, self.writes.changes_log()) {
            let _ = self.node.campaign();
            self.settle();
        }
    }

    /// Asserts the invariants of this node's own state. Cheap: its cost grows only with the number of unsynced writes.
    /// Call it at the end of each step of the owner.
    pub fn check(&self) {
        let (raft, log) = (&self.node.raft, &self.node.raft.raft_log);
        assert!(log.applied <= self.handed_out, "only what was handed out is applied");
        assert!(self.handed_out <= log.committed, "only what is committed is handed out");
        let is_persisted = self.handed_out <= log.persisted || guard::is_installing(&self.node);
        assert!(is_persisted, "only what is persisted is handed out");
        assert!(log.persisted <= log.last_index(), "only what the log holds is persisted");
        assert_eq!(self.leading, self.is_leader().then_some(raft.term), "a lost leadership was noticed");
        assert!(
            !self.is_leader() || (raft.leader_id == raft.id && raft.term > 0),
            "a leader knows that it leads"
        );
        self.node.store().check();
        self.writes.check();
        self.rounds.check(&self.node);
    }

    pub(super) fn check_leader(&self) -> Result<(), ProposeError> {
        if self.is_leader() {
            Ok(())
        } else {
            Err(ProposeError::NotLeader { leader: self.node.raft.leader_id })
        }
    }

    /// Call it after every call into the library: sets the election timeout, and when the leadership was lost or won,
    /// clears what belonged to it.
    pub(super) fn settle(&mut self) {
        let raft = &mut self.node.raft;
        let timeout = election_timeout(self.seed, raft.id, raft.term, self.election_tick);
        raft.set_randomized_election_timeout(timeout);
        let leading = (raft.state == StateRole::Leader).then_some(raft.term);
        if leading != self.leading {
            self.leading = leading;
            self.stalled_disk = StalledDisk::default();
            self.rounds.drop_round();
            self.windows.reset(&mut self.node);
            self.node.mut_store().forget_followers();
        }
    }
}
