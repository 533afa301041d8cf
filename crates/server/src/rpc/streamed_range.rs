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
//!   encodes from the beginning     -> Chunk(1 MiB): bytes 2 to 3 MiB  ->  sends it, and so on
//! ```
//!
//! So the response is never in memory as a whole. Encoding the same range twice at the same revision gives the same
//! bytes, which is why the bytes that were sent can be skipped.

use std::cell::OnceCell;
use std::sync::Arc;

use api::etcdserverpb as pb;
use bytes::{Buf, Bytes};
use store::{ChunkSink, Damaged};
use tokio::sync::mpsc;

use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

/// Bytes that cross the channel at once: each crossing wakes the RPC worker, and then the client.
const CHUNK_BYTES: usize = 1 << 20;

/// Ranges that have this many keys, or examine more keys and changes of the past, are encoded on a thread of their own:
/// about half a millisecond of work.
pub(super) const MIN_LARGE_RANGE_STEPS: usize = 1_000;

/// Longest message a client of grpc-go accepts; etcd sends no longer one either.
const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

/// The response of a unary call.
pub(super) enum UnaryResponse {
    /// The whole message.
    Whole(EncodedMessage),
    /// One message, sent while it is encoded.
    Streamed(StreamedRange),
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
    parts: mpsc::UnboundedReceiver<RangePart>,
    known: KnownDamage,
}

/// What crosses the channel.
enum RangePart {
    Begin { header: pb::ResponseHeader, length: usize },
    Chunk(Vec<Bytes>),
    Damaged(Damaged),
    Failed(api::Error),
}

impl StreamedRange {
    /// Begins to encode a range. Returns when the length is known.
    ///
    /// # Errors
    /// What is wrong with the request, and damage that cannot be repaired.
    pub(super) async fn begin(node: &Arc<Node>, request: pb::RangeRequest) -> Result<StreamedRange, Failure> {
        loop {
            let mut parts = encode(node, &request, None, 0).await;
            match parts.recv().await {
                Some(RangePart::Begin { header, length }) => {
                    check_length(length)?;
                    let revision = if request.revision > 0 { request.revision } else { header.revision };
                    let request = pb::RangeRequest { revision, ..request };
                    let (node, known) = (node.clone(), KnownDamage::default());
                    return Ok(StreamedRange { node, request, header, length, sent: 0, parts, known });
                }
                Some(RangePart::Damaged(damaged)) => node.repair(&damaged).await?,
                Some(RangePart::Failed(error)) => return Err(error.into()),
                Some(RangePart::Chunk(_)) | None => return Err(Failure::unexpected()),
            }
        }
    }

    /// Bytes of the whole message.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The next bytes; `None` at the end.
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
                Some(RangePart::Damaged(damaged)) => {
                    if let Err(failure) = self.resume(&damaged).await {
                        return Some(Err(failure));
                    }
                }
                Some(RangePart::Failed(error)) => return Some(Err(error.into())),
                None if self.sent == self.length => return None,
                None => return Some(Err(Failure::unexpected())),
            }
        }
    }

    /// Has damage repaired and the rest encoded.
    async fn resume(&mut self, damaged: &Damaged) -> Result<(), Failure> {
        self.known.repair(&self.node, damaged).await?;
        self.parts = encode(&self.node, &self.request, Some(self.header), self.sent).await;
        Ok(())
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

/// Waits for a permit, then has a range encoded, without its first `skip` bytes; with `header`, if an encoder ran
/// before.
async fn encode(
    node: &Arc<Node>,
    request: &pb::RangeRequest,
    header: Option<pb::ResponseHeader>,
    skip: usize,
) -> mpsc::UnboundedReceiver<RangePart> {
    let (parts, receiver) = mpsc::unbounded_channel();
    let (on, request) = (node.clone(), request.clone());
    let encoding = node.large_ranges.begin(move || {
        let _pin = on.pin();
        let used = OnceCell::new();
        let choose = |revision| *used.get_or_init(|| header.unwrap_or_else(|| on.header(revision)));
        let mut encoder =
            RangeEncoding { parts: &parts, header: &used, skip, collected: Vec::new(), bytes: 0 };
        let end = match on.reader.encode_range(&request, choose, &mut encoder) {
            Ok(Ok(())) => return encoder.send_chunk(),
            Ok(Err(error)) => RangePart::Failed(error),
            Err(damaged) => {
                encoder.send_chunk();
                RangePart::Damaged(damaged)
            }
        };
        let _ = parts.send(end);
    });
    // The end is reported through the channel.
    drop(encoding.await);
    receiver
}

/// The encoder's end of the channel. When the call has ended, what is sent is dropped.
struct RangeEncoding<'a> {
    parts: &'a mpsc::UnboundedSender<RangePart>,
    /// Known before the length is.
    header: &'a OnceCell<pb::ResponseHeader>,
    /// Bytes that were sent before.
    skip: usize,
    /// What crosses together, and its bytes.
    collected: Vec<Bytes>,
    bytes: usize,
}

impl RangeEncoding<'_> {
    fn send_chunk(&mut self) {
        self.bytes = 0;
        if !self.collected.is_empty() {
            let _ = self.parts.send(RangePart::Chunk(std::mem::take(&mut self.collected)));
        }
    }
}

impl ChunkSink for RangeEncoding<'_> {
    fn begin(&mut self, bytes: usize) {
        let Some(header) = self.header.get().copied() else { return };
        let _ = self.parts.send(RangePart::Begin { header, length: bytes });
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
    /// then the chunks.
    fn crossed(lengths: &[usize], skip: usize) -> (usize, Vec<Vec<u8>>) {
        let (parts, mut receiver) = mpsc::unbounded_channel();
        let used = OnceCell::from(header(7));
        let mut encoder =
            RangeEncoding { parts: &parts, header: &used, skip, collected: Vec::new(), bytes: 0 };
        encoder.begin(lengths.iter().sum());
        for (number, length) in lengths.iter().enumerate() {
            encoder.push(vec![number as u8; *length].into());
        }
        encoder.send_chunk();
        drop(parts);
        let Some(RangePart::Begin { header: sent, length }) = receiver.blocking_recv() else {
            panic!("no beginning")
        };
        assert_eq!(sent, header(7));
        let mut chunks = Vec::new();
        while let Some(RangePart::Chunk(chunk)) = receiver.blocking_recv() {
            chunks.push(chunk.concat());
        }
        (length, chunks)
    }

    #[test]
    fn parts_cross_together_as_chunks() {
        let (length, chunks) = crossed(&[CHUNK_BYTES - 1, 1, 5, 6], 0);
        assert_eq!(length, CHUNK_BYTES + 11);
        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [CHUNK_BYTES, 11]);
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
            let (length, chunks) = crossed(&[2, 4, 3], skip);
            assert_eq!(length, 9);
            assert_eq!(chunks.concat(), [0, 0, 1, 1, 1, 1, 2, 2, 2][skip..]);
        }
    }
}
