//! The node: input goes in here, what is to be done comes out of `ready`.
//!
//! It wraps the library's `RawNode` and keeps to the contract that makes it safe (DESIGN 4):
//!
//! - *Start*: the owner has replayed to `applied`, so the node begins with commit = applied = that.
//! - *Proposals are never forwarded*: only a leader takes them, and none during a transfer.
//! - *Applying before persisting* is never enabled (the library hands out nothing that is not persisted here).
//! - After every call into the library [`Consensus::settle`] sets the election timeout and notices a lost leadership.
//! - When a conf change takes our vote, we step down at once: the library would go on as if we had one, and abort.

use bytes::Bytes;
use raft::eraftpb::{self, MessageType};
use raft::{RawNode, SnapshotStatus, StateRole};
use slog::o;

use crate::confirm::Rounds;
use crate::guard::{self, Verdict};
use crate::inflight::{INFLIGHT_MESSAGES_MAX, Inflight};
use crate::status::PeerStatus;
use crate::terms::Terms;
use crate::timeout::election_timeout;
use crate::view::View;
use crate::writes::Writes;
use crate::{
    Body, ConfChange, ConfState, Entry, HardState, Leadership, Message, ProposeError, Rejected, Role,
    StartError, convert,
};

/// Bytes of entries in one append; a larger entry travels alone. Large enough to amortise a frame, small enough that a
/// lost one costs little.
pub const APPEND_BYTES_MAX: u64 = 1 << 20;
/// Bytes of committed entries handed out at once, so that applying never keeps the loop long.
pub const COMMITTED_BYTES_MAX: u64 = 4 << 20;
/// Bytes proposed and not committed, after which proposals are refused: the last line behind the owner's queues.
pub const UNCOMMITTED_BYTES_MAX: u64 = 256 << 20;
/// Bytes of one payload; its length travels in 32 bits, with room to spare.
pub const ENTRY_BYTES_MAX: usize = 1 << 30;

/// The settings of a node.
#[derive(Debug, Clone)]
pub struct Config {
    /// This member's id, not 0.
    pub id: u64,
    /// Ticks without a leader before an election; each term draws from this to twice this.
    pub election_tick: usize,
    /// Ticks between heartbeats; less than `election_tick`.
    pub heartbeat_tick: usize,
    /// Ask before campaigning, so that a member that was cut off does not depose a leader when it returns.
    pub pre_vote: bool,
    /// Step down when no quorum was heard of for an election timeout.
    pub check_quorum: bool,
    /// Decides, with id and term, the election timeouts.
    pub seed: u64,
}

/// What a node starts from: what its files say.
#[derive(Debug, Clone)]
pub struct Start {
    /// The stored hard state. Its `commit` may be behind `applied`.
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

    /// A member that joins a running cluster and knows nothing yet.
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

