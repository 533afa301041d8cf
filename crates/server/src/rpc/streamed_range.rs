//! Long lists: made on a thread of their own, and sent while they are made.
//!
//! The maker's pieces cross a channel to the call, which hands them to its connection. When a value turns out to be
//! damaged behind pieces that were sent already, it is repaired and the list is made once more, at the same revision and
//! with the same header; that gives the same bytes, so those that were sent are skipped.

use std::cell::OnceCell;
use std::sync::Arc;

use api::etcdserverpb as pb;
use bytes::{Buf, Bytes};
use store::{ChunkSink, Damaged};
use tokio::sync::mpsc;

use super::kv::Met;
use super::{Encoded, Failure};
use crate::node::Node;

/// Bytes that cross the channel at once: each crossing wakes the call's worker, and then the client.
const CROSSING_BYTES: usize = 1 << 20;

/// What a unary call is answered with.
pub(super) enum Answer {
    /// All of it.
    Whole(Encoded),
    /// One message, as it is made.
    Growing(StreamedRange),
}

impl From<Encoded> for Answer {
    fn from(encoded: Encoded) -> Answer {
        Answer::Whole(encoded)
    }
}

/// A list whose length is known.
pub(super) struct StreamedRange {
    node: Arc<Node>,
    /// With the revision it is made at.
    request: pb::RangeRequest,
    header: pb::ResponseHeader,
    length: usize,
    sent: usize,
    parts: mpsc::UnboundedReceiver<Part>,
    met: Met,
}

/// What the maker says.
enum Part {
    Begin { header: pb::ResponseHeader, length: usize },
    Pieces(Vec<Bytes>),
    Damaged(Damaged),
    Failed(api::Error),
}

impl StreamedRange {
    /// Has a list made. Returns when its length is known.
    ///
    /// # Errors
    /// What is wrong with the request, and damage that cannot be repaired.
    pub(super) async fn begin(node: &Arc<Node>, request: pb::RangeRequest) -> Result<StreamedRange, Failure> {
        loop {
            let mut parts = make(node, &request, None, 0).await;
            match parts.recv().await {
                Some(Part::Begin { header, length }) => {
                    check_length(length)?;
                    let revision = if request.revision > 0 { request.revision } else { header.revision };
                    let request = pb::RangeRequest { revision, ..request };
                    let node = node.clone();
                    return Ok(StreamedRange {
                        node,
                        request,
                        header,
                        length,
                        sent: 0,
                        parts,
                        met: Met::default(),
                    });
                }
                Some(Part::Damaged(damaged)) => node.repair(&damaged).await?,
                Some(Part::Failed(error)) => return Err(error.into()),
                Some(Part::Pieces(_)) | None => return Err(Failure::unexpected()),
            }
        }
    }

    /// Bytes of all pieces.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The next pieces; `None` after the last.
    ///
    /// # Errors
    /// Damage that cannot be repaired.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<Bytes>, Failure>> {
        loop {
            match self.parts.recv().await {
                // A list that is made again begins again, and must be the same.
                Some(Part::Begin { length, .. }) if length == self.length => {}
                Some(Part::Begin { .. }) => return Some(Err(Failure::unexpected())),
                Some(Part::Pieces(pieces)) => {
                    self.sent += pieces.iter().map(Bytes::len).sum::<usize>();
                    let fits = self.sent <= self.length;
                    return Some(if fits { Ok(pieces) } else { Err(Failure::unexpected()) });
                }
                Some(Part::Damaged(damaged)) => {
                    if let Err(failure) = self.resume(&damaged).await {
                        return Some(Err(failure));
                    }
                }
                Some(Part::Failed(error)) => return Some(Err(error.into())),
                None if self.sent == self.length => return None,
                None => return Some(Err(Failure::unexpected())),
            }
        }
    }

    /// Heals and has the rest made.
    async fn resume(&mut self, damaged: &Damaged) -> Result<(), Failure> {
        self.met.repair(&self.node, damaged).await?;
        self.parts = make(&self.node, &self.request, Some(self.header), self.sent).await;
        Ok(())
    }
}

/// Longest message a client of grpc-go takes at all; etcd sends none that is longer either.
const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

/// Refuses what cannot be sent as one message, in the words of grpc-go.
fn check_length(length: usize) -> Result<(), Failure> {
    if length <= MAX_MESSAGE_BYTES {
        return Ok(());
    }
    let text = format!("grpc: trying to send message larger than max ({length} vs. {MAX_MESSAGE_BYTES})");
    Err(Failure::new(api::Code::ResourceExhausted, text))
}

