//! The commands that the store applies, and its replies.
//!
//! A [`Reply`] holds references, not values. It is made under the write lock; the RPC worker turns it into a response
//! with [`resolve`](crate::resolve()) later, without any lock.

use api::Error;
use api::etcdserverpb as pb;
use api::membershippb;
use bytes::Bytes;

use crate::auth::{AuthCommand, Caller};
use crate::range::RangeReply;
use crate::range::encode::{ReplyKeyValues, items_len};
use crate::types::{Event, KvRef};
use crate::values::ValueRef;

/// The log entry of a batch.
#[derive(Clone, Debug)]
pub struct BatchContext {
    /// Index of the entry.
    pub index: u64,
    /// Term of the entry.
    pub term: u64,
    /// The wall clock of the leader that proposed it, in milliseconds since 1970.
    pub clock_ms: u64,
    /// The entry's payload. Values in the commands are slices of it.
    pub payload: Bytes,
    /// The log address of the payload's first byte.
    pub payload_address: u64,
    /// For each command, whether its caller waits in this process; missing items count as false. Ranges in a
    /// transaction are carried out only if so, and what a deletion deletes is collected only if so. Affects replies
    /// only, never the state.
    pub has_caller: Vec<bool>,
    /// For each command, who asks for it; missing items count as anonymous.
    pub callers: Vec<Caller>,
    /// Whether anyone watches: without watchers no events are made.
    pub is_watched: bool,
}

impl BatchContext {
    /// The context of an entry without values, without callers and watchers: what tests and benchmarks begin with.
    pub fn at(index: u64, term: u64) -> BatchContext {
        BatchContext {
            index,
            term,
            clock_ms: 0,
            payload: Bytes::new(),
            payload_address: 0,
            has_caller: Vec::new(),
            callers: Vec::new(),
            is_watched: false,
        }
    }
}

/// One command of a batch. Requests have passed `api::validate` before they were proposed; any other request has a
/// defined outcome too.
#[derive(Clone, Debug)]
pub enum Command {
    /// Write one key.
    Put(pb::PutRequest),
    /// Delete a range of keys.
    DeleteRange(pb::DeleteRangeRequest),
    /// Compare, then carry out one branch of operations or the other.
    Txn(pb::TxnRequest),
    /// Make history below a revision unavailable.
    Compaction(pb::CompactionRequest),
    /// Grant a lease. The proposer has filled in the id and raised the TTL to its minimum.
    LeaseGrant(pb::LeaseGrantRequest),
    /// End a lease and delete its keys.
    LeaseRevoke {
        /// The client's request, or one made for an expired lease.
        request: pb::LeaseRevokeRequest,
        /// For an expiry: the term of the leader that proposed it. In an entry of another term it has no effect, since
        /// the other leader has granted the full TTL again.
        expiry_term: Option<u64>,
    },
    /// Record the remaining seconds of leases; 0 means the full TTL.
    LeaseCheckpoint(pb::LeaseCheckpointRequest),
    /// List, raise or disarm alarms.
    Alarm(pb::AlarmRequest),
    /// Set the cluster version.
    ClusterVersionSet(membershippb::ClusterVersionSetRequest),
    /// Begin a downgrade, or end the one in progress.
    DowngradeInfoSet(membershippb::DowngradeInfoSetRequest),
    /// Publish a member's name and client URLs.
    Publish {
        /// The member.
        id: u64,
        /// The random number of its data directory. The first one published is kept for the id.
        incarnation: u64,
        /// Its name.
        name: String,
        /// URLs for clients.
        client_urls: Vec<String>,
    },
    /// Every member can apply this set of commands: it is recorded, unless a newer one is.
    CommandSet(u8),
    /// Change users and roles, or assign a token.
    Auth(AuthCommand),
    /// A command that this version does not know. It is refused.
    Unknown,
}

/// The outcome of one command.
pub type Outcome = Result<Reply, Error>;

/// The reply to a command that was carried out. Revisions are those for the response's header.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To a put.
    Put(PutReply),
    /// To a deletion.
    DeleteRange(DeleteReply),
    /// To a transaction.
    Txn(TxnReply),
    /// To a compaction. For a physical one the answer waits until
    /// [`Store::purge_step`](crate::Store::purge_step) has reached the revision.
    Compaction {
        /// Current revision.
        revision: i64,
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
    /// To a revocation; also to an expiry of another term, which had no effect.
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
        /// The alarms requested, raised or disarmed.
        alarms: Vec<pb::AlarmMember>,
    },
    /// To a change of users and roles, or the assignment of a token.
    Auth {
        /// Current revision.
        revision: i64,
        /// The entry of the command, which is part of a token.
        index: u64,
    },
    /// To a command without a response.
    Done,
}

impl Reply {
    /// Versions in the answer: each costs a read of its value to turn the reply into a response.
    pub fn versions(&self) -> usize {
        match self {
            Reply::Put(put) => put.previous.iter().len(),
            Reply::DeleteRange(delete) => delete.previous.len(),
            Reply::Txn(txn) => txn.versions(),
            _ => 0,
        }
    }
}

/// The answer to a put.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PutReply {
    /// The revision of the write.
    pub revision: i64,
    /// The previous version, if requested.
    pub previous: Option<KvRef>,
}

/// The answer to a deletion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteReply {
    /// The revision of the deletion; the newest revision if no key was deleted.
    pub revision: i64,
    /// How many keys were deleted.
    pub deleted: i64,
    /// The deleted versions, if requested; none if [`BatchContext::has_caller`] is false.
    pub previous: Vec<KvRef>,
}

