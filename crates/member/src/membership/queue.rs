//! Requests about members on their way to agreement.
//!
//! A request waits in the queue until this member leads; then it is checked and proposed, one at a time. On a follower
//! it is sent to the leader, once: a request whose fate is unknown is never sent again. The leader refuses what it will
//! not propose, by name of the error; otherwise the follower learns the outcome when it applies the entry.
//!
//! ```text
//! follower: push(7) -> sent to the leader -> refused: unhealthy cluster      answered
//! follower: push(8) -> sent to the leader -> refused: not leader             back in the queue, for the next leader
//! follower: push(9) -> sent to the leader -> entry 40 names (this run, 9)    answered when it is applied
//! ```

use std::collections::{BTreeMap, VecDeque};

use super::request::MembershipRequest;
use crate::proposals::batch::Origin;

/// Requests that wait here or with the leader. They are rare; a client that floods a member is refused.
pub const MAX_WAITING_CHANGES: usize = 64;

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitingChange {
    /// The process whose caller waits.
    pub(crate) origin: Origin,
    /// The caller's token there.
    pub(crate) sequence: u64,
    /// What is asked.
    pub(crate) request: MembershipRequest,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MembershipQueue {
    waiting: VecDeque<WaitingChange>,
    /// Sent to a leader, by token: the leader and the request.
    forwarded: BTreeMap<u64, (u64, WaitingChange)>,
    /// The peer that gave a request back, until the next tick: nothing is sent there meanwhile. It does not lead any
    /// more, or it has removed this member, which both are news that are on their way.
    returned_by: Option<u64>,
}

impl MembershipQueue {
    /// Adds a request. Returns false if too many wait.
    pub(crate) fn push(&mut self, change: WaitingChange) -> bool {
        let has_room = self.waiting.len() + self.forwarded.len() < MAX_WAITING_CHANGES;
        if has_room {
            self.waiting.push_back(change);
        }
        has_room
    }

    /// The request that the leader proposes next.
    pub(crate) fn first(&self) -> Option<&WaitingChange> {
        self.waiting.front()
    }

    /// Takes that request.
    pub(crate) fn take_first(&mut self) -> Option<WaitingChange> {
        self.waiting.pop_front()
    }

    /// Takes all requests, which are sent to this leader; none if it has just given some back.
    pub(crate) fn forward_all(&mut self, leader: u64) -> Vec<WaitingChange> {
        if self.returned_by == Some(leader) {
            return Vec::new();
        }
        let all: Vec<WaitingChange> = self.waiting.drain(..).collect();
        let sent = all.iter().map(|change| (change.sequence, (leader, change.clone())));
        self.forwarded.extend(sent);
        all
    }

    /// Puts back a request that this peer has certainly not proposed. Returns false if too many wait.
    pub(crate) fn give_back(&mut self, by: u64, change: WaitingChange) -> bool {
        self.returned_by = Some(by);
        self.push(change)
    }

    /// A tick passed: what a peer gave back may be sent to it again.
    pub(crate) fn tick(&mut self) {
        self.returned_by = None;
    }

    /// Takes the request of this token that a peer refused, if it was sent there.
    pub(crate) fn take_refused(&mut self, by: u64, sequence: u64) -> Option<WaitingChange> {
        self.forwarded.get(&sequence).filter(|(leader, _)| *leader == by)?;
        self.forwarded.remove(&sequence).map(|(_, change)| change)
    }

    /// The caller of this process has its answer, or waits no longer.
    pub(crate) fn forget(&mut self, own: Origin, sequence: u64) {
        self.forwarded.remove(&sequence);
        self.waiting.retain(|change| change.origin != own || change.sequence != sequence);
    }

    /// Takes the requests of other processes: this member does not lead any more.
    pub(crate) fn take_foreign(&mut self, own: Origin) -> Vec<WaitingChange> {
        let (foreign, kept): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|change| change.origin != own);
        self.waiting = kept.into();
        foreign
    }
}
