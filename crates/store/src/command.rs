//! What the log can tell the store to do, and what the store answers.
//!
//! A [`Reply`] holds references, not values: it is made under the write lock, and whoever has the client's
//! connection turns it into a response with [`resolve`](crate::resolve()) later, without any lock.

use api::Error;
use api::etcdserverpb as pb;
use api::membershippb;
use bytes::Bytes;

use crate::range::RangeReply;
use crate::types::{Event, KvRef};

/// Where a batch of commands stands in the log.
#[derive(Clone, Copy, Debug)]
pub struct BatchContext<'a> {
    /// Index of the entry.
    pub index: u64,
    /// Term of the entry.
    pub term: u64,
    /// The wall clock of the leader that proposed it, milliseconds since 1970.
    pub clock_ms: u64,
    /// The entry's payload. Values in the commands are slices of it.
    pub payload: &'a Bytes,
    /// The place of the payload's first byte.
    pub payload_address: u64,
    /// For each command, whether this member answers the client; what is missing counts as no. Ranges in
    /// transactions that nobody here waits for are not carried out. It changes replies only, never the state.
    pub answered: &'a [bool],
}

/// One command of a batch. Requests have passed `api::validate` before they were proposed; whatever gets here
/// all the same has a defined outcome.
#[derive(Clone, Debug)]
pub enum Command {
    /// Write one key.
    Put(pb::PutRequest),
    /// Delete a range of keys.
    DeleteRange(pb::DeleteRangeRequest),
    /// Compare, then do one list of operations or the other.
    Txn(pb::TxnRequest),
    /// Give up history below a revision.
    Compaction(pb::CompactionRequest),
    /// Grant a lease. The proposer has filled in the id and raised the TTL to its minimum.
    LeaseGrant(pb::LeaseGrantRequest),
    /// End a lease and delete its keys.
    LeaseRevoke {
        /// The client's request, or one made for an expired lease.
        request: pb::LeaseRevokeRequest,
        /// For an expiry: the term of the leader that saw it. In an entry of another term it does nothing,
        /// since another leader has granted the full time again.
        expiry_term: Option<u64>,
    },
    /// Record what time leases have left, or (0) that they have all of it again.
    LeaseCheckpoint(pb::LeaseCheckpointRequest),
    /// List, raise or disarm alarms.
    Alarm(pb::AlarmRequest),
    /// Set the version the whole cluster speaks.
    ClusterVersionSet(membershippb::ClusterVersionSetRequest),
    /// A member tells its name and client URLs, and which data directory it speaks from.
    Publish {
        /// Who speaks.
        id: u64,
        /// The random number of its data directory. The first one published is bound to the id.
        incarnation: u64,
        /// Its name.
        name: String,
        /// Where clients reach it.
        client_urls: Vec<String>,
    },
    /// A command this version does not know. It is refused, and nothing changes.
    Unknown,
}

/// What came of one command.
pub type Outcome = Result<Reply, Error>;

/// The answer to a command that was carried out. Revisions are those of the response's header.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To a put.
    Put(PutReply),
    /// To a deletion.
    DeleteRange(DeleteReply),
    /// To a transaction.
    Txn(TxnReply),
    /// To a compaction. For a `physical` one the answer waits until
    /// [`Store::purge_step`](crate::Store::purge_step) has reached the revision.
    Compaction {
        /// Current revision.
        revision: i64,
        /// The revision history was cut at.
        compacted: i64,
        /// Whether the client waits for the purge.
        physical: bool,
    },
    /// To a grant.
    LeaseGrant {
        /// The lease.
        id: i64,
        /// Granted TTL, seconds.
        ttl: i64,
        /// Current revision.
        revision: i64,
    },
    /// To a revocation; also to an expiry of another term, which did nothing.
    LeaseRevoke {
        /// Revision after the lease's keys were deleted.
        revision: i64,
    },
    /// To a checkpoint of leases.
    LeaseCheckpoint {
        /// Current revision.
        revision: i64,
    },
    /// To an alarm request.
    Alarm {
        /// Current revision.
        revision: i64,
        /// The alarms listed, raised or disarmed.
        alarms: Vec<pb::AlarmMember>,
    },
    /// To a command nobody waits for.
    Done,
}

/// The answer to a put.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PutReply {
    /// The revision of the write.
    pub revision: i64,
    /// What was there before, when asked for.
    pub previous: Option<KvRef>,
}

/// The answer to a deletion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteReply {
    /// The revision of the delete, or the one before it when there was nothing to delete.
    pub revision: i64,
    /// How many keys were deleted.
    pub deleted: i64,
    /// What was there before, when asked for.
    pub previous: Vec<KvRef>,
}

/// The answer to a transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnReply {
    /// The revision after it; 0 in a nested transaction, as etcd has it.
    pub revision: i64,
    /// Which branch was taken.
    pub succeeded: bool,
    /// One for each operation of the branch.
    pub replies: Vec<OpReply>,
}

/// The answer to one operation of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum OpReply {
    /// To a range; without keys and count where [`BatchContext::answered`] says no.
    Range(RangeReply),
    /// To a put.
    Put(PutReply),
    /// To a deletion.
    DeleteRange(DeleteReply),
    /// To a nested transaction.
    Txn(TxnReply),
    /// To an operation that named none of these.
    Nothing,
}

/// What happened to a lease, for whoever keeps its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// It was granted with this TTL, seconds.
    Granted {
        /// The lease.
        id: i64,
        /// Seconds.
        ttl: i64,
    },
    /// It ended.
    Revoked {
        /// The lease.
        id: i64,
    },
    /// Its remaining time was recorded; 0 says that it has its full TTL again.
    Checkpointed {
        /// The lease.
        id: i64,
        /// Seconds.
        remaining: i64,
    },
    /// Its expiry came too late, in another term: the lease stays.
    ExpiryIgnored {
        /// The lease.
        id: i64,
    },
}

/// What came of a batch.
#[derive(Debug, Default)]
pub struct Applied {
    /// One for each command, in order.
    pub outcomes: Vec<Outcome>,
    /// All changes of keys, in revision order.
    pub events: Vec<Event>,
    /// Changes of leases, in order.
    pub leases: Vec<LeaseChange>,
    /// Whether the set of alarms changed.
    pub alarms_changed: bool,
    /// Whether the cluster version or a member's attributes changed.
    pub cluster_changed: bool,
    /// The revision after the batch.
    pub revision: i64,
}