/// Has a list made in its turn, but for the first `skip` bytes; under `header`, if there was one before.
async fn make(
    node: &Arc<Node>,
    request: &pb::RangeRequest,
    header: Option<pb::ResponseHeader>,
    skip: usize,
) -> mpsc::UnboundedReceiver<Part> {
    let (parts, receiver) = mpsc::unbounded_channel();
    let (on, request) = (node.clone(), request.clone());
    // How it ends is heard through the channel.
    let listing = node.large_ranges.begin(move || {
        let _pin = on.pin();
        let used = OnceCell::new();
        let choose = |revision| *used.get_or_init(|| header.unwrap_or_else(|| on.header(revision)));
        let mut maker = Maker { parts: &parts, header: &used, skip, gathered: Vec::new(), bytes: 0 };
        let told = match on.reader.encode_range(&request, choose, &mut maker) {
            Ok(Ok(())) => return maker.let_go(),
            Ok(Err(error)) => Part::Failed(error),
            Err(damaged) => {
                maker.let_go();
                Part::Damaged(damaged)
            }
        };
        let _ = parts.send(told);
    });
    drop(listing.await);
    receiver
}

/// The maker's end of the channel. When the call has gone, nobody listens any more.
struct Maker<'a> {
    parts: &'a mpsc::UnboundedSender<Part>,
    /// Known before anything is told.
    header: &'a OnceCell<pb::ResponseHeader>,
    /// Bytes that were sent before.
    skip: usize,
    /// What crosses together, and its bytes.
    gathered: Vec<Bytes>,
    bytes: usize,
}

impl Maker<'_> {
    fn let_go(&mut self) {
        self.bytes = 0;
        if !self.gathered.is_empty() {
            let _ = self.parts.send(Part::Pieces(std::mem::take(&mut self.gathered)));
        }
    }
}

impl ChunkSink for Maker<'_> {
    fn begin(&mut self, bytes: usize) {
        let Some(header) = self.header.get().copied() else { return };
        let _ = self.parts.send(Part::Begin { header, length: bytes });
    }

    fn push(&mut self, mut piece: Bytes) {
        let skipped = self.skip.min(piece.len());
        self.skip -= skipped;
        piece.advance(skipped);
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.gathered.push(piece);
            if self.bytes >= CROSSING_BYTES {
                self.let_go();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! What crosses the channel, and what is too long. That a list made again has the same bytes is held by the store's
    //! tests.
    use super::*;

    fn header(revision: i64) -> pb::ResponseHeader {
        pb::ResponseHeader { revision, ..Default::default() }
    }

    /// What a call hears of pieces of these lengths, of which it has `skip` bytes: the length told, then what crosses.
    fn heard(lengths: &[usize], skip: usize) -> (usize, Vec<Vec<u8>>) {
        let (parts, mut receiver) = mpsc::unbounded_channel();
        let used = OnceCell::from(header(7));
        let mut maker = Maker { parts: &parts, header: &used, skip, gathered: Vec::new(), bytes: 0 };
        maker.begin(lengths.iter().sum());
        for (number, length) in lengths.iter().enumerate() {
            maker.push(vec![number as u8; *length].into());
        }
        maker.let_go();
        drop(parts);
        let Some(Part::Begin { header: told, length }) = receiver.blocking_recv() else {
            panic!("no beginning")
        };
        assert_eq!(told, header(7));
        let mut crossed = Vec::new();
        while let Some(Part::Pieces(pieces)) = receiver.blocking_recv() {
            crossed.push(pieces.concat());
        }
        (length, crossed)
    }

    #[test]
    fn pieces_cross_together_until_they_are_worth_it() {
        let (length, crossed) = heard(&[CROSSING_BYTES - 1, 1, 5, 6], 0);
        assert_eq!(length, CROSSING_BYTES + 11);
        assert_eq!(crossed.iter().map(Vec::len).collect::<Vec<_>>(), [CROSSING_BYTES, 11]);
    }

    #[test]
    fn what_is_too_long_for_a_message_is_refused() {
        assert!(check_length(MAX_MESSAGE_BYTES).is_ok());
        let failure = check_length(MAX_MESSAGE_BYTES + 1).unwrap_err();
        assert_eq!(failure.code, api::Code::ResourceExhausted);
        assert!(failure.message.contains("(2147483648 vs. 2147483647)"), "{}", failure.message);
    }

    #[test]
    fn what_the_call_has_is_not_sent_again() {
        for skip in 0..=9 {
            let (length, crossed) = heard(&[2, 4, 3], skip);
            assert_eq!(length, 9);
            assert_eq!(crossed.concat(), [0, 0, 1, 1, 1, 1, 2, 2, 2][skip..]);
        }
    }
}
