//! Inputs and outputs of a member.
//!
//! Inputs are facts: a request arrived, a frame was received, a job is done. Outputs are effects to carry out: write
//! this, send that, answer this caller. The member carries out nothing itself, so a simulator can deliver inputs in any
//! order a real machine could, and a test can read what would have happened.

use std::sync::Arc;

use bytes::Bytes;
use consensus::MessageClass;

use crate::membership::applied::Membership;
use crate::membership::request::MembershipRequest;
use crate::peer_message::{LeaseAnswer, PeerMessage};
use crate::proposals::batch::CommandKind;
use crate::repair::scrub::job::ScrubTotals;
use crate::snapshot::{Outgoing, Receiver, SendError, SentSnapshot};
use crate::status::step_counts::StepCounts;

/// The two clocks, read by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds of a clock that never goes back; decides every timeout.
    pub monotonic_ns: u64,
    /// Milliseconds since 1970; only written down, never decided by.
    pub wall_ms: u64,
}

/// A request or an event.
#[derive(Debug)]
pub enum Input {
    /// A command to replicate. Its token is unique within this run of the process.
    Propose(Proposal),
    /// A linearizable read: answered with [`Answer::ReadNow`] once the local state is fresh enough.
    Read {
        /// Answered under this.
        token: u64,
    },
    /// Renew a lease, or ask for its remaining time.
    Lease {
        /// Answered under this.
        token: u64,
        /// Lease id.
        lease: i64,
        /// Renew, or only look.
        renew: bool,
    },
    /// Add, remove, update or promote a member: answered with [`Answer::MembersChanged`].
    ChangeMembers {
        /// Answered under this; unique as that of a command.
        token: u64,
        /// What is asked, within its limits.
        request: MembershipRequest,
    },
    /// Transfer leadership to the best voter, if this member leads and there is one that it hears of; answered as
    /// [`Input::MoveLeader`].
    GiveUpLeadership {
        /// Answered under this.
        token: u64,
    },
    /// Transfer leadership to a member.
    MoveLeader {
        /// Answered under this.
        token: u64,
        /// The transfer target.
        to: u64,
    },
    /// A reader found a value damaged.
    Repair {
        /// Answered under this.
        token: u64,
        /// The address of the value.
        address: u64,
        /// A key whose version refers to it, if the reader knew it.
        key: Option<Bytes>,
    },
    /// Read applied entries for a backup: answered with [`Answer::Entries`] or [`Answer::EntriesGone`].
    ReadEntries(WantedEntries),
    /// Give space back eagerly (the API's defragment).
    Defragment,
    /// Refuse, from now on, what makes the store grow beyond another quota.
    SetQuota {
        /// Bytes of live data; 0 for none.
        bytes: u64,
    },
    /// Refuse, from now on, what makes the store grow beyond another memory limit.
    SetMemoryLimit {
        /// Accounted bytes; 0 for none.
        bytes: u64,
    },
    /// A frame from a peer.
    Frame {
        /// The peer.
        from: u64,
        /// Its bytes.
        bytes: Bytes,
    },
    /// The newest command set that a peer can apply, as its last handshake said.
    PeerAnnounced {
        /// The peer.
        peer: u64,
        /// The command set.
        command_set: u8,
    },
    /// Both streams to a peer are up.
    PeerUp(u64),
    /// A stream to a peer broke.
    PeerDown(u64),
    /// Both streams to a peer broke, and its machine answered that nothing listens at the peer's addresses: its process
    /// has ended, as far as can be seen from here. Nothing that is safe only if this is true may follow from it.
    PeerNotListening(u64),
    /// A write job of the log thread is done.
    WritesSynced(log::WriteDone),
    /// A background job is done.
    Background(Box<crate::jobs::Done>),
    /// A peer opens a snapshot stream: answered with [`Answer::SnapshotFrom`] or [`Answer::SnapshotRefused`].
    SnapshotOffered {
        /// Answered under this.
        token: u64,
        /// The peer.
        from: u64,
        /// What it opened the stream with.
        header: Bytes,
    },
    /// A snapshot stream broke; it may be opened again to go on.
    SnapshotBroken(Box<Receiver>),
    /// A snapshot stream has ended well: answered with [`Answer::SnapshotTaken`] or [`Answer::SnapshotRefused`].
    SnapshotWhole {
        /// Answered under this.
        token: u64,
        /// What was received.
        receiver: Box<Receiver>,
    },
    /// A snapshot was sent, or could not be.
    SnapshotSent {
        /// Names it.
        sent: SentSnapshot,
        /// How it ended.
        result: Result<(), SendError>,
    },
    /// Write a last checkpoint and stop; [`Output::stopped`] follows.
    Stop,
}