impl DeleteReply {
    /// Bytes of the deleted versions in the encoded response, exactly.
    pub fn encoded_bytes(&self) -> usize {
        items_len(&ReplyKeyValues { kvs: &self.previous, keys_only: false })
    }
}

/// The answer to a transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnReply {
    /// The revision after it; 0 in a nested transaction, as in etcd.
    pub revision: i64,
    /// Which branch was taken.
    pub succeeded: bool,
    /// One for each operation of the branch.
    pub replies: Vec<OpReply>,
    /// Whether the answer became larger than a transaction's may be, so that ranges are missing in `replies`. What the
    /// transaction wrote is written. False in a nested transaction.
    pub is_too_large: bool,
}

/// Bytes of keys and values in the answer to a transaction, past which it is not sent. An answer is in memory as a
/// whole, twice while it is encoded.
pub const MAX_TXN_ANSWER_BYTES: u64 = 256 << 20;

impl TxnReply {
    /// Versions in the answer, and operations, which are a message each.
    fn versions(&self) -> usize {
        let of_op = |reply: &OpReply| match reply {
            OpReply::Range(range) => range.kvs.len(),
            OpReply::Put(put) => put.previous.iter().len(),
            OpReply::DeleteRange(delete) => delete.previous.len(),
            OpReply::Txn(txn) => txn.versions(),
            OpReply::Nothing => 0,
        };
        self.replies.iter().map(|reply| 1 + of_op(reply)).sum()
    }

    /// Whether a range must still be [sorted](Self::sort_by_number) by a number.
    pub fn is_unsorted(&self) -> bool {
        self.replies.iter().any(|reply| match reply {
            OpReply::Range(range) => range.order.is_some() && !range.is_sorted_by_value(),
            OpReply::Txn(txn) => txn.is_unsorted(),
            OpReply::Put(_) | OpReply::DeleteRange(_) | OpReply::Nothing => false,
        })
    }

    /// Sorts the keys of ranges that are sorted by a number, and cuts them at the limit.
    pub fn sort_by_number(&mut self) {
        for reply in &mut self.replies {
            match reply {
                OpReply::Range(range) => range.sort_by_number(),
                OpReply::Txn(txn) => txn.sort_by_number(),
                OpReply::Put(_) | OpReply::DeleteRange(_) | OpReply::Nothing => {}
            }
        }
    }

    /// Bytes of the keys and values in the answer, about. Ranges are [sorted](Self::sort_by_number) before, and so cut.
    pub fn answer_bytes(&self) -> u64 {
        let of_kv = |kv: &KvRef| (size_of::<KvRef>() + kv.key.len()) as u64 + u64::from(kv.value.len);
        let of_op = |reply: &OpReply| match reply {
            // To sort by value, all values are read.
            OpReply::Range(range) if range.keys_only && !range.is_sorted_by_value() => {
                range.kvs.iter().map(|kv| (size_of::<KvRef>() + kv.key.len()) as u64).sum()
            }
            OpReply::Range(range) => range.kvs.iter().map(of_kv).sum(),
            OpReply::Put(put) => put.previous.iter().map(of_kv).sum(),
            OpReply::DeleteRange(delete) => delete.previous.iter().map(of_kv).sum(),
            OpReply::Txn(txn) => txn.answer_bytes(),
            OpReply::Nothing => 0u64,
        };
        self.replies.iter().map(of_op).sum()
    }
}

/// The answer to one operation of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum OpReply {
    /// To a range; without keys and count if [`BatchContext::has_caller`] is false.
    Range(RangeReply),
    /// To a put.
    Put(PutReply),
    /// To a deletion.
    DeleteRange(DeleteReply),
    /// To a nested transaction.
    Txn(TxnReply),
    /// To an operation without a request.
    Nothing,
}

/// A change of a lease, for the lease clock.
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
    /// Its expiry was proposed in another term and had no effect.
    ExpiryIgnored {
        /// The lease.
        id: i64,
    },
}

/// What a slice of a batch came to.
#[derive(Debug)]
pub enum Slice {
    /// More slices follow.
    Partial {
        /// The changes of keys in this slice; their revisions rise strictly. Those above `revision` belong to a command
        /// in progress.
        events: Vec<Event>,
        /// The newest revision that readers see.
        revision: i64,
    },
    /// The next command compares these values, which are not in memory, and has not begun. Read them,
    /// [supply](crate::Store::supply_values) the batch with them, and go on. If one is damaged, have it repaired and go
    /// on: the batch asks again.
    NeedsValues(Vec<ValueRef>),
    /// The batch is applied.
    Last(Applied),
}

/// The results of a batch.
#[derive(Debug, Default)]
pub struct Applied {
    /// One for each command, in order.
    pub outcomes: Vec<Outcome>,
    /// The changes of keys in the last slice, in [`Store::apply_batch`](crate::Store::apply_batch) those of all slices;
    /// their revisions rise strictly. Empty without watchers.
    pub events: Vec<Event>,
    /// Changes of leases, in order.
    pub leases: Vec<LeaseChange>,
    /// Whether the set of alarms changed.
    pub alarms_changed: bool,
    /// Whether the cluster version or a member's attributes changed.
    pub cluster_changed: bool,
    /// Whether auth was enabled or disabled, or users or roles changed.
    pub auth_changed: bool,
    /// The revision after the batch.
    pub revision: i64,
}
