//! The watch hub: from applied events to encoded watch responses.
//!
//! The raft loop *publishes* each applied batch of events once. Watchers with the same `WatchFilter` (key range, event
//! types, `prev_kv`) form a *group*. A batch is matched against the groups, and each group that it touches gets one
//! shared `EventBlock`, or several, cut at 1 MiB. A *watch stream* owns the watchers of one RPC and an *event buffer*,
//! to which the publisher adds a weak reference to the block before it wakes the stream's handler. The first handler
//! encodes the block for all streams: two watchers of a group differ only in a response head of about forty bytes.
//!
//! ```text
//! publish(9, [put a/1 @8, put b/1 @9])            stream S: watchers 0, 1 on [a/, a0)    stream T: watcher 0 on b/1
//!
//!   match            block A = [put a/1 @8]        -> event buffer of S; wake S
//!                    block B = [put b/1 @9]        -> event buffer of T; wake T
//!   tail             keeps A and B alive
//!
//! S: next()  ->  Send(head of watcher 0 + events of A)    encodes A
//!    next()  ->  Send(head of watcher 1 + events of A)    shares the encoding
//!    next()  ->  Idle
//! ```
//!
//! **A watcher is synced or catches up,** unless it has *ended*, because the revision that it needs next was compacted,
//! or is *stalled* until a damaged value is repaired. It stores the next revision that it has not seen. A synced
//! watcher is served from the event buffer. A watcher that catches up reads [`History`] in chunks from that revision,
//! until it is past `through`, the newest revision that it may have missed. Every failure of live delivery is handled
//! in the same way, by raising `through`: the event buffer was full, the block had left the tail, a value could not be
//! read at its old address, a snapshot was installed. A watcher stays subscribed while it catches up and ignores live
//! blocks below its next revision, so no event is lost or duplicated when it becomes synced.
//!
//! **Invariants**
//! - `publish` is called after the history has the batch and before its replies are sent, in the order of revisions.
//! - The revisions that a watcher is sent rise strictly from response to response.
//! - A progress response names a revision up to which the stream was sent everything, and which is not below any event
//!   sent before it. That revision is read while the event buffer is taken with the hub locked, and read again if
//!   catching up has passed it meanwhile.
//! - Events of one revision are in one response, unless the watcher asked for fragments.
//! - Memory: only the hub's tail keeps blocks alive, within [`MAX_TAIL_BYTES`]. An event buffer is a bounded queue of
//!   weak references, and a stream holds only the block and the chunk of history that it is sending. A client that
//!   does not read costs the publisher one short lock per block.
//! - Lock order: hub, then event buffer. Neither `History` nor `Values` is called with either held. `Wake` is called
//!   with the hub locked, never with a buffer locked. A block's own lock is held while its values are read and encoded;
//!   no other is taken under it.
//!
//! Behaviour towards clients follows etcd 3.7 (`v3rpc/watch.go`, `mvcc/watchable_store.go`). The hub knows no gRPC,
//! clock or authorization: the server calls [`WatchStream::refuse`] and [`WatchStream::notify_progress_due`] for
//! those.
//!
//! | file | does |
//! |---|---|
//! | `hub`, `shared` | publishes batches, opens streams; the state that hub and streams share |
//! | `groups`, `interval_tree` | match a batch against the watchers |
//! | `block`, `encode` | the events of a batch for one group, and their encoding |
//! | `event_buffer` | what the hub has handed to a stream |
//! | `stream`, `watcher` | requests of a client: create, cancel, progress |
//! | `sending`, `catch_up` | what a stream sends next |
//! | `history` | the events of the past, as the store provides them |

mod block;
mod catch_up;
mod encode;
mod event_buffer;
mod groups;
mod history;
mod hub;
mod interval_tree;
mod sending;
mod shared;
mod stream;
mod watcher;

#[cfg(test)]
mod tests;

pub use catch_up::{MAX_CATCH_UP_EVENTS, MAX_CATCH_UP_STEPS};
pub use encode::EncodedResponse;
pub use event_buffer::{MAX_BUFFERED_BLOCKS, Wake};
pub use history::{Compacted, History};
pub use hub::Hub;
pub use sending::NextResponse;
pub use shared::{MAX_RESPONSE_BYTES, MAX_TAIL_BYTES, WatchStats};
pub use stream::WatchStream;