impl Input {
    /// The token of a request that another member could serve as well.
    pub(crate) fn request_token(&self) -> Option<u64> {
        match self {
            Input::Propose(Proposal { token, .. })
            | Input::Read { token }
            | Input::Lease { token, .. }
            | Input::ChangeMembers { token, .. }
            | Input::MoveLeader { token, .. } => Some(*token),
            _ => None,
        }
    }
}

/// A command of this member's clients.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// Answered under this; also the command's sequence number in the log.
    pub token: u64,
    /// What is asked.
    pub kind: CommandKind,
    /// Who asks.
    pub caller: store::Caller,
    /// The request's protobuf bytes.
    pub body: Bytes,
}

/// Entries that a backup wants.
#[derive(Clone, Copy, Debug)]
pub struct WantedEntries {
    /// Answered under this.
    pub token: u64,
    /// The first; what is before it is not kept for the backup any more.
    pub from: u64,
    /// The one behind the last.
    pub to: u64,
    /// Bytes of payload at most, besides one entry of any size.
    pub max_bytes: u64,
}

/// The answer to a caller.
#[derive(Debug)]
pub enum Answer {
    /// The command was applied, with this outcome.
    Applied(store::Outcome),
    /// The local state contains everything acknowledged before the read arrived.
    ReadNow,
    /// The leader's answer about a lease.
    Lease(LeaseAnswer),
    /// Leadership moved.
    LeaderMoved,
    /// The request about a member has its effect: all members after it, by id.
    MembersChanged(Vec<store::ClusterMember>),
    /// Reads the entries that were wanted, as far as they are applied, from the disk; `None` if none of them is.
    Entries(Option<Box<log::ReadJob>>),
    /// The first of the entries that were wanted has left the log.
    EntriesGone,
    /// The value is repaired, or its reference has changed: read again.
    Repaired,
    /// Receives what the peer sends.
    SnapshotFrom(Box<Receiver>),
    /// The whole snapshot was received; consensus decides whether it is installed.
    SnapshotTaken,
    /// The snapshot is not wanted or not valid; for its sender.
    SnapshotRefused(String),
    /// The request failed, or its outcome is unknown. With [`api::Error::NotTaken`] it certainly has no effect: this
    /// member stops or was removed, and the client should ask another one.
    Failed(api::Error),
}

/// An event for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Role, term or leader changed.
    Leadership {
        /// The term.
        term: u64,
        /// The leader, 0 for none.
        leader: u64,
        /// Whether this member leads.
        leading: bool,
    },
    /// A heartbeat tick came late by this many nanoseconds: the machine or its disk is overloaded.
    TickLate(u64),
    /// A frame could not be understood or was impossible; the peer is disconnected.
    BadFrame {
        /// The sender.
        from: u64,
        /// What was wrong.
        reason: String,
    },
    /// A checkpoint became durable.
    Checkpoint {
        /// Applied index it holds.
        index: u64,
    },
    /// A snapshot to or from a peer.
    Snapshot {
        /// The peer.
        peer: u64,
        /// What happened.
        event: SnapshotEvent,
    },
    /// The hash of a compaction is known, and kept for HashKV at its revision.
    HashStored(store::KeptHash),
    /// Damaged data was found.
    Damage {
        /// What is damaged and where.
        text: String,
    },
    /// Damaged data was repaired.
    Repaired {
        /// What, and from whom.
        text: String,
    },
    /// All entries and values were read again.
    Scrubbed(ScrubTotals),
    /// All live values have left a file; it is removed after the next checkpoint.
    Relocated {
        /// Its number.
        file: u32,
    },
    /// Something failed and will be retried.
    Failure {
        /// What failed, and why.
        text: String,
    },
    /// The disk has no room any more for what makes the store grow, or has some again.
    Space {
        /// Whether such commands are refused.
        is_low: bool,
    },
    /// What is accounted as memory reached its limit, or fell well below it again.
    MemoryLimit {
        /// Whether commands that grow the store are refused from now on.
        exceeded: bool,
        /// Accounted now.
        accounted_bytes: u64,
        /// The limit.
        limit_bytes: u64,
        /// The part that takes most; see [`crate::MemoryUse::parts`].
        largest: &'static str,
    },
    /// A request about a member has taken effect, or was applied without one.
    MembershipRequest {
        /// The request.
        request: MembershipRequest,
        /// Why it had no effect.
        outcome: Result<(), api::Error>,
    },
    /// State hashes of two members differ at one index.
    Diverged {
        /// The peer.
        peer: u64,
        /// Applied index.
        index: u64,
    },
}

