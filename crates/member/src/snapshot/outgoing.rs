//! A pinned state as a stream of bytes, read by the thread that sends it.
//!
//! The newest bytes are kept, so that a broken stream can go on where its receiver stands:
//!
//! ```text
//! read so far          0 ............................ 40 MiB
//! kept                              24 MiB .......... 40 MiB     (RESUME_BYTES = 16 MiB)
//! the receiver has     0 ......................... 38 MiB        -> resume(38 MiB): true
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use consensus::SnapshotMeta;
use store::{CheckpointSource, ValueRef, Values, chunk_key, chunk_values};

use super::format::{ItemKind, ItemWriter, SnapshotStreamId, VALUE_HEAD_BYTES, encode_header, put_value};
use crate::conf_state;

/// Bytes already given that are kept, so that a broken stream can go on where its receiver stands: more than the
/// socket buffers of both sides hold. A receiver further behind gets a new snapshot.
pub const RESUME_BYTES: usize = 16 << 20;

/// An item of values is closed at this many bytes or values: one read's worth.
const VALUES_BYTES: usize = 1 << 20;
const VALUES_COUNT: usize = 256;

/// Names a snapshot that was sent, in [`crate::Input::SnapshotSent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentSnapshot {
    pub(super) peer: u64,
    pub(super) sequence: u64,
}

/// Why a snapshot could not be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError {
    /// For operators.
    pub reason: String,
    /// The address of the value that is damaged here, if that is why, and a key whose version refers to it.
    pub damaged: Option<(u64, Option<Bytes>)>,
}

/// A chunk of the store and the values it refers to; the values are sent first.
struct OutgoingChunk {
    bytes: Bytes,
    values: std::vec::IntoIter<ValueRef>,
}

/// A pinned state as a stream of bytes, to be sent by a thread of its own. Reading it blocks on the disk.
pub struct Outgoing {
    peer: u64,
    sequence: u64,
    index: u64,
    header: Bytes,
    head: Option<Bytes>,
    source: CheckpointSource,
    chunk: Option<OutgoingChunk>,
    values: Arc<dyn Values>,
    /// Keeps the files that references in the source point into.
    _pin: log::Pin,
    items: ItemWriter,
    /// The newest bytes, up to `read_bytes`.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    read_bytes: u64,
    /// Offset of what is given next.
    position: u64,
    ended: bool,
    is_given_up: Arc<AtomicBool>,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing")
            .field("peer", &self.peer)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl Outgoing {
    /// The state that `source` gives. `pin` must be older than the source: it keeps the files the source refers to. The
    /// stream ends when the member sets `is_given_up`.
    pub(super) fn new(
        sent: SentSnapshot,
        meta: &SnapshotMeta,
        pin: log::Pin,
        source: CheckpointSource,
        values: Arc<dyn Values>,
        is_given_up: Arc<AtomicBool>,
    ) -> Outgoing {
        Outgoing {
            peer: sent.peer,
            sequence: sent.sequence,
            index: meta.index,
            header: Bytes::new(),
            head: Some(conf_state::encode(&meta.conf_state)),
            _pin: pin,
            source,
            chunk: None,
            values,
            items: ItemWriter::default(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            read_bytes: 0,
            position: 0,
            ended: false,
            is_given_up,
        }
    }

    /// Consensus lets the snapshot leave: its stream from the process run `run` is opened with `message`.
    pub(super) fn open(&mut self, run: u64, message: &[Bytes]) {
        self.header = encode_header(SnapshotStreamId { run, sequence: self.sequence }, message);
    }

    /// The receiving peer.
    pub fn peer(&self) -> u64 {
        self.peer
    }

    /// The header of the stream, sent when it is opened and again after it broke.
    pub fn header(&self) -> Bytes {
        self.header.clone()
    }

    /// Names the snapshot when its end is reported.
    pub fn sent(&self) -> SentSnapshot {
        SentSnapshot { peer: self.peer, sequence: self.sequence }
    }

    /// Goes on at the offset that the receiver wants. Returns false when those bytes are no longer kept.
    pub fn resume(&mut self, offset: u64) -> bool {
        let kept = self.read_bytes - self.kept_bytes as u64..=self.read_bytes;
        let possible = kept.contains(&offset);
        if possible {
            self.position = offset;
        }
        possible
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// A value is damaged here, or the member gave the snapshot up: the stream cannot go on.
    pub fn next_bytes(&mut self) -> Result<Option<Bytes>, SendError> {
        if self.is_given_up.load(Ordering::Relaxed) {
            let reason = "snapshot cancelled: the log or history that it needs was released to free space";
            return Err(SendError { reason: reason.to_owned(), damaged: None });
        }
        if self.position == self.read_bytes {
            let Some(item) = self.next_item()? else { return Ok(None) };
            self.keep(item);
        }
        let mut start = self.read_bytes - self.kept_bytes as u64;
        for item in &self.kept {
            let end = start + item.len() as u64;
            if self.position < end {
                let rest = item.slice((self.position - start) as usize..);
                self.position = end;
                return Ok(Some(rest));
            }
            start = end;
        }
        unreachable!("bytes that were read and not given are kept")
    }

    fn keep(&mut self, item: Bytes) {
        self.read_bytes += item.len() as u64;
        self.kept_bytes += item.len();
        self.kept.push_back(item);
        while self.kept.front().is_some_and(|oldest| self.kept_bytes - oldest.len() >= RESUME_BYTES) {
            self.kept_bytes -= self.kept.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    fn next_item(&mut self) -> Result<Option<Bytes>, SendError> {
        if let Some(head) = self.head.take() {
            return Ok(Some(self.items.frame(ItemKind::Head, &head)));
        }
        if self.chunk.is_none() {
            let Some(bytes) = self.source.next() else { return Ok(self.end()) };
            let values = chunk_values(&bytes)
                .map_err(|error| SendError { reason: error.to_string(), damaged: None })?;
            self.chunk = Some(OutgoingChunk { bytes, values: values.into_iter() });
        }
        let chunk = self.chunk.as_mut().expect("one was just made");
        let wanted = next_values(&mut chunk.values);
        if wanted.is_empty() {
            let chunk = self.chunk.take().map_or_else(Bytes::new, |chunk| chunk.bytes);
            return Ok(Some(self.items.frame(ItemKind::Chunk, &chunk)));
        }
        let read = self.values.read_many(&wanted).map_err(|error| SendError {
            reason: error.to_string(),
            damaged: (!error.is_transient).then(|| (error.address, chunk_key(&chunk.bytes, error.address))),
        })?;
        let bytes: usize = read.iter().map(|value| VALUE_HEAD_BYTES + value.len()).sum();
        let mut body = Vec::with_capacity(bytes);
        for (value, reference) in read.iter().zip(&wanted) {
            put_value(&mut body, value, reference.checksum);
        }
        Ok(Some(self.items.frame(ItemKind::Values, &body)))
    }

    fn end(&mut self) -> Option<Bytes> {
        if std::mem::replace(&mut self.ended, true) { None } else { Some(self.items.end()) }
    }
}

/// Some of the values: at least one, as long as there are any.
fn next_values(values: &mut std::vec::IntoIter<ValueRef>) -> Vec<ValueRef> {
    let mut bytes = 0;
    let mut wanted = Vec::new();
    while let Some(value) = values.as_slice().first() {
        bytes += value.len as usize;
        if !wanted.is_empty() && (bytes > VALUES_BYTES || wanted.len() == VALUES_COUNT) {
            break;
        }
        wanted.extend(values.next());
    }
    wanted
}
