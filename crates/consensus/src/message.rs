//! What members say to each other.
//!
//! A [`Message`] is what leaves this crate and what comes in; the codec turns it into bytes. Two classes travel on
//! two ordered streams (docs/internals/transport.md), so that megabytes never sit before a heartbeat.
//! There is no message that forwards a proposal or a read: followers do that in the owner's own frames.

use crate::{ConfState, Entry};

/// One message from one member to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub from: u64,
    /// To whom.
    pub to: u64,
    /// The sender's term; for a pre-vote and its grant, the term it would campaign in.
    pub term: u64,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The leader: here is what follows (`previous_index`, `previous_term`) in the log.
    Append {
        /// Index of the entry before the first of `entries`.
        previous_index: u64,
        /// Term of that entry; 0 only at index 0.
        previous_term: u64,
        /// What the leader knows committed.
        commit: u64,
        /// Consecutive from `previous_index + 1`; may be empty.
        entries: Vec<Entry>,
    },
    /// Everything up to `index` is the leader's and is on the sender's disk.
    AppendAccepted {
        /// The last index that matches.
        index: u64,
        /// What the sender knows committed.
        commit: u64,
    },
    /// The entry before the append does not match; try after `hint_index`.
    AppendRejected {
        /// `previous_index` of the refused append.
        index: u64,
        /// The best guess where the logs still agree.
        hint_index: u64,
        /// The sender's term there.
        hint_term: u64,
        /// What the sender knows committed.
        commit: u64,
    },
    /// A (pre-)candidate asks for a vote.
    Vote {
        /// Only asking whether it would be given.
        pre: bool,
        /// The leader asked for this election: followers do not insist on having a live leader.
        transfer: bool,
        /// The last index of the candidate's log.
        last_index: u64,
        /// The term of that entry.
        last_term: u64,
        /// What the candidate knows committed,
        commit: u64,
        /// and the term of that entry.
        commit_term: u64,
    },
    /// The answer to a vote request of the same `pre`.
    VoteResponse {
        /// Whether it answers a pre-vote.
        pre: bool,
        /// Whether the vote is given.
        granted: bool,
        /// With a refusal, what the sender knows committed,
        commit: u64,
        /// and the term of that entry.
        commit_term: u64,
    },
    /// The leader lives.
    Heartbeat {
        /// Committed, as far as the receiver's log is known to match.
        commit: u64,
    },
    /// So does the follower.
    HeartbeatResponse {
        /// What the sender knows committed.
        commit: u64,
    },
    /// The leader hands over: campaign now.
    TimeoutNow,
    /// The state at this point stands in for the log up to it. Stepped by the receiver when the whole state has
    /// arrived; it travels with the snapshot, not in a frame of its own.
    Snapshot(SnapshotMeta),
    /// The leader asks whether its term still stands (a confirm round, see `confirm`).
    LeadershipCheck {
        /// Never the same twice in a term.
        round: u64,
    },
    /// It does, as far as the sender knows.
    LeadershipCheckResponse {
        /// The round it answers.
        round: u64,
    },
}

/// What names a snapshot: the entry it stands for and the configuration there.
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
    /// Small and urgent: heartbeats, votes, confirms, transfer.
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

    /// Whether this message promises something about our disk, so that it may leave only when all that was to be
    /// written before it is synced (see `writes`): append responses say what we hold,
    /// vote requests and responses say whom we vote for.
    pub(crate) fn promises_disk(&self) -> bool {
        matches!(
            self.body,
            Body::AppendAccepted { .. }
                | Body::AppendRejected { .. }
                | Body::Vote { .. }
                | Body::VoteResponse { .. }
        )
    }
}
