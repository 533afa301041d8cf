//! Large ranges: encoded on a thread of their own, and sent while they are encoded.
//!
//! ```text
//!   encoding thread (RangeEncoding)          channel                       RPC worker (StreamedRange)
//!   lays out the response, 5 MiB   -> Begin { header, length: 5 MiB } ->  sends the prefix of the message
//!   reads values, encodes 1 MiB    -> Chunk(1 MiB)                    ->  sends it
//!   reads values, encodes 1 MiB    -> Chunk(1 MiB)                    ->  sends it: 2 MiB are sent
//!   finds a damaged value          -> Damaged                         ->  has it repaired by a peer
//!
//!   a second encoder begins at the same revision, with the same header, and skips 2 MiB
//!                                  -> Begin { length: 5 MiB }         ->  checks the length
//!   skips 2 MiB, encodes on        -> Chunk(1 MiB): bytes 2 to 3 MiB  ->  sends it, and so on
//! ```
//!
//! So the response is never in memory as a whole. Encoding the same range twice at the same revision gives the same
//! bytes, which is why the bytes that were sent can be skipped: their keys are walked again, their values are not read.
//!
//! The next chunk is taken when the client has taken the one before, and two more are made meanwhile, and a third that
//! waits for their place. An encoder whose chunk is not taken soon ends, and
//! with it its thread, its permit and its pin: a client that reads slowly must not keep them from others. When the
//! client has taken what is there, another encoder goes on, at the cost of a walk. If history was compacted beyond the
//! revision meanwhile, the call fails.

use std::cell::OnceCell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use api::etcdserverpb as pb;
use bytes::{Buf, Bytes};
use store::{ChunkSink, Damaged, NextChunk};
use tokio::sync::mpsc;

use crate::grpc::{AnswerRoom, EncodedMessage, Failure};
use crate::node::Node;

/// Bytes that cross the channel at once: each crossing wakes the RPC worker, and then the client.
const CHUNK_BYTES: usize = 1 << 20;

/// Chunks that wait in the channel while one is sent; the encoder holds another one, which it waits to add. The
/// beginning has the place of one of them until it is taken.
const MAX_WAITING_CHUNKS: usize = 2;

/// How long an encoder waits until a chunk is taken. A client that takes 10 MiB a second does not have it begin again.
const MAX_CHUNK_WAIT: Duration = Duration::from_millis(100);

/// The same while the client has taken nothing of the answer. Most take something in a millisecond; to begin many
/// answers and take none must not cost others more than what is encoded.
const MAX_FIRST_CHUNK_WAIT: Duration = Duration::from_millis(10);

/// Longest message a client of grpc-go accepts; etcd sends no longer one either.
const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

/// The response of a unary call.
pub(super) enum UnaryResponse {
    /// The whole message.
    Whole(EncodedMessage),
    /// One message, sent while it is encoded.
    Streamed(Box<StreamedRange>),
}

impl From<EncodedMessage> for UnaryResponse {
    fn from(encoded: EncodedMessage) -> UnaryResponse {
        UnaryResponse::Whole(encoded)
    }
}

/// The damage that one response has found last. The same damage once more, after it was repaired, means that the value
/// is lost for this response: overwritten and compacted meanwhile.
#[derive(Default)]
pub(super) struct KnownDamage {
    address: Option<u64>,
}

impl KnownDamage {
    /// Has damage repaired.
    ///
    /// # Errors
    /// [`api::Error::Corrupt`] when it was known already, and those of [`Node::repair`].
    pub(super) async fn repair(&mut self, node: &Node, damaged: &Damaged) -> Result<(), api::Error> {
        if self.address.replace(damaged.address) == Some(damaged.address) {
            return Err(api::Error::Corrupt);
        }
        node.repair(damaged).await
    }
}

/// A range whose encoded length is known.
pub(super) struct StreamedRange {
    node: Arc<Node>,
    /// With the revision at which it is read.
    request: pb::RangeRequest,
    header: pb::ResponseHeader,
    length: usize,
    sent: usize,
    parts: mpsc::Receiver<RangePart>,
    known: KnownDamage,
    room: AnswerRoom,
}