/// What became of a snapshot. Each names the last entry that it includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotEvent {
    /// It is being sent to the peer.
    Sending {
        /// Last entry.
        index: u64,
    },
    /// The peer has it.
    Sent {
        /// Last entry.
        index: u64,
    },
    /// It could not be sent; if the peer still needs one, it gets another.
    NotSent {
        /// Last entry.
        index: u64,
        /// Why.
        reason: String,
    },
    /// It is being received from the peer.
    Receiving {
        /// Last entry.
        index: u64,
    },
    /// It is this member's state now.
    Installed {
        /// Last entry.
        index: u64,
    },
}

/// Effects for the owner to carry out, in order within each list.
///
/// Everything in one `Output` may be carried out at once: the ordering rule (persist, then send, then reply) is kept by
/// consensus, which releases a message or a committed entry only after the writes it depends on were reported durable
/// (`crates/consensus/src/replication/unsynced_writes.rs`).
#[derive(Default)]
pub struct Output {
    /// For the log thread, in order.
    pub writes: Vec<log::WriteJob>,
    /// For the threads of their lanes.
    pub background: Vec<crate::jobs::Job>,
    /// For peers: id, stream, and the buffers of the frame in order.
    pub frames: Vec<(u64, MessageClass, Vec<Bytes>)>,
    /// Snapshots to send to their peers, each by a thread of its own that reports [`Input::SnapshotSent`].
    pub snapshots: Vec<Box<Outgoing>>,
    /// For callers, by token.
    pub answers: Vec<(u64, Answer)>,
    /// For operators.
    pub notices: Vec<Notice>,
    /// Peers whose connections are to be closed because they sent an invalid frame.
    pub disconnect: Vec<u64>,
    /// Who belongs to the cluster from now on: given in the first step, and whenever it changes. What follows from it
    /// is to be carried out: connections to peers come and go.
    pub membership: Option<Arc<Membership>>,
    /// The member has stopped cleanly.
    pub stopped: bool,
    /// What the step has done, for metrics.
    pub counts: StepCounts,
}

impl Output {
    /// Adds a frame for a peer.
    pub(crate) fn send(&mut self, to: u64, message: &PeerMessage) {
        self.frames.push((to, message.class(), message.encode()));
    }

    /// A peer sent an invalid frame: reports it and closes its connections.
    pub(crate) fn reject_frame(&mut self, from: u64, reason: impl ToString) {
        self.notices.push(Notice::BadFrame { from, reason: reason.to_string() });
        self.disconnect.push(from);
    }
}

/// The member cannot go on; it recovers at the next start.
#[derive(Debug, thiserror::Error)]
pub enum MemberFatal {
    /// A write or sync into a log file failed.
    #[error("the log can no longer be trusted, stopping: {0}")]
    Log(#[from] log::Fatal),
    /// The system refuses a thread.
    #[error("cannot start a thread: {source}")]
    Threads {
        /// Its answer.
        source: std::io::Error,
    },
    /// A snapshot that consensus counts on cannot be installed.
    #[error("the snapshot cannot be installed, stopping: {source}")]
    Install {
        /// Why.
        source: log::JobError,
    },
    /// An entry that this member acknowledged is damaged, and cannot be fetched.
    #[error(
        "entry {index} of the log is damaged, and no other member has it; restore the data directory from a copy, \
             or remove this member and add it again with an empty one"
    )]
    LostEntry {
        /// Its index.
        index: u64,
    },
    /// The log was repaired, but what it holds cannot be replayed.
    #[error("the repaired log cannot be replayed: {reason}")]
    Start {
        /// Why.
        reason: String,
    },
    /// This member was removed from the cluster.
    #[error("the member has been permanently removed from the cluster")]
    Removed,
    /// A committed entry cannot be applied by this release.
    #[error("entry {index} cannot be applied: {reason}")]
    Entry {
        /// Its index.
        index: u64,
        /// Why, and what to do.
        reason: String,
    },
}
