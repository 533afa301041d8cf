//! gRPC over HTTP/2, on the `h2` crate: connections, calls and messages, but not what they mean.
//!
//! [`serve`] drives one connection inside one task. A call is a future that a [`GrpcService`] makes of a
//! [`RequestStream`], the client's messages, and a [`CallReply`], the way back; it is polled only when something woke
//! it, and dropped when the connection ends.
//!
//! Each time the task runs, it goes through *rounds*. Example: 20 clients share a connection and have sent 20 gets, and
//! the answers to 5 puts have just arrived.
//!
//! ```text
//!   hold writes     the socket collects what the library writes
//!   accept          20 gets are begun, each polled once; 18 of them are answered by that, 2 wait for the raft loop
//!   poll calls      the 5 puts that were woken are answered
//!   encode          the library turns 23 answers into frames, still held
//!   release         one write to the socket carries all of them
//! ```
//!
//! Then the library is polled once more: if more has arrived, the next round begins.
//!
//! | file | holds |
//! |---|---|
//! | `service.rs` | the contract with the methods |
//! | `connection.rs` | the rounds of a connection, its beginning and end |
//! | `preface.rs` | whether a client speaks HTTP/2 at all |
//! | `gathering_socket.rs` | the socket: writes of one round leave together |
//! | `pongs.rs` | answers to pings wait for what is sent next |
//! | `messages.rs` | messages out of DATA frames, their size limit |
//! | `frames.rs` | DATA frames of messages |
//! | `request.rs`, `reply.rs` | the two directions of a call |
//! | `failure.rs` | a status that is not OK |
//! | `head.rs` | which requests are gRPC, and why some are refused before their first message |
//! | `plain.rs` | HTTP/2 requests that are not gRPC |
//!
//! Settled here: HTTP/2 settings, keep-alive, flow control, sizes, statuses and their encoding. Compression is not
//! offered. A deadline (`grpc-timeout`) is enforced by the client: it resets the call, which ends the call here.

mod connection;
mod failure;
mod frames;
mod gathering_socket;
mod head;
mod messages;
mod plain;
mod pongs;
mod preface;
mod reply;
mod request;
mod service;
#[cfg(test)]
mod tests;

pub(crate) use connection::serve;
pub(crate) use failure::Failure;
pub(crate) use frames::EncodedMessage;
pub(crate) use preface::{ReplayedStart, speaks_http2};
pub(crate) use reply::{CallReply, ClientGone};
pub(crate) use request::RequestStream;
pub(crate) use service::{CallFuture, ConnectionSettings, GrpcService};
