//! The server's side of HTTP/2 (RFC 9113), without I/O: bytes and the time go in, bytes and events come out.
//!
//! A [`Connection`] reads nothing, writes nothing and has no clock. Its owner gives it what a socket received, takes
//! the [`Event`]s, answers through it, and writes what has collected in its [`Output`]. Example: a client sends the
//! preface, its settings, and a `Put` on stream 1.
//!
//! ```text
//!   connection.receive(bytes, now)      parses whole frames; keeps the rest of the last one
//!   connection.next_event()             Request { stream: 1, head }, once for HEADERS; the DATA is there already
//!   connection.unread(1)                the bytes of the DATA: one whole message of 30 bytes
//!   connection.take_data(1, 30)         takes it; its window is given back to the client
//!   connection.send_headers(1, ...)     encoded at once: the order of header blocks is the state of compression
//!   connection.send_data(1, message)    framed as far as windows allow, else kept in the stream
//!   connection.finish(1, trailers)      behind the data; the stream is gone when its last frame is in the output
//!   connection.answer(1, ...)           instead of these three, for the usual answer to a request with one message
//!   connection.output()                 everything since the last write, as slices for one write
//! ```
//!
//! What is tolerated is decided by what grpc-go tolerates, because clients are tested against it:
//! docs/internals/http2.md has the rules and RFC 0019 the reasons. What a client can make a connection keep or do has a
//! named limit in `limits.rs`.
//!
//! | module | holds |
//! |---|---|
//! | `connection` | streams, windows, deadlines; one file for each direction |
//! | `frame` | the head of a frame, types, flags, error codes |
//! | `hpack` | compression of headers |
//! | `head` | the head of a request, and what makes it malformed |
//! | `limits` | every limit |
//! | `output` | frames that wait for the socket |
//! | `rates` | what a client may do in a second, and how often it may ping |
//! | `settings` | what the owner chooses |
//!
//! The compression of headers and [`PREFACE`] are public for themselves: the load generator is a client of its own.
//!
//! It knows nothing of gRPC, of requests' meaning, of tokio, or of wakers: each stream has a slot for what its owner
//! keeps there.

mod connection;
mod frame;
mod head;
mod hpack;
mod limits;
mod output;
mod rates;
mod settings;

pub use connection::{Connection, Event, HeldBytes, StreamGone};
pub use frame::ErrorCode;
pub use head::RequestHead;
pub use hpack::{Field, FieldSink, HpackDecoder, HpackEncoder, UndecodableBlock};
pub use limits::MAX_RESERVED_BYTES;
pub use output::Output;
pub use settings::{HttpSettings, Keepalive, UsualAnswer};

/// What an HTTP/2 client sends first (RFC 9113, section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