/// What crosses the channel.
enum RangePart {
    Begin {
        header: pb::ResponseHeader,
        length: usize,
    },
    Chunk(Vec<Bytes>),
    /// The encoder has ended because a chunk was not taken.
    Paused,
    Damaged(Damaged),
    Failed(api::Error),
}

impl StreamedRange {
    /// Begins to encode a range. Returns when the length is known.
    ///
    /// # Errors
    /// What is wrong with the request, and damage that cannot be repaired.
    pub(super) async fn begin(
        node: &Arc<Node>,
        room: &AnswerRoom,
        request: pb::RangeRequest,
    ) -> Result<StreamedRange, Failure> {
        loop {
            let mut parts = encode(node, room, &request, None, 0).await;
            match parts.recv().await {
                Some(RangePart::Begin { header, length }) => {
                    check_length(length)?;
                    let revision = if request.revision > 0 { request.revision } else { header.revision };
                    let request = pb::RangeRequest { revision, ..request };
                    let (node, known, room) = (node.clone(), KnownDamage::default(), room.clone());
                    return Ok(StreamedRange { node, request, header, length, sent: 0, parts, known, room });
                }
                Some(RangePart::Damaged(damaged)) => node.repair(&damaged).await?,
                Some(RangePart::Failed(error)) => return Err(error.into()),
                Some(RangePart::Chunk(_) | RangePart::Paused) | None => return Err(Failure::unexpected()),
            }
        }
    }

    /// Bytes of the whole message.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The next bytes, when the client has taken those before; `None` at the end.
    ///
    /// # Errors
    /// Damage that cannot be repaired.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<Bytes>, Failure>> {
        loop {
            match self.parts.recv().await {
                // A second encoder begins again, and must give the same bytes.
                Some(RangePart::Begin { length, .. }) if length == self.length => {}
                Some(RangePart::Begin { .. }) => return Some(Err(Failure::unexpected())),
                Some(RangePart::Chunk(chunk)) => {
                    self.sent += chunk.iter().map(Bytes::len).sum::<usize>();
                    let fits = self.sent <= self.length;
                    return Some(if fits { Ok(chunk) } else { Err(Failure::unexpected()) });
                }
                Some(RangePart::Paused) => self.resume().await,
                Some(RangePart::Damaged(damaged)) => {
                    if let Err(failure) = self.known.repair(&self.node, &damaged).await {
                        return Some(Err(failure.into()));
                    }
                    self.resume().await;
                }
                Some(RangePart::Failed(error)) => return Some(Err(error.into())),
                None if self.sent == self.length => return None,
                None => return Some(Err(Failure::unexpected())),
            }
        }
    }

    /// Has the rest encoded.
    async fn resume(&mut self) {
        self.parts = encode(&self.node, &self.room, &self.request, Some(self.header), self.sent).await;
    }
}

/// Refuses a response that cannot be sent as one message, in the words of grpc-go.
pub(super) fn check_length(length: usize) -> Result<(), Failure> {
    if length <= MAX_MESSAGE_BYTES {
        return Ok(());
    }
    let text = format!("grpc: trying to send message larger than max ({length} vs. {MAX_MESSAGE_BYTES})");
    Err(Failure::new(api::Code::ResourceExhausted, text))
}

/// Waits for a permit and for room, then has a range encoded, without its first `skip` bytes; with `header`, if an
/// encoder ran before.
async fn encode(
    node: &Arc<Node>,
    room: &AnswerRoom,
    request: &pb::RangeRequest,
    header: Option<pb::ResponseHeader>,
    skip: usize,
) -> mpsc::Receiver<RangePart> {
    // How the encoder ended has a place of its own from the start.
    let (parts, receiver) = mpsc::channel(MAX_WAITING_CHUNKS + 1);
    // The receiver is there.
    let Ok(end) = parts.clone().reserve_owned().await else { return receiver };
    let (on, request) = (node.clone(), request.clone());
    let encode = move || {
        let _pin = on.pin();
        let used = OnceCell::new();
        let choose = |revision| *used.get_or_init(|| header.unwrap_or_else(|| on.header(revision)));
        let mut encoder = RangeEncoding::new(&parts, &used, skip);
        match on.reader.encode_range(&request, choose, &mut encoder) {
            Ok(Ok(())) if encoder.send_chunk() => {}
            Ok(Ok(())) => drop(end.send(RangePart::Paused)),
            Ok(Err(error)) => drop(end.send(RangePart::Failed(error))),
            Err(damaged) => {
                encoder.send_chunk();
                end.send(RangePart::Damaged(damaged));
            }
        }
    };
    // The end is reported through the channel.
    drop(node.large_ranges.begin(room, encode).await);
    receiver
}

