//! The consensus messages between members.
//!
//! [`Message`] is what `Ready::messages` holds and what `Consensus::step` takes; the codec turns it into bytes.
//! Messages of two classes travel on two ordered streams (docs/internals/transport.md), so that a heartbeat never
//! queues behind megabytes of entries. No message forwards a proposal or a read: followers do that in frames of their
//! owner.

use crate::entry::Entry;
use crate::membership::ConfState;

/// One message from one member to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The member that sends it.
    pub from: u64,
    /// The member it is sent to.
    pub to: u64,
    /// The sender's term; for a pre-vote and its grant, the term it would campaign in.
    pub term: u64,
    /// Its kind and fields.
    pub body: Body,
}

/// Kind and fields of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// From the leader: the entries that follow (`previous_index`, `previous_term`) in its log.
    Append {
        /// Index of the entry before the first of `entries`.
        previous_index: u64,
        /// Term of that entry; 0 only at index 0.
        previous_term: u64,
        /// The leader's commit index.
        commit: u64,
        /// Consecutive from `previous_index + 1`; may be empty.
        entries: Vec<Entry>,
    },
    /// The sender has the leader's entries up to `index` on its disk.
    AppendAccepted {
        /// The last index that matches.
        index: u64,
        /// The sender's commit index.
        commit: u64,
    },
    /// The entry before the append does not match the sender's log; the leader tries again after `hint_index`.
    AppendRejected {
        /// `previous_index` of the rejected append.
        index: u64,
        /// The last index at which the two logs may match.
        hint_index: u64,
        /// The sender's term there.
        hint_term: u64,
        /// The sender's commit index.
        commit: u64,
    },
    /// A (pre-)candidate asks for a vote.
    Vote {
        /// A pre-vote: whether the vote would be granted. Changes no state of the receiver.
        pre: bool,
        /// The leader asked for this election (a transfer): followers grant it although they hear of a leader.
        transfer: bool,
        /// The last index of the candidate's log.
        last_index: u64,
        /// The term of that entry.
        last_term: u64,
        /// The candidate's commit index.
        commit: u64,
        /// The term of the entry there.
        commit_term: u64,
    },
    /// The response to a vote request of the same `pre`.
    VoteResponse {
        /// Whether it responds to a pre-vote.
        pre: bool,
        /// Whether the vote is granted.
        granted: bool,
        /// With a rejection, the sender's commit index; else 0.
        commit: u64,
        /// With a rejection, the term of the entry there; else 0.
        commit_term: u64,
    },
    /// From the leader: it still leads.
    Heartbeat {
        /// The leader's commit index, but at most the last index known to match the receiver's log.
        commit: u64,
    },
    /// The response of a follower to a heartbeat.
    HeartbeatResponse {
        /// The sender's commit index.
        commit: u64,
    },
    /// From the leader to its transfer target: start an election now.
    TimeoutNow,
    /// The state at this index replaces the log up to it. It travels with the snapshot, not in a frame of its own, and
    /// the receiver steps it when the whole state has arrived.
    Snapshot(SnapshotMeta),
    /// From the leader: is this term still the receiver's term? Part of a ReadIndex round (`read_index`).
    LeadershipCheck {
        /// Unique within a term.
        round: u64,
    },
    /// The term of the leadership check is still the sender's term.
    LeadershipCheckResponse {
        /// The round of the leadership check.
        round: u64,
    },
}

/// A snapshot without its contents: the entry it ends at and the configuration there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The last entry the snapshot includes.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// The configuration after that entry.
    pub conf_state: ConfState,
}

/// Which of a peer's two ordered streams a message takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageClass {
    /// Small and urgent: heartbeats, votes, leadership checks, transfer.
    Control,
    /// Appends and their responses, snapshots.
    Bulk,
}

impl Message {
    /// The stream this message takes.
    pub fn class(&self) -> MessageClass {
        match self.body {
            Body::Append { .. }
            | Body::AppendAccepted { .. }
            | Body::AppendRejected { .. }
            | Body::Snapshot(_) => MessageClass::Bulk,
            _ => MessageClass::Control,
        }
    }
}

#[cfg(test)]
mod tests {
    //! What must not wait behind entries.
    use super::*;

    fn class(body: Body) -> MessageClass {
        Message { from: 1, to: 2, term: 1, body }.class()
    }

    #[test]
    fn what_keeps_a_leader_goes_ahead_of_entries() {
        let (last_index, last_term, commit, commit_term) = (1, 1, 1, 1);
        let urgent = [
            Body::Heartbeat { commit },
            Body::HeartbeatResponse { commit },
            Body::Vote { pre: true, transfer: false, last_index, last_term, commit, commit_term },
            Body::VoteResponse { pre: true, granted: false, commit, commit_term },
            Body::TimeoutNow,
            Body::LeadershipCheck { round: 1 },
            Body::LeadershipCheckResponse { round: 1 },
        ];
        for body in urgent {
            assert_eq!(class(body.clone()), MessageClass::Control, "{body:?}");
        }
        // These keep their order among themselves, in a stream of their own.
        let others = [
            Body::Append { previous_index: 0, previous_term: 0, commit: 0, entries: Vec::new() },
            Body::AppendAccepted { index: 1, commit },
            Body::AppendRejected { index: 1, hint_index: 0, hint_term: 0, commit },
            Body::Snapshot(SnapshotMeta { index: 1, term: 1, conf_state: ConfState::default() }),
        ];
        for body in others {
            assert_eq!(class(body.clone()), MessageClass::Bulk, "{body:?}");
        }
    }
}
