//! The node: input goes in here, what is to be done comes out of `ready`.
//!
//! It wraps the library's `RawNode` and keeps to the contract that makes it safe:
//!
//! - The owner has replayed what is committed, so the node begins with commit = applied (`start`).
//! - Proposals are never forwarded (`propose`).
//! - *Applying before persisting* is never enabled (the library hands out nothing that is not persisted here).
//! - After every call into the library [`Consensus::settle`] sets the election timeout and notices a lost leadership.
//! - When a conf change takes our vote, we step down at once: the library would go on as if we had one, and abort.

use raft::{RawNode, SnapshotStatus, StateRole};
use slog::o;

use crate::confirm::Rounds;
use crate::guard::{self, Verdict};
use crate::inflight::{self, Inflight};
use crate::status::PeerStatus;
use crate::timeout::election_timeout;
use crate::view::View;
use crate::writes::Writes;
use crate::{
    Body, ConfChange, ConfState, Config, HardState, Leadership, Message, ProposeError, Rejected, Role, Start,
    StartError, convert,
};

/// One member's part in consensus.
pub struct Consensus {
    pub(crate) node: RawNode<View>,
    pub(crate) id: u64,
    pub(crate) election_tick: usize,
    seed: u64,
    /// Ticks since the start.
    pub(crate) ticks: u64,
    pub(crate) writes: Writes,
    pub(crate) inflight: Inflight,
    pub(crate) rounds: Rounds,
    /// Our own messages, which the library knows nothing of.
    pub(crate) outbox: Vec<Message>,
    /// The last committed index handed out to be applied.
    pub(crate) handed_out: u64,
    pub(crate) hard_state_told: HardState,
    pub(crate) leadership_told: Leadership,
    /// A snapshot on our disk that the library has not been told of.
    pub(crate) installed: Option<u64>,
    /// The tick at which a hung disk made us hand over.
    pub(crate) handover_since: Option<u64>,
    /// The term we lead, to notice that we no longer do.
    leading: Option<u64>,
}

impl Consensus {
    /// Starts a node. A sole voter campaigns at once: there is nobody to wait for.
    pub fn new(config: &Config, start: Start) -> Result<Consensus, StartError> {
        config.check()?;
        let is_joining = start.conf_state == ConfState::default();
        if let Some(flaw) = start.conf_state.flaw().filter(|_| !is_joining) {
            return Err(StartError::ConfState(flaw));
        }
        let terms = start.checked_terms()?;
        let hard_state = HardState { commit: start.applied, ..start.hard_state };
        let initial = raft::RaftState::new(
            convert::hard_state_to_raft(hard_state),
            convert::conf_state_to_raft(&start.conf_state),
        );
        let recent = start.recent.into_iter().map(convert::entry_to_raft).collect();
        let view = View::new(initial, terms, recent, start.applied);
        let logger = slog::Logger::root(slog::Discard, o!());
        let node = RawNode::new(&config.for_library(start.applied), view, &logger)
            .map_err(|_| StartError::ConfState("the library refuses it"))?;
        let mut consensus = Consensus {
            node,
            id: config.id,
            election_tick: config.election_tick,
            seed: config.seed,
            ticks: 0,
            writes: Writes::default(),
            inflight: Inflight::default(),
            rounds: Rounds::default(),
            outbox: Vec::new(),
            handed_out: start.applied,
            hard_state_told: hard_state,
            leadership_told: Leadership { term: hard_state.term, ..Leadership::default() },
            installed: None,
            handover_since: None,
            leading: None,
        };
        consensus.settle();
        if guard::is_alone(&consensus.node) {
            consensus.campaign();
        }
        Ok(consensus)
    }

    /// A tick of the clock passed.
    pub fn tick(&mut self) {
        self.ticks += 1;
        let would_abort =
            self.node.raft.promotable() && !guard::may_campaign(&self.node, self.writes.log_under_way());
        if !self.is_leader() && would_abort {
            // Time passes all the same: a leader that fell silent must not keep our vote from others.
            self.node.raft.election_elapsed += 1;
        } else {
            self.node.tick();
        }
        self.inflight.reconcile(&mut self.node);
        if self.node.store().has_chunks() {
            let peers_at: Vec<u64> = self.peers().iter().map(|peer| peer.next).collect();
            self.node.mut_store().keep_chunks_for(&peers_at);
        }
        self.watch_disk();
        self.settle();
    }

    /// Takes a message that came over the connection to `from`. An error means that no sound member sends this: count
    /// it and disconnect.
    pub fn step(&mut self, from: u64, message: Message) -> Result<(), Rejected> {
        let verdict = guard::check(&self.node, from, &message, self.writes.log_under_way())?;
        if verdict == Verdict::Ignore {
            return Ok(());
        }
        self.notice_restarted_leader(&message);
        match message.body {
            Body::LeadershipCheck { round } => self.answer_confirm(from, message.term, round),
            Body::LeadershipCheckResponse { round } => self.take_confirmation(from, message.term, round),
            _ => self.step_raft(message),
        }
        self.settle();
        Ok(())
    }

