//! Requests of clients, and requests under way at a member.
//!
//! A request whose answer does not come has an unknown outcome forever. It is never repeated.

use api::etcdserverpb as pb;
use bytes::Bytes;
use member::batch::CommandKind;
use prost::Message;
use store::{AuthCommand, Caller, ReadTxn, TokenHash};

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum ClientRequest {
    /// Write a key.
    Put(pb::PutRequest),
    /// Delete keys.
    Delete(pb::DeleteRangeRequest),
    /// A transaction.
    Txn(pb::TxnRequest),
    /// Compact history.
    Compact(pb::CompactionRequest),
    /// Grant a lease.
    Grant(pb::LeaseGrantRequest),
    /// Revoke a lease.
    Revoke(pb::LeaseRevokeRequest),
    /// Change users and roles.
    Auth(Box<AuthCommand>),
    /// Disarm an alarm.
    Disarm(pb::AlarmRequest),
    /// A linearizable range.
    Read(pb::RangeRequest),
    /// A serializable range.
    SerializableRead(pb::RangeRequest),
    /// A transaction that only reads, answered by the member that receives it.
    ReadTxn(pb::TxnRequest),
    /// A linearizable range in several responses.
    Stream(pb::RangeRequest),
    /// Renew a lease, or look at it.
    KeepAlive { lease: i64, renew: bool },
    /// The hash of all versions up to a revision, as the member that receives it has them; 0 for the newest.
    HashKv { revision: i64 },
    /// List all leases, as the member that receives it knows them.
    ListLeases,
}

impl ClientRequest {
    /// The command it is proposed as, if it is one.
    pub(crate) fn command(&self) -> Option<(CommandKind, Bytes)> {
        let (kind, body) = match self {
            ClientRequest::Put(request) => (CommandKind::Put, request.encode_to_vec()),
            ClientRequest::Delete(request) => (CommandKind::DeleteRange, request.encode_to_vec()),
            ClientRequest::Txn(request) => (CommandKind::Txn, request.encode_to_vec()),
            ClientRequest::Compact(request) => (CommandKind::Compaction, request.encode_to_vec()),
            ClientRequest::Grant(request) => (CommandKind::LeaseGrant, request.encode_to_vec()),
            ClientRequest::Revoke(request) => (CommandKind::LeaseRevoke, request.encode_to_vec()),
            ClientRequest::Disarm(request) => (CommandKind::Alarm, request.encode_to_vec()),
            ClientRequest::Auth(command) => return Some((CommandKind::Auth, member::encode_auth(command))),
            ClientRequest::Read(_)
            | ClientRequest::SerializableRead(_)
            | ClientRequest::ReadTxn(_)
            | ClientRequest::Stream(_)
            | ClientRequest::KeepAlive { .. }
            | ClientRequest::HashKv { .. }
            | ClientRequest::ListLeases => return None,
        };
        Some((kind, body.into()))
    }

    /// Whether its caller is looked up once the member has applied what was acknowledged before.
    pub(crate) fn is_linearizable_read(&self) -> bool {
        matches!(self, ClientRequest::Read(_) | ClientRequest::ReadTxn(_) | ClientRequest::Stream(_))
    }

    /// The same request as a server carries it out: a transaction that only reads is no command.
    pub(crate) fn into_served(self) -> ClientRequest {
        match self {
            ClientRequest::Txn(txn) if ReadTxn::of(&txn).is_some() => ClientRequest::ReadTxn(txn),
            other => other,
        }
    }
}

/// A command of a client: the member that proposed it, the run of its process, and the token.
pub(crate) type CommandId = (u64, u64, u64);

/// A token that a client was given for its password.
#[derive(Clone, Debug)]
pub(crate) struct ClientToken {
    /// Whose it is.
    pub(crate) user: String,
    /// Its hash.
    pub(crate) hash: TokenHash,
    /// The entry that assigned it.
    pub(crate) index: u64,
}

/// Whether a request waits until its member has applied the entry that assigned its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenWait {
    /// It has not waited.
    NotYet,
    /// It waits now.
    Now,
    /// It has waited.
    Over,
}

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct PendingRequest {
    /// Its number, unique in the run; the values it writes begin with it.
    pub(crate) number: u64,
    /// The client, or [`NO_CLIENT`].
    pub(crate) client: usize,
    /// The request.
    pub(crate) request: ClientRequest,
    /// When it was sent.
    pub(crate) at_ns: u64,
    /// The newest revision that any client knew when it was sent.
    pub(crate) after: i64,
    /// Who sent it.
    pub(crate) caller: Caller,
    /// The token that says so; without one it is a certificate.
    pub(crate) token: Option<ClientToken>,
    /// Whether it waits for the token's entry.
    pub(crate) token_wait: TokenWait,
    /// What it is in the log, if it is a command.
    pub(crate) id: CommandId,
    /// A read whose caller was checked, and which waits for the repair of a value.
    pub(crate) is_checked: bool,
}

/// In place of a client: requests of the simulator itself, whose answers wake no client.
pub(crate) const NO_CLIENT: usize = usize::MAX;
