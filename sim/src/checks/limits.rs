//! Invariant: queues, batches and streams stay within the limits of `docs/operating/limits.md`, as far as these can be
//! seen from outside a member: what waits in it, what it sends, what is in flight.

use std::collections::BTreeSet;

use api::etcdserverpb::WatchResponse;
use consensus::{
    Body, EntryKind, MAX_APPEND_BYTES, MAX_INFLIGHT_BYTES, MAX_INFLIGHT_MESSAGES, MAX_RECENT_BYTES, Message,
};
use member::batch;
use member::proposal_queue::{MAX_WAITING_COMMANDS, QueueLimits};
use member::snapshot::MAX_RUNNING;
use prost::Message as _;
use store::watch::{MAX_BUFFERED_BLOCKS, MAX_RESPONSE_BYTES};

use crate::report::trace::Violation;

const CHECK: &str = "queues stay within their limits";

/// Bytes that may be added to those in flight before the window closes: the recent entries in memory.
const BURST_BYTES: usize = MAX_RECENT_BYTES;

/// Appends of an earlier leadership may be in flight when a member leads again with a new window.
const WINDOWS: usize = 2;

/// Watch responses are divided between revisions, so the last revision may exceed the limit by the largest transaction
/// of the clients here: in runs with few keys, and with many.
const REVISION_BYTES: usize = 128 << 10;
const LARGE_REVISION_BYTES: usize = 1 << 20;

/// Bytes at the beginning of a batch, and for each origin.
const BATCH_HEAD_BYTES: usize = 16;

/// Bytes of the commands of a member itself, which no limit applies to, and of one command that is larger than a batch.
const OWN_COMMAND_BYTES: u64 = 256 << 10;

/// Bytes of the commands that wait on a member. A batch that was refused is given back to a queue that may be full.
pub(crate) fn waiting(member: usize, bytes: u64, limits: &QueueLimits) -> Result<(), Violation> {
    if bytes > (limits.waiting_bytes + limits.batch_bytes) as u64 + OWN_COMMAND_BYTES {
        return Violation::err(CHECK, format!("{bytes} bytes of commands wait on member {member}"));
    }
    Ok(())
}

/// Requests that wait on a member (commands, and as many reads) and events that wait for its watch streams.
pub(crate) fn member(
    member: usize,
    pending: u64,
    streams: usize,
    watch_events: usize,
) -> Result<(), Violation> {
    if pending > 2 * MAX_WAITING_COMMANDS as u64 {
        return Violation::err(CHECK, format!("{pending} requests wait on member {member}"));
    }
    if watch_events > streams.max(1) * MAX_BUFFERED_BLOCKS * batch::MAX_COMMANDS {
        return Violation::err(CHECK, format!("{watch_events} events wait for watchers of member {member}"));
    }
    Ok(())
}

/// Bytes and appends in flight from one member to another.
pub(crate) fn link(from: usize, to: usize, bytes: usize, appends: usize) -> Result<(), Violation> {
    if bytes > MAX_INFLIGHT_BYTES + BURST_BYTES + batch::MAX_BYTES {
        return Violation::err(CHECK, format!("{bytes} bytes are in flight from {from} to {to}"));
    }
    if appends > WINDOWS * MAX_INFLIGHT_MESSAGES {
        return Violation::err(CHECK, format!("{appends} appends are in flight from {from} to {to}"));
    }
    Ok(())
}

/// An append that a member sends, and the batches in it.
pub(crate) fn append(member: usize, message: &Message, limits: &QueueLimits) -> Result<(), Violation> {
    let Body::Append { entries, .. } = &message.body else { return Ok(()) };
    let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
    if entries.len() > 1 && bytes as u64 > MAX_APPEND_BYTES {
        let text = format!("member {member} sends {} entries of {bytes} bytes at once", entries.len());
        return Violation::err(CHECK, text);
    }
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Batch) {
        let Ok(batch) = batch::decode(&entry.payload) else { continue };
        let (count, bytes) = (batch.commands.len(), entry.payload.len());
        let origins: BTreeSet<_> =
            batch.commands.iter().map(|command| (command.origin.member, command.origin.run)).collect();
        let large = count > 1 && bytes > limits.batch_bytes + BATCH_HEAD_BYTES * (1 + origins.len());
        if count > limits.batch_commands || origins.len() > batch::MAX_ORIGINS || large {
            let text = format!(
                "entry {} has {count} commands of {} origins, {bytes} bytes",
                entry.index,
                origins.len()
            );
            return Violation::err(CHECK, text);
        }
    }
    Ok(())
}

/// Snapshots that a member sends at the same time.
pub(crate) fn snapshots(member: usize, running: usize) -> Result<(), Violation> {
    if running > MAX_RUNNING {
        return Violation::err(CHECK, format!("member {member} sends {running} snapshots at once"));
    }
    Ok(())
}

/// A response to a watcher.
pub(crate) fn response(
    member: usize,
    response: &WatchResponse,
    has_many_keys: bool,
) -> Result<(), Violation> {
    let revision_bytes = if has_many_keys { LARGE_REVISION_BYTES } else { REVISION_BYTES };
    let bytes = response.encoded_len();
    if bytes > MAX_RESPONSE_BYTES + revision_bytes {
        return Violation::err(CHECK, format!("member {member} sends a watcher {bytes} bytes at once"));
    }
    Ok(())
}
