//! From a committed entry to the store: decoding its batch, and replay at the start.
//!
//! What a command asks for may be refused, but every member refuses it alike: bytes that do not decode become a command
//! that the store refuses ([`store::Command::Unknown`]), never an error of one member alone.

use api::etcdserverpb as pb;
use bytes::Bytes;
use consensus::{ConfState, Entry, EntryKind};
use prost::Message;
use store::{AppliedId, BatchContext, Caller, Damaged, Store};

use super::batch::{BatchBeingApplied, DecodedCommand};
use crate::lease::Expiry;
use crate::maintenance::publication::Publish;
use crate::membership::applied;
use crate::membership::request::MembershipRequest;
use crate::proposals::auth_command::decode_auth;
use crate::proposals::batch::{self, Batch, BatchError, CommandKind, LogCommand};
use crate::proposals::caller::{caller, is_anonymous};

/// An entry that a start cannot replay.
#[derive(Debug)]
pub(crate) enum ReplayError {
    /// It compares a value that is damaged on this member. What was applied of its batch stays applied, and the store
    /// goes on with it once it is given the value; `None` if that is nothing.
    Damaged(Damaged, Option<BatchBeingApplied>),
    /// No member could apply it.
    Entry(String),
}

/// Applies an entry that was committed before this start: it has no callers and no watchers. A conf change that has an
/// effect advances `conf`, the configuration in force.
///
/// # Errors
/// Why it cannot be applied.
pub(crate) fn replay(
    store: &mut Store,
    conf: &mut ConfState,
    entry: &Entry,
    address: u64,
) -> Result<(), ReplayError> {
    match entry.kind {
        EntryKind::Empty => store.apply_empty(applied_id(entry)),
        EntryKind::ConfChange => {
            let decoded = applied::decode(entry).map_err(ReplayError::Entry)?;
            if applied::apply(store, entry, conf, &decoded).is_ok() {
                *conf = conf.after(&decoded.change).map_err(ReplayError::Entry)?;
            }
        }
        EntryKind::Batch => {
            let batch = decode_batch(entry).map_err(|error| ReplayError::Entry(error.to_string()))?;
            let (decoded, store_commands) = decode_all(batch.commands);
            let context = BatchContext {
                callers: callers(&decoded),
                ..context(entry, address, batch.clock_ms, Vec::new(), false)
            };
            if let Err(damaged) = store.apply_batch(context, store_commands) {
                let begun = store.is_applying().then_some(BatchBeingApplied { decoded, is_watched: false });
                return Err(ReplayError::Damaged(damaged, begun));
            }
        }
    }
    Ok(())
}

/// Whether an entry is a request to remove this member.
pub(crate) fn is_removal_of(entry: &Entry, id: u64) -> bool {
    let decoded = if entry.kind == EntryKind::ConfChange { applied::decode(entry).ok() } else { None };
    let request = decoded.and_then(|decoded| decoded.proposed).map(|proposed| proposed.request);
    request == Some(MembershipRequest::Remove { id })
}

/// An entry of the log as consensus has it; `None` for an unknown kind.
pub(crate) fn from_log(entry: log::Entry) -> Option<Entry> {
    let kind = EntryKind::from_u8(entry.kind)?;
    Some(Entry { term: entry.term, index: entry.index, kind, payload: entry.payload })
}

/// Decodes the batch of an entry. Bytes that do not decode have no effect, on all members alike.
///
/// # Errors
/// An unknown version, because its effect cannot be guessed.
pub(super) fn decode_batch(entry: &Entry) -> Result<Batch, BatchError> {
    match batch::decode(&entry.payload) {
        Err(error @ BatchError::Version(_)) => Err(error),
        other => Ok(other.unwrap_or_else(|_| Batch { clock_ms: 0, commands: Vec::new() })),
    }
}

pub(crate) fn applied_id(entry: &Entry) -> AppliedId {
    AppliedId { index: entry.index, term: entry.term }
}

pub(super) fn context(
    entry: &Entry,
    payload_address: u64,
    clock_ms: u64,
    has_caller: Vec<bool>,
    is_watched: bool,
) -> BatchContext {
    let (index, term, payload) = (entry.index, entry.term, entry.payload.clone());
    let callers = Vec::new();
    BatchContext { index, term, clock_ms, payload, payload_address, has_caller, callers, is_watched }
}

/// For each store command, who asks for it. Empty if none says so: all are anonymous then.
pub(crate) fn callers(decoded: &[DecodedCommand]) -> Vec<Caller> {
    if decoded.iter().all(|one| is_anonymous(&one.command)) {
        return Vec::new();
    }
    let each = decoded.iter().map(|one| (caller(&one.command), one.store_commands));
    each.flat_map(|(caller, count)| std::iter::repeat_n(caller, count)).collect()
}

/// Decodes the commands of a batch for the store.
pub(crate) fn decode_all(commands: Vec<LogCommand>) -> (Vec<DecodedCommand>, Vec<store::Command>) {
    let mut decoded = Vec::with_capacity(commands.len());
    let mut all = Vec::with_capacity(commands.len());
    for command in commands {
        let before = all.len();
        decode_into(&mut all, &command);
        decoded.push(DecodedCommand { store_commands: all.len() - before, command });
    }
    (decoded, all)
}

fn decode_into(all: &mut Vec<store::Command>, command: &LogCommand) {
    let body = command.body.clone();
    let step = match command.kind {
        CommandKind::Put => request(body, store::Command::Put),
        CommandKind::DeleteRange => request(body, store::Command::DeleteRange),
        CommandKind::Txn => request(body, store::Command::Txn),
        CommandKind::Compaction => request(body, store::Command::Compaction),
        CommandKind::LeaseGrant => request(body, store::Command::LeaseGrant),
        CommandKind::LeaseRevoke => {
            request(body, |request| store::Command::LeaseRevoke { request, expiry_term: None })
        }
        CommandKind::LeaseExpire => return decode_expiry(all, &body),
        CommandKind::LeaseCheckpoint => request(body, store::Command::LeaseCheckpoint),
        CommandKind::Alarm => request(body, store::Command::Alarm),
        CommandKind::ClusterVersion => request(body, store::Command::ClusterVersionSet),
        CommandKind::DowngradeInfo => request(body, store::Command::DowngradeInfoSet),
        CommandKind::Publish => decode_publish(&body),
        CommandKind::CommandSet => match body[..] {
            [set] => store::Command::CommandSet(set),
            _ => store::Command::Unknown,
        },
        CommandKind::Auth => decode_auth(&body).map_or(store::Command::Unknown, store::Command::Auth),
    };
    all.push(step);
}

fn request<R: Message + Default>(body: Bytes, make: impl FnOnce(R) -> store::Command) -> store::Command {
    R::decode(body).map_or(store::Command::Unknown, make)
}

fn decode_expiry(all: &mut Vec<store::Command>, body: &Bytes) {
    match Expiry::decode(body) {
        None => all.push(store::Command::Unknown),
        Some(expiry) => all.extend(expiry.leases.into_iter().map(|id| store::Command::LeaseRevoke {
            request: pb::LeaseRevokeRequest { id },
            expiry_term: Some(expiry.term),
        })),
    }
}

fn decode_publish(body: &Bytes) -> store::Command {
    Publish::decode(body).map_or(store::Command::Unknown, |publish| store::Command::Publish {
        id: publish.member,
        incarnation: publish.incarnation,
        name: publish.name,
        client_urls: publish.client_urls,
    })
}