    fn checked_terms(&self) -> Result<Terms, StartError> {
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
        if config.id == 0 {
            return Err(StartError::Config("the member id is not 0"));
        }
        if config.heartbeat_tick == 0 || config.election_tick <= config.heartbeat_tick {
            return Err(StartError::Config("0 < heartbeat ticks < election ticks"));
        }
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
        let node = RawNode::new(&library_config(config, start.applied), view, &logger)
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
        if self.is_leader() || guard::may_campaign(&self.node, self.writes.log_under_way()) {
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

    /// Takes a message that came over the connection to `from`. An error means that no sound member sends this: count it
    /// and disconnect.
    pub fn step(&mut self, from: u64, message: Message) -> Result<(), Rejected> {
        let verdict = guard::check(&self.node, from, &message, self.writes.log_under_way())?;
        if verdict == Verdict::Ignore {
            return Ok(());
        }
        match message.body {
            Body::Confirm { round } => self.answer_confirm(from, message.term, round),
            Body::ConfirmResponse { round } => self.take_confirmation(from, message.term, round),
            _ => self.step_raft(message),
        }
        self.settle();
        Ok(())
    }

    fn step_raft(&mut self, message: Message) {
        if let Body::AppendAccepted { index, .. } = message.body {
            self.inflight.accepted(&mut self.node, message.from, index);
        }
        let message = convert::message_to_raft(message).expect("confirms are handled here");
        // Errors of the library are about proposals and unknown members; neither comes here.
        let _ = self.node.step(message);
    }

    /// Proposes a batch of commands. Returns the index and term it gets; it is committed if and only if an entry with
    /// both comes out committed. Another entry at that index, or a snapshot past it, means that its outcome is not known
    /// here.
    pub fn propose(&mut self, payload: Bytes) -> Result<(u64, u64), ProposeError> {
        if payload.is_empty() {
            return Err(ProposeError::Empty);
        }
        if payload.len() > ENTRY_BYTES_MAX {
            return Err(ProposeError::TooLarge { bytes: payload.len() });
        }
        self.propose_entry(eraftpb::Entry { data: payload, ..Default::default() })
    }

    /// Proposes a conf change. One that cannot be applied to the configuration in force is refused here.
    pub fn propose_conf_change(&mut self, change: &ConfChange) -> Result<(u64, u64), ProposeError> {
        self.check_may_propose()?;
        if self.node.raft.has_pending_conf() {
            return Err(ProposeError::ConfChangePending);
        }
        if change.changes.len() > crate::MEMBERS_MAX || change.context.len() > ENTRY_BYTES_MAX / 2 {
            return Err(ProposeError::ConfChange("it is too large".to_owned()));
        }
        if change.changes.iter().any(|change| change.id() == 0) {
            return Err(ProposeError::ConfChange("member id 0".to_owned()));
        }
        self.try_conf_change(change).map_err(|error| ProposeError::ConfChange(error.to_string()))?;
        self.propose_entry(convert::conf_change_proposal(change))
    }

    fn propose_entry(&mut self, entry: eraftpb::Entry) -> Result<(u64, u64), ProposeError> {
        self.check_may_propose()?;
        let index = self.node.raft.raft_log.last_index() + 1;
        let message = eraftpb::Message {
            msg_type: MessageType::MsgPropose,
            from: self.id,
            entries: vec![entry].into(),
            ..Default::default()
        };
        self.node.raft.step(message).map_err(|_| ProposeError::Overloaded)?;
        assert_eq!(self.node.raft.raft_log.last_index(), index, "a proposal is one entry");
        Ok((index, self.node.raft.term))
    }

    fn check_may_propose(&self) -> Result<(), ProposeError> {
        self.check_leader()?;
        match self.node.raft.lead_transferee {
            Some(to) => Err(ProposeError::Transferring { to }),
            None => Ok(()),
        }
    }

    fn check_leader(&self) -> Result<(), ProposeError> {
        if self.is_leader() {
            Ok(())
        } else {
            Err(ProposeError::NotLeader { leader: self.node.raft.leader_id })
        }
    }

    fn try_conf_change(&self, change: &ConfChange) -> raft::Result<()> {
        let change = convert::conf_change_to_raft(change);
        let mut changer = raft::Changer::new(self.node.raft.prs());
        if change.leave_joint() {
            changer.leave_joint()?;
        } else if let Some(auto_leave) = change.enter_joint() {
            changer.enter_joint(auto_leave, &change.changes)?;
        } else {
            changer.simple(&change.changes)?;
        }
        Ok(())
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

fn library_config(config: &Config, applied: u64) -> raft::Config {
    raft::Config {
        id: config.id,
        election_tick: config.election_tick,
        heartbeat_tick: config.heartbeat_tick,
        applied,
        max_size_per_msg: APPEND_BYTES_MAX,
        max_inflight_msgs: INFLIGHT_MESSAGES_MAX,
        check_quorum: config.check_quorum,
        pre_vote: config.pre_vote,
        max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
        max_committed_size_per_ready: COMMITTED_BYTES_MAX,
        ..raft::Config::default()
    }
}
