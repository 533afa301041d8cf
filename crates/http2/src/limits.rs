//! What a client can make a connection keep or do, each with a limit.

use std::time::Duration;

/// Received bytes that may wait in one stream, unless it has a large message: what a client sends that creates 20,000
/// watches before it reads an answer.
pub(crate) const MAX_STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// Received bytes that may wait in one connection, of messages that are not complete and have no room reserved: 256
/// full windows of streams. A window that was opened for a body stays as large as what the body did not need of it, so
/// fewer streams may fill this one. A client that fills it has its newest incomplete request refused.
pub(crate) const MAX_CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

/// Room for large messages that come at a time in one connection: eight of the largest requests that a member admits by
/// default. Others wait with a full window each. A larger message comes alone.
pub const MAX_RESERVED_BYTES: usize = 16 << 20;

/// Time without DATA after which a message loses its room to those that wait for it: a client that stops in the middle
/// of eight large messages must not stop all others of its connection, which may be those of other users.
pub(crate) const MAX_RESERVED_SILENCE: Duration = Duration::from_secs(10);

/// Bytes of requests that wait to begin, because the client does not take the answers it has. Later ones are refused.
pub(crate) const MAX_WAITING_REQUEST_BYTES: usize = 16 << 20;

/// Bytes of answers that wait for windows, in all streams of a connection. Past it no usual request begins, and no
/// usual answer is made: a client that takes its answers has far fewer, because each frame it takes makes room for
/// another.
pub(crate) const MAX_QUEUED_BYTES: usize = 16 << 20;

/// Streams that are looked at together when the client's initial window has grown.
pub(crate) const MAX_UNBLOCKED_PER_ROUND: usize = 256;

/// Frames of DATA that are made together: with windows of a byte, thousands fit into the output, and each takes as long
/// as a large one.
pub(crate) const MAX_FRAMES_PER_ROUND: usize = 256;

/// The window of a connection before any update, and of a stream before any setting (RFC 9113, section 6.9.2).
pub(crate) const DEFAULT_WINDOW_BYTES: u32 = 65_535;

/// Largest window (RFC 9113, section 6.9.1).
pub(crate) const MAX_WINDOW_BYTES: i64 = (1 << 31) - 1;

/// Bytes of a frame's payload, in either direction: the least that HTTP/2 allows, and what grpc-go takes.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 16 << 10;

/// Bytes of a header list: names, values, and 32 for each field. grpc-go's limit. The lists of all requests in
/// one read are in memory together, until their calls begin.
pub(crate) const MAX_HEADER_LIST_BYTES: usize = 16 << 20;

/// What the list of a small block may come to: a reference to the table takes a byte and means up to 4 KiB. A client
/// refers to a dozen fields; a list of thousands of references is no request.
pub(crate) const MAX_SMALL_LIST_BYTES: usize = 64 << 10;
pub(crate) const MAX_LIST_TO_BLOCK_RATIO: usize = 64;

/// Bytes of the encoded header list. Only tiny fields are longer encoded than decoded, so no list within its limit is
/// refused for this.
pub(crate) const MAX_HEADER_BLOCK_BYTES: usize = 16 << 20;

/// Frames of one header block: a block of the largest size in frames of 4 KiB, and far more than any client sends.
pub(crate) const MAX_HEADER_FRAMES: u32 = 4_096;

/// Bytes of the table that the client's encoder fills: HTTP/2's default, and grpc-go's.
pub(crate) const MAX_DECODER_TABLE_BYTES: usize = 4_096;

/// Bytes of the table that our encoder fills: two fields of every answer.
pub(crate) const MAX_ENCODER_TABLE_BYTES: usize = 256;

/// Decoded heads that are remembered with their blocks, and the size of each: a client repeats a few.
pub(crate) const MAX_REMEMBERED_HEADS: usize = 4;
pub(crate) const MAX_REMEMBERED_BLOCK_BYTES: usize = 64;
pub(crate) const MAX_REMEMBERED_HEAD_BYTES: usize = 4_096;

/// Fields of a block that is recognised although one of its values is another: a client sends a dozen.
pub(crate) const MAX_OUTLINE_FIELDS: usize = 16;

/// DATA that waits for the socket; more waits in its stream. A few frames: beyond that a write is cheap for what it
/// carries, and other streams should have their share of the next.
pub(crate) const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// What else waits for the socket: headers, trailers, and answers to control frames. Past it and the DATA nothing is
/// read, and no request begins: a client that does not take its answers is not asked for more.
pub(crate) const MAX_CONTROL_BYTES: usize = 64 << 10;

/// Streams reset in a second, by the client or for its mistakes. A client that gives up thousands of calls at once is
/// possible; one that goes on like that costs others their time (rapid reset).
pub(crate) const MAX_RESETS_PER_SECOND: u32 = 10_000;

/// Frames that carry nothing in a second: empty DATA, settings, pings, priorities, unknown ones. grpc-go pings with
/// nearly everything it receives, which is less.
pub(crate) const MAX_OVERHEAD_FRAMES_PER_SECOND: u32 = 50_000;

/// Time in which a client has sent its preface and settings, and in which a header block is complete.
pub(crate) const MAX_GREETING_TIME: Duration = Duration::from_secs(10);
pub(crate) const MAX_HEADER_BLOCK_TIME: Duration = Duration::from_secs(10);

/// Time in which a client should have begun its first request, and in which it must answer a ping if it has not: a
/// client may connect ahead of need, but one that said its greeting and then nothing is no client.
pub(crate) const FIRST_REQUEST_TIME: Duration = Duration::from_secs(10);

/// Time between the two steps of a graceful GOAWAY if the client does not answer the ping between them. grpc-go waits
/// 5 s; a server that stops gives all connections 1 s, and the second step must come before their end.
pub(crate) const MAX_DRAIN_DELAY: Duration = Duration::from_millis(500);

/// Pings beyond the rate that are forgiven before the connection is closed: grpc-go's.
pub(crate) const MAX_PING_STRIKES: u32 = 2;

/// Least time between two pings while no stream is open: grpc-go's.
pub(crate) const MIN_IDLE_PING_INTERVAL: Duration = Duration::from_secs(2 * 60 * 60);
