//! A connection: its streams, windows and deadlines.
//!
//! | file | holds |
//! |---|---|
//! | `state.rs` | what a connection is, its beginning and its end |
//! | `stream.rs` | a stream and its windows |
//! | `inbound.rs` | frames that arrive, but HEADERS |
//! | `receiving.rs` | DATA of requests that was not taken, and the room for large messages |
//! | `requests.rs` | header blocks, from their first frame to a request |
//! | `heads.rs` | decodes header blocks, and recognises them |
//! | `outbound.rs` | answers: headers, data as windows allow, trailers |
//! | `answers.rs` | the usual answer, from a pattern |
//! | `queues.rs` | what waits: requests, bytes that were not taken, streams that are blocked by flow control |
//! | `timers.rs` | whether the client is there |
//! | `deadlines.rs` | what happens by time: greeting, pings, the two steps of a graceful end, deadlines, messages that do not go on |

mod answers;
mod deadlines;
mod heads;
mod inbound;
mod outbound;
mod queues;
mod receiving;
mod requests;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod timers;

pub use state::{Connection, Event, HeldBytes, StreamGone};
