//! Errors of starting a node, of proposals and reads, and of messages.

use crate::entry::MAX_ENTRY_BYTES;

/// The node cannot start from what it was given: the files disagree with each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A setting that cannot work.
    #[error("consensus setting: {0}")]
    Config(&'static str),
    /// A stored configuration that cannot be in force.
    #[error("stored configuration: {0}")]
    ConfState(&'static str),
    /// Log, hard state and checkpoint do not fit together.
    #[error("stored log: {0}")]
    Log(&'static str),
}

/// A proposal (or a read) was not taken. Nothing of it will ever be in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Ask the leader; 0 if none is known.
    #[error("not the leader (the leader is {leader:x})")]
    NotLeader {
        /// The leader, 0 if none is known.
        leader: u64,
    },
    /// The leadership is being transferred: wait for the next leader.
    #[error("leadership is being transferred to {to:x}")]
    Transferring {
        /// The transfer target.
        to: u64,
    },
    /// Too much is proposed and not committed, or too many reads wait.
    #[error("too many proposals or reads in flight")]
    Overloaded,
    /// A batch is never empty.
    #[error("empty payload")]
    Empty,
    /// More than [`crate::MAX_ENTRY_BYTES`].
    #[error("payload of {bytes} bytes, at most {} are allowed", MAX_ENTRY_BYTES)]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Only a voter can be a transfer target.
    #[error("{id:x} is not a voter")]
    NotAVoter {
        /// The member named.
        id: u64,
    },
    /// Another conf change is proposed and not applied yet.
    #[error("another conf change is not applied yet")]
    ConfChangePending,
    /// The change does not fit the configuration in force.
    #[error("conf change: {0}")]
    ConfChange(String),
}

/// A message that no sound member of this cluster sends. It was not stepped: count it and disconnect the sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Its `from` or `to` is not what the connection says.
    #[error("message from {from:x} to {to:x}, not between the connected members")]
    Misaddressed {
        /// Its sender.
        from: u64,
        /// Its receiver.
        to: u64,
    },
    /// A term of 0 or beyond [`crate::MAX_TERM`].
    #[error("term {term} is out of range")]
    Term {
        /// The term.
        term: u64,
    },
    /// Two leaders in one term.
    #[error("{from:x} leads term {term}, which {leader:x} leads")]
    TwoLeaders {
        /// The sender, which claims it.
        from: u64,
        /// The leader we know.
        leader: u64,
        /// The term.
        term: u64,
    },
    /// Its entries or indexes are impossible.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// It contradicts a committed entry: one of the two logs is damaged.
    #[error("contradicts the committed entry {index}")]
    Conflict {
        /// The entry.
        index: u64,
    },
    /// It refers to an entry beyond the end of our log.
    #[error("refers to index {index} beyond the end of the log ({last})")]
    BeyondLog {
        /// The index.
        index: u64,
        /// Our last one.
        last: u64,
    },
    /// A vote that this node has not asked for.
    #[error("a vote that was not asked for")]
    VoteNotAsked,
}
