//! The watch hub: from applied events to the bytes of watch responses.
//!
//! The applying thread *publishes* each batch of events once. Watchers are kept in *groups* of equal shape
//! (key range, filters, `prev_kv`); a batch is matched against the groups, and each group that it touches
//! gets one shared *block* of events. A *watch stream* owns the watchers of one RPC and an *inbox*, into
//! which the publisher puts a weak reference to the block and then wakes the stream's task. Encoding happens
//! on that task, once for each block: what differs between two watchers of a group is a head of some forty
//! bytes.
//!
//! ```text
//! publish(revision, events)                       WatchStream::next (its own task)
//!   match against groups: O(log ranges + hits)      responses to requests first
//!   one Block for each group touched ---- tail      then the inbox: Block -> one Frame a watcher
//!   push to each subscribed inbox, wake             and, in turn, one chunk for a watcher that catches up
//! ```
//!
//! **A watcher is synced or catching up.** It carries the next revision that it has not seen. A synced one
//! lives from the inbox; one that catches up reads `History` in chunks from that revision until it is past
//! `through`, the newest revision that it may have missed. Whatever goes wrong with live delivery has the
//! same cure, to raise `through`: the inbox was full, the block had already left the tail, a value could not
//! be read by an old reference, a snapshot was installed. A watcher is subscribed as long as it lives and
//! ignores live blocks below its next revision, so there is no moment of handover in which an event could be
//! lost or doubled.
//!
//! **Invariants**
//! - `publish` is called after the history has the batch and before its replies leave, in revision order.
//! - A progress answer names a revision of which the stream was sent everything, and which is not below any
//!   event sent before it: taken from the inbox with the hub locked, and taken anew if catching up has
//!   overtaken it meanwhile.
//! - Events of one revision travel in one response, unless the watcher asked for fragments.
//! - Memory: blocks live in the hub's tail alone, within [`MAX_TAIL_BYTES`]; an inbox is a bounded list of
//!   references, and a stream holds beside it one block and one chunk, those that it is sending. A client
//!   that does not read costs the publisher one locked flag a batch.
//! - Lock order: hub, then inbox. Neither `History` nor `Values` is called with either held; `Wake` is.
//!
//! Behaviour on the wire follows etcd 3.7 (`v3rpc/watch.go`, `mvcc/watchable_store.go`). It knows no gRPC, no
//! clock, no authorization: the server asks [`WatchStream::refuse`] and [`WatchStream::notify_progress_due`]
//! for those answers.
mod block;
mod catch_up;
mod encode;
mod groups;
mod hub;
mod inbox;
mod intervals;
mod sending;
mod stream;
mod watcher;

#[cfg(test)]
mod tests;

pub use encode::Frame;
pub use hub::{Hub, Stats};
pub use inbox::Wake;
pub use sending::Next;
pub use stream::WatchStream;

/// Blocks an inbox holds before its stream falls behind, one a batch and group of watchers: of one group 0.8 s of a
/// crowd's batches (3 ms apart) and 80 ms of the fastest small ones (0.3 ms), twice what etcd buffers for a stream,
/// and 10 KB for a client that never reads.
pub const MAX_INBOX_BLOCKS: usize = 256;

/// Bytes of recent batches and their encodings that all streams together may still need: half of the value
/// tail, so that what is in here can as a rule be encoded without a disk read.
pub const MAX_TAIL_BYTES: usize = 8 << 20;

/// Bytes of events after which a response is closed at the next revision: well under the 4 MiB that gRPC
/// clients accept by default, and enough to make heads and system calls negligible.
pub const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Events a watcher that catches up reads at a time; etcd's batch.
pub const MAX_CATCH_UP_EVENTS: usize = 1_000;

/// Revisions looked at in one step of catching up: about a millisecond, after which other watchers get their
/// turn.
pub const MAX_CATCH_UP_STEPS: usize = 10_000;

/// Answers to requests (created, canceled) waiting to be sent before [`WatchStream::is_backlogged`] asks the
/// server to stop reading requests; etcd's number.
pub const MAX_CONTROL_RESPONSES: usize = 16;