/// The encoder's end of the channel.
struct RangeEncoding<'a> {
    parts: &'a mpsc::Sender<RangePart>,
    /// Known before the length is.
    header: &'a OnceCell<pb::ResponseHeader>,
    /// Bytes that were sent before.
    skip: usize,
    /// Whether the client has taken something of the answer.
    is_read: bool,
    /// Chunks that crossed.
    chunks: usize,
    /// What crosses together, and its bytes.
    collected: Vec<Bytes>,
    bytes: usize,
    /// A chunk was not taken, or the call has ended.
    has_stopped: bool,
}

impl<'a> RangeEncoding<'a> {
    fn new(
        parts: &'a mpsc::Sender<RangePart>,
        header: &'a OnceCell<pb::ResponseHeader>,
        skip: usize,
    ) -> RangeEncoding<'a> {
        // An encoder follows another one when what that had made is taken.
        let is_read = skip > 0;
        let collected = Vec::new();
        RangeEncoding { parts, header, skip, is_read, chunks: 0, collected, bytes: 0, has_stopped: false }
    }

    /// Sends what was collected; whether it, and all before, will be taken.
    fn send_chunk(&mut self) -> bool {
        self.bytes = 0;
        let chunk = std::mem::take(&mut self.collected);
        if !self.has_stopped && !chunk.is_empty() {
            self.send(RangePart::Chunk(chunk));
            self.chunks += 1;
            // The first chunk is taken at once, the next one when the client has that.
            self.is_read |= self.chunks > 1 + MAX_WAITING_CHUNKS;
        }
        !self.has_stopped
    }

    fn send(&mut self, part: RangePart) {
        let Err(mpsc::error::TrySendError::Full(part)) = self.parts.try_send(part) else {
            self.has_stopped |= self.parts.is_closed();
            return;
        };
        match wait_for_room(self.parts, self.patience()) {
            Some(permit) => permit.send(part),
            None => self.has_stopped = true,
        }
    }

    /// How long it waits until a chunk is taken.
    fn patience(&self) -> Duration {
        if self.is_read { MAX_CHUNK_WAIT } else { MAX_FIRST_CHUNK_WAIT }
    }
}