    /// Our leader asks for votes in a later term, so it does not lead any more: it was restarted, or stepped down. To
    /// go on waiting for its heartbeats would only make it wait for our vote.
    fn notice_restarted_leader(&mut self, message: &Message) {
        let raft = &mut self.node.raft;
        let asks = matches!(message.body, Body::Vote { pre: true, .. });
        if asks && message.term > raft.term && raft.leader_id == message.from {
            let term = raft.term;
            raft.become_follower(term, raft::INVALID_ID);
        }
    }

    fn step_raft(&mut self, message: Message) {
        let (peer, ours) = (message.from, self.leading == Some(message.term));
        match message.body {
            Body::AppendAccepted { index, .. } if ours => {
                self.inflight.accepted(&mut self.node, peer, index);
                inflight::accepted_again(&mut self.node, peer, index);
            }
            Body::HeartbeatResponse { commit }
                if ours && inflight::ask_again(&mut self.node, peer, commit) =>
            {
                return;
            }
            _ => {}
        }
        let message = convert::message_to_raft(message).expect("confirms are handled here");
        // Errors of the library are about proposals and unknown members; neither comes here.
        let _ = self.node.step(message);
    }

    /// A committed conf change is applied: returns the configuration now in force. An error means that it does not fit
    /// the configuration before, on any member: it has no effect. Call it before [`Consensus::applied`] and before
    /// applying what comes after.
    pub fn apply_conf_change(&mut self, change: &ConfChange) -> Result<ConfState, String> {
        let change = convert::conf_change_to_raft(change);
        self.node.apply_conf_change(&change).map_err(|error| error.to_string())?;
        let raft = &mut self.node.raft;
        if !raft.promotable() && raft.state != StateRole::Follower {
            let term = raft.term;
            raft.become_follower(term, raft::INVALID_ID);
        }
        self.settle();
        self.finish_round();
        Ok(self.conf_state())
    }

    /// Hands leadership over to the voter `to`, which takes at most an election timeout; until then nothing can be
    /// proposed.
    pub fn transfer_leader(&mut self, to: u64) -> Result<(), ProposeError> {
        self.check_leader()?;
        if !self.conf_state().voters.contains(&to) {
            return Err(ProposeError::NotAVoter { id: to });
        }
        self.node.transfer_leader(to);
        self.settle();
        Ok(())
    }

    /// Stops leading, in the same term, without a successor.
    pub fn step_down(&mut self) {
        if self.is_leader() {
            let term = self.node.raft.term;
            self.node.raft.become_follower(term, raft::INVALID_ID);
            self.settle();
        }
    }

    /// Starts an election now. Nothing happens if this node leads, has no vote, or is installing a snapshot.
    pub fn campaign(&mut self) {
        if guard::may_campaign(&self.node, self.writes.log_under_way()) {
            let _ = self.node.campaign();
            self.settle();
        }
    }

    /// As a leader, sends every member a heartbeat now: a connection was made anew.
    pub fn ping(&mut self) {
        self.node.ping();
        self.settle();
    }

    /// Something sent to `peer` was lost.
    pub fn report_unreachable(&mut self, peer: u64) {
        self.node.report_unreachable(peer);
        self.settle();
    }

    /// How a snapshot sent to `peer` ended. Always report it: nothing else is sent to the peer before.
    pub fn report_snapshot(&mut self, peer: u64, ok: bool) {
        let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.node.report_snapshot(peer, status);
        self.settle();
    }

    /// The owner's log no longer holds `index` and what is before it. They must be applied.
    pub fn truncate(&mut self, index: u64) {
        if index >= self.node.store().first() {
            self.node.mut_store().truncate_to(index);
        }
    }

    /// Whether this node leads.
    pub fn is_leader(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    pub(crate) fn role(&self) -> Role {
        self.node.raft.state.into()
    }

    pub(crate) fn leadership(&self) -> Leadership {
        let raft = &self.node.raft;
        Leadership { role: self.role(), leader: raft.leader_id, term: raft.term }
    }

    /// Whether the members that fit make a quorum (both, in a joint configuration).
    pub(crate) fn has_quorum(&self, fits: impl Fn(&PeerStatus) -> bool) -> bool {
        let ids = self.peers().iter().filter(|peer| fits(peer)).map(|peer| peer.id).collect();
        self.node.raft.prs().has_quorum(&ids)
    }

    /// To be called after every call into the library: sets the election timeout, and when the leadership was lost
    /// or won, clears what belonged to it.
    pub(crate) fn settle(&mut self) {
        let raft = &mut self.node.raft;
        let timeout = election_timeout(self.seed, self.id, raft.term, self.election_tick);
        raft.set_randomized_election_timeout(timeout);
        let leading = (raft.state == StateRole::Leader).then_some(raft.term);
        if leading != self.leading {
            self.leading = leading;
            self.handover_since = None;
            self.rounds.drop_all();
            self.inflight.reset(&mut self.node);
            self.node.mut_store().forget_followers();
        }
        if self.can_start_round() && guard::is_alone(&self.node) {
            self.start_round();
        }
    }
}
