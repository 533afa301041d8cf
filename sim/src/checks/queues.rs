//! Queues stay within the limits that the product names.

use consensus::INFLIGHT_BYTES_MAX;
use member::inbox::{MAX_WAITING_BYTES, MAX_WAITING_COMMANDS};
use store::watch::MAX_INBOX_BLOCKS;

use crate::report::Violation;

const CHECK: &str = "queues stay within their limits";

/// What one burst may add to the bytes in flight before the window shuts: the recent entries in memory.
const BURST_BYTES: usize = consensus::RECENT_BYTES_MAX;

/// Requests that wait on a member and events that wait for its watch streams.
pub(crate) fn member(
    member: usize,
    pending: u64,
    streams: usize,
    watch_events: usize,
) -> Result<(), Violation> {
    if pending > MAX_WAITING_COMMANDS as u64 {
        return Violation::err(CHECK, format!("{pending} requests wait on member {member}"));
    }
    if watch_events > streams.max(1) * MAX_INBOX_BLOCKS * member::batch::MAX_COMMANDS {
        return Violation::err(CHECK, format!("{watch_events} events wait for watchers of member {member}"));
    }
    Ok(())
}

/// Bytes on their way from one member to another.
pub(crate) fn link(from: usize, to: usize, bytes: usize) -> Result<(), Violation> {
    if bytes > INFLIGHT_BYTES_MAX + BURST_BYTES + MAX_WAITING_BYTES.min(1 << 20) {
        return Violation::err(CHECK, format!("{bytes} bytes are in flight from {from} to {to}"));
    }
    Ok(())
}