/// Blocks this thread until the channel has room; `None` if it has none in time, or the call has ended.
fn wait_for_room(parts: &mpsc::Sender<RangePart>, patience: Duration) -> Option<mpsc::Permit<'_, RangePart>> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let until = Instant::now() + patience;
    let mut permit = pin!(parts.reserve());
    loop {
        if let Poll::Ready(permit) = permit.as_mut().poll(&mut Context::from_waker(&waker)) {
            return permit.ok();
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl ChunkSink for RangeEncoding<'_> {
    fn begin(&mut self, bytes: usize) {
        let Some(header) = self.header.get().copied() else { return };
        self.send(RangePart::Begin { header, length: bytes });
    }

    fn next(&mut self, bytes: usize) -> NextChunk {
        if self.has_stopped {
            return NextChunk::Stop;
        }
        if bytes > self.skip {
            return NextChunk::Make;
        }
        self.skip -= bytes;
        NextChunk::Skip
    }

    fn push(&mut self, mut part: Bytes) {
        let skipped = self.skip.min(part.len());
        self.skip -= skipped;
        part.advance(skipped);
        if !part.is_empty() {
            self.bytes += part.len();
            self.collected.push(part);
            if self.bytes >= CHUNK_BYTES {
                self.send_chunk();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! What crosses the channel, and what is too long. The store's tests check that a range encoded twice has the same
    //! bytes.
    use super::*;

    fn header(revision: i64) -> pb::ResponseHeader {
        pb::ResponseHeader { revision, ..Default::default() }
    }

    /// What crosses the channel for parts of these lengths, of which `skip` bytes were sent before: the whole length,
    /// then the chunks; and whether all of it was taken.
    fn crossed(lengths: &[usize], skip: usize, is_taken: bool) -> (usize, Vec<Vec<u8>>, bool) {
        let (parts, mut receiver) = mpsc::channel(MAX_WAITING_CHUNKS);
        let (go_on, goes_on) = std::sync::mpsc::channel();
        let lengths = lengths.to_vec();
        let encoding = std::thread::spawn(move || {
            let used = OnceCell::from(header(7));
            let mut encoder = RangeEncoding::new(&parts, &used, skip);
            encoder.begin(lengths.iter().sum());
            goes_on.recv().expect("the beginning is taken");
            for (number, length) in lengths.iter().enumerate() {
                match encoder.next(*length) {
                    NextChunk::Make => encoder.push(vec![number as u8; *length].into()),
                    NextChunk::Skip => {}
                    NextChunk::Stop => break,
                }
            }
            encoder.send_chunk()
        });
        let Some(RangePart::Begin { header: sent, length }) = receiver.blocking_recv() else {
            panic!("no beginning")
        };
        assert_eq!(sent, header(7));
        go_on.send(()).expect("it waits");
        let mut encoding = Some(encoding);
        let mut all = || encoding.take().expect("it is asked once").join().expect("it ends");
        let early = (!is_taken).then(&mut all);
        let mut chunks = Vec::new();
        while let Some(RangePart::Chunk(chunk)) = receiver.blocking_recv() {
            chunks.push(chunk.concat());
        }
        let all = early.unwrap_or_else(all);
        (length, chunks, all)
    }

    #[test]
    fn parts_cross_together_as_chunks() {
        let (length, chunks, all) = crossed(&[CHUNK_BYTES - 1, 1, 5, 6], 0, true);
        assert_eq!(length, CHUNK_BYTES + 11);
        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [CHUNK_BYTES, 11]);
        assert!(all);
    }

    #[test]
    fn an_encoder_whose_chunks_are_not_taken_ends() {
        let (length, chunks, all) = crossed(&[CHUNK_BYTES; 100], 0, false);
        assert_eq!(length, 100 * CHUNK_BYTES);
        assert_eq!(chunks.len(), MAX_WAITING_CHUNKS);
        assert!(!all);
    }

    #[test]
    fn an_encoder_waits_longer_for_a_client_that_reads() {
        let (parts, mut receiver) = mpsc::channel(MAX_WAITING_CHUNKS);
        let used = OnceCell::from(header(7));
        let mut encoder = RangeEncoding::new(&parts, &used, 0);
        let mut take = || assert!(matches!(receiver.try_recv(), Ok(RangePart::Chunk(_))));
        encoder.push(vec![1; CHUNK_BYTES].into());
        take();
        encoder.push(vec![2; CHUNK_BYTES].into());
        encoder.push(vec![3; CHUNK_BYTES].into());
        assert_eq!(encoder.patience(), Duration::from_millis(10), "the first one waits for the client");
        take();
        encoder.push(vec![4; CHUNK_BYTES].into());
        let longer = Duration::from_millis(100);
        assert_eq!(encoder.patience(), longer, "the second one is taken when the client has the first");
        let next = RangeEncoding::new(&parts, &used, 1);
        assert_eq!(next.patience(), longer, "the client has what an encoder before made");
    }

    #[test]
    fn a_response_too_long_for_a_message_is_refused() {
        assert!(check_length(MAX_MESSAGE_BYTES).is_ok());
        let failure = check_length(MAX_MESSAGE_BYTES + 1).unwrap_err();
        assert_eq!(failure.code, api::Code::ResourceExhausted);
        assert!(failure.message.contains("(2147483648 vs. 2147483647)"), "{}", failure.message);
    }

    #[test]
    fn sent_bytes_are_not_sent_again() {
        for skip in 0..=9 {
            let (length, chunks, _) = crossed(&[2, 4, 3], skip, true);
            assert_eq!(length, 9);
            assert_eq!(chunks.concat(), [0, 0, 1, 1, 1, 1, 2, 2, 2][skip..]);
        }
    }
}
