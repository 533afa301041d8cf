//! Clients: each asks, waits, gives up when it has waited long enough, and asks again, perhaps elsewhere. A
//! request whose
//! answer did not come is of unknown outcome for ever and is never repeated.

mod draw;
mod read;
mod serve;
mod watch;

use api::etcdserverpb as pb;
use bytes::Bytes;
use member::batch::Kind;
use prost::Message;

pub(crate) use draw::WEIGHTS;
pub(crate) use watch::Watcher;

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Write a key.
    Put(pb::PutRequest),
    /// Delete keys.
    Delete(pb::DeleteRangeRequest),
    /// Compare and do.
    Txn(pb::TxnRequest),
    /// Give up history.
    Compact(pb::CompactionRequest),
    /// Grant a lease.
    Grant(pb::LeaseGrantRequest),
    /// End a lease.
    Revoke(pb::LeaseRevokeRequest),
    /// Disarm an alarm.
    Disarm(pb::AlarmRequest),
    /// A linearizable range.
    Read(pb::RangeRequest),
    /// A serializable range.
    Local(pb::RangeRequest),
    /// Renew a lease, or look at it.
    KeepAlive { lease: i64, renew: bool },
}

impl Op {
    /// The command it is proposed as, if it is one.
    pub(crate) fn command(&self) -> Option<(Kind, Bytes)> {
        let (kind, body) = match self {
            Op::Put(request) => (Kind::Put, request.encode_to_vec()),
            Op::Delete(request) => (Kind::DeleteRange, request.encode_to_vec()),
            Op::Txn(request) => (Kind::Txn, request.encode_to_vec()),
            Op::Compact(request) => (Kind::Compaction, request.encode_to_vec()),
            Op::Grant(request) => (Kind::LeaseGrant, request.encode_to_vec()),
            Op::Revoke(request) => (Kind::LeaseRevoke, request.encode_to_vec()),
            Op::Disarm(request) => (Kind::Alarm, request.encode_to_vec()),
            Op::Read(_) | Op::Local(_) | Op::KeepAlive { .. } => return None,
        };
        Some((kind, body.into()))
    }
}

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Its number, unique in the run.
    pub(crate) number: u64,
    /// Who asked.
    pub(crate) client: usize,
    /// What.
    pub(crate) op: Op,
    /// When.
    pub(crate) at_ns: u64,
    /// The newest revision that anybody had been told of by then.
    pub(crate) after: i64,
}

/// The number of the client whose requests nobody waits for: the judge's and the operator's.
pub(crate) const NOBODY: usize = usize::MAX;

/// A client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// The request it waits for.
    pub(crate) waits_for: Option<u64>,
    /// The member it likes to ask.
    pub(crate) member: usize,
}
