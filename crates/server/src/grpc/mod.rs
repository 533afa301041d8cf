//! gRPC over HTTP/2, on the `h2` crate: connections, calls and messages, but not what they mean.
//!
//! [`serve`] drives one connection inside one task. In each turn it takes what arrived, begins the calls among it and
//! polls those that can go on; what they answered leaves with one write to the socket. A call is a future that a
//! [`Service`] makes of [`Requests`], the client's messages, and a [`Reply`], the way back; it is polled only when
//! something woke it, and dropped when the connection ends.
//!
//! | file | holds |
//! |---|---|
//! | `connection.rs` | the turn of a connection, its beginning and end |
//! | `preface.rs` | whether a client speaks HTTP/2 at all |
//! | `gather.rs` | the socket: writes of one turn leave together |
//! | `pongs.rs` | answers to pings wait for what is sent next |
//! | `messages.rs` | messages out of DATA frames, their limit, the frames of an answer |
//! | `joined.rs` | the frames of many small messages |
//! | `request.rs`, `reply.rs` | the two directions of a call |
//! | `head.rs` | which requests are gRPC, and why some are refused before their first message |
//! | `plain.rs` | HTTP/2 requests that are not gRPC |
//!
//! Settled here: HTTP/2 settings, keep-alive, flow control, sizes, statuses and their encoding. Compression is not
//! offered. A deadline (`grpc-timeout`) is its client's: it resets the call when time is up, which ends the call here.

mod connection;
mod encoded;
mod failure;
mod gather;
mod head;
mod joined;
mod messages;
mod plain;
mod pongs;
mod preface;
mod reply;
mod request;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;

use crate::config::Keepalive;

pub(crate) use connection::serve;
pub(crate) use encoded::Encoded;
pub(crate) use failure::Failure;
pub(crate) use preface::speaks_http2;
pub(crate) use reply::{Gone, Reply};
pub(crate) use request::Requests;

/// How client connections behave.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Calls of one connection at a time.
    pub(crate) max_concurrent_streams: u32,
    /// Bytes of a request's message.
    pub(crate) max_message_bytes: usize,
    /// When silent clients are asked whether they are there.
    pub(crate) keepalive: Keepalive,
}

/// A call under way. It answers through its [`Reply`], or not at all when the client has gone.
pub(crate) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What answers calls.
pub(crate) trait Service: Send + 'static {
    /// Begins a call: `head` has its path and metadata.
    fn call(&self, head: &http::request::Parts, requests: Requests, reply: Reply) -> Serving;
}
