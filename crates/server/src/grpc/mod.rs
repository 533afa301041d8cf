//! gRPC over HTTP/2: connections, calls and messages, but not what they mean.
//!
//! [`serve`] drives one connection inside one task. A call is a future that a [`GrpcService`] makes of a
//! [`RequestStream`], the client's messages, and a [`CallReply`], the way back; it is polled only when something woke
//! it, and dropped when the connection ends.
//!
//! The protocol itself is the crate `http2`, which has no I/O: a connection's task gives it the bytes of each read,
//! takes its events, and writes what has collected. Each time the task runs, it goes through *rounds*. Example: 20
//! clients share a connection and have sent 20 gets, and the answers to 5 puts have just arrived.
//!
//! ```text
//!   receive         one read brings 20 heads with their messages
//!   begin           20 gets are begun, each polled once; 18 of them are answered by that, 2 wait for the raft loop
//!   poll calls      the 5 puts that were woken are answered
//!   send            one write carries 23 answers
//! ```
//!
//! If the read brought something, the next round begins with another.
//!
//! | file | holds |
//! |---|---|
//! | `service.rs` | the contract with the methods |
//! | `connection.rs` | the rounds of a connection, its beginning and end |
//! | `handle.rs` | the connection as its calls see it |
//! | `preface.rs` | what a client speaks, and what a connection needs of its socket: the place of TLS |
//! | `pongs.rs` | answers to pings wait for what is sent next |
//! | `room.rs` | what connections hold for their clients, and room for more |
//! | `messages/` | messages out of DATA and into it, their size limit, gzip |
//! | `request.rs`, `reply.rs` | the two directions of a call |
//! | `local/` | calls that begin in this process: those of the JSON gateway |
//! | `failure.rs` | a status that is not OK |
//! | `head/` | which requests are gRPC, and why some are refused before their first message |
//! | `plain.rs` | HTTP/2 requests that are not gRPC, or come where there is none |
//! | `reading.rs` | one request without a socket and a service, for a fuzz target |
//!
//! Settled here: sizes of messages, statuses and their encoding, compression, deadlines, rounds. Settled in `http2`:
//! windows, keep-alive, and every limit of the protocol.

mod connection;
mod failure;
mod handle;
mod head;
mod local;
mod messages;
mod plain;
mod pongs;
mod preface;
mod reading;
mod reply;
mod request;
mod room;
mod service;
#[cfg(test)]
mod tests;

pub(crate) use connection::serve;
pub(crate) use failure::Failure;
pub(crate) use handle::ClientGone;
pub(crate) use head::decode_timeout;
pub(crate) use local::LocalCall;
pub(crate) use messages::EncodedMessage;
pub(crate) use preface::{ClientProtocol, ClientTransport, ReplayedStart, protocol};
pub use reading::ReadRequest;
pub(crate) use reading::{gzip_message, read_request};
pub(crate) use reply::CallReply;
pub(crate) use request::{LocalRequests, RequestStream};
pub(crate) use room::{AnswerRoom, BodyRoom};
pub(crate) use service::{CallFuture, ConnectionSettings, GrpcService, NoCalls};
