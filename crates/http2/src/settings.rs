//! What the owner of connections chooses: how many streams a client may have, how it is pinged, and which requests
//! begin in any case. What a client can make a connection keep has limits of its own, in `limits.rs`.

use std::time::Duration;

use crate::head::RequestHead;
use crate::hpack::Field;

/// What the owner of connections chooses.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Streams that a client may have open at a time; beyond it they are refused. `u32::MAX`, which etcd admits, is not
    /// announced.
    pub max_concurrent_streams: u32,
    /// Pings.
    pub keepalive: Keepalive,
    /// Whether a request begins although the client leaves too much of its answers untaken: its own are few and small.
    pub is_urgent: fn(&RequestHead) -> bool,
    /// What [`Connection::answer`](crate::Connection::answer) sends around a message.
    pub usual_answer: UsualAnswer,
}

/// What most answers are, but for their messages.
#[derive(Clone, Copy, Debug)]
pub struct UsualAnswer {
    /// The headers.
    pub head: &'static [Field<'static>],
    /// The trailers.
    pub trailers: &'static [Field<'static>],
}

/// Pings in both directions.
#[derive(Clone, Debug)]
pub struct Keepalive {
    /// Silence after which the client is pinged; zero: never.
    pub interval: Duration,
    /// Time that a pinged client may stay silent; zero: forever.
    pub timeout: Duration,
    /// Least time between two pings of the client while a stream is open. A few that come sooner are forgiven, and the
    /// count begins again whenever the client was sent something.
    pub min_client_interval: Duration,
}
