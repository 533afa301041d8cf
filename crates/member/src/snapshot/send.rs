//! The leader's side: a pinned state as a stream of bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use consensus::SnapshotMeta;
use store::{CheckpointSource, ValueRef, Values, chunk_values};

use super::format::{ItemKind, ItemWriter, StreamId, VALUE_HEAD_BYTES, encode_header, put_value};
use crate::io::{Notice, Output, SnapshotEvent};
use crate::member::Member;

/// Bytes already given that are kept, so that a broken stream can go on where its receiver stands: more than the
/// socket buffers of both sides hold. A receiver further behind gets a new snapshot.
pub const RESUME_BYTES: usize = 16 << 20;

/// Snapshots sent at a time: each pins files and history. Other peers are named again and wait their turn.
pub const MAX_RUNNING: usize = 2;

/// An item of values is closed at this many bytes or values: one read's worth.
const VALUES_BYTES: usize = 1 << 20;
const VALUES_COUNT: usize = 256;

/// A snapshot that is being sent.
pub(super) struct Running {
    /// The last entry it includes.
    pub(super) index: u64,
    sequence: u64,
    /// Waits here from the offer until consensus says that it leaves.
    outgoing: Option<Box<Outgoing>>,
}

/// Names a snapshot that was sent, in [`crate::Input::SnapshotSent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    peer: u64,
    sequence: u64,
}

/// Why a snapshot could not be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError {
    /// For operators.
    pub reason: String,
    /// The place of the value that is damaged here, if that is why.
    pub damaged: Option<u64>,
}

/// A chunk on its way: its values go first.
struct Chunk {
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
    chunk: Option<Chunk>,
    values: Arc<dyn Values>,
    /// Keeps the files that references in the source point into.
    _pin: log::Pin,
    items: ItemWriter,
    /// The newest bytes, up to `made`.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    made: u64,
    /// What is given next.
    position: u64,
    ended: bool,
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
    /// To whom.
    pub fn peer(&self) -> u64 {
        self.peer
    }

    /// What the stream is opened with, at first and again when it broke.
    pub fn header(&self) -> Bytes {
        self.header.clone()
    }

    /// Names it when its end is reported.
    pub fn sent(&self) -> Sent {
        Sent { peer: self.peer, sequence: self.sequence }
    }

    /// Goes on at the offset the receiver wants. False when those bytes are no longer kept.
    pub fn resume(&mut self, offset: u64) -> bool {
        let kept = self.made - self.kept_bytes as u64..=self.made;
        let possible = kept.contains(&offset);
        if possible {
            self.position = offset;
        }
        possible
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// A value is damaged here: the stream cannot go on.
    pub fn next_bytes(&mut self) -> Result<Option<Bytes>, SendError> {
        if self.position == self.made {
            let Some(item) = self.next_item()? else { return Ok(None) };
            self.keep(item);
        }
        let mut start = self.made - self.kept_bytes as u64;
        for piece in &self.kept {
            let end = start + piece.len() as u64;
            if self.position < end {
                let rest = piece.slice((self.position - start) as usize..);
                self.position = end;
                return Ok(Some(rest));
            }
            start = end;
        }
        unreachable!("what was made and not given is kept")
    }

    fn keep(&mut self, item: Bytes) {
        self.made += item.len() as u64;
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
            self.chunk = Some(Chunk { bytes, values: values.into_iter() });
        }
        let chunk = self.chunk.as_mut().expect("one was just made");
        let wanted = next_values(&mut chunk.values);
        if wanted.is_empty() {
            let chunk = self.chunk.take().map_or_else(Bytes::new, |chunk| chunk.bytes);
            return Ok(Some(self.items.frame(ItemKind::Chunk, &chunk)));
        }
        let read = self
            .values
            .read_many(&wanted)
            .map_err(|damaged| SendError { reason: damaged.to_string(), damaged: Some(damaged.address) })?;
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

impl Member {
    /// A peer needs a snapshot: pins the state as it is now and offers it.
    pub(crate) fn prepare_snapshot(&mut self, peer: u64) {
        let running = &self.snapshots.running;
        if running.contains_key(&peer) || running.len() >= MAX_RUNNING || self.snapshots.is_installing() {
            return;
        }
        let meta = SnapshotMeta {
            index: self.backlog.applied(),
            term: self.backlog.applied_term(),
            conf_state: self.consensus.status().conf_state,
        };
        if !self.consensus.offer_snapshot(peer, &meta) {
            return;
        }
        self.snapshots.next_sequence += 1;
        let sequence = self.snapshots.next_sequence;
        let outgoing = Outgoing {
            peer,
            sequence,
            index: meta.index,
            header: Bytes::new(),
            head: Some(crate::head::encode(&meta.conf_state)),
            // The pin comes first: it keeps what the source will refer to.
            _pin: self.log.reader().pin(),
            source: self.store.begin_snapshot(),
            chunk: None,
            values: self.values.clone(),
            items: ItemWriter::default(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            made: 0,
            position: 0,
            ended: false,
        };
        let running = Running { index: meta.index, sequence, outgoing: Some(Box::new(outgoing)) };
        self.snapshots.running.insert(peer, running);
    }

    /// Consensus lets the offered snapshot leave, with this message.
    pub(crate) fn stream_snapshot(
        &mut self,
        to: u64,
        meta: &SnapshotMeta,
        message: &[Bytes],
        out: &mut Output,
    ) {
        let running = self.snapshots.running.get_mut(&to).filter(|running| running.index == meta.index);
        let Some(mut outgoing) = running.and_then(|running| running.outgoing.take()) else {
            return self.consensus.report_snapshot(to, false);
        };
        let id = StreamId { start: self.config.start, sequence: outgoing.sequence };
        outgoing.header = encode_header(id, message);
        let event = SnapshotEvent::Sending { index: meta.index };
        out.notices.push(Notice::Snapshot { peer: to, event });
        out.snapshots.push(outgoing);
    }

    /// A stream has ended, for good or not.
    pub(crate) fn on_snapshot_sent(&mut self, sent: Sent, result: Result<(), SendError>, out: &mut Output) {
        let Sent { peer, sequence } = sent;
        let is_current = |running: &&Running| running.sequence == sequence;
        let Some(index) = self.snapshots.running.get(&peer).filter(is_current).map(|running| running.index)
        else {
            return;
        };
        self.snapshots.running.remove(&peer);
        self.consensus.report_snapshot(peer, result.is_ok());
        let event = match result {
            Ok(()) => {
                self.snapshots.following.insert(peer, index);
                SnapshotEvent::Sent { index }
            }
            Err(SendError { reason, damaged }) => {
                if let Some(address) = damaged {
                    self.repair_value(address, out);
                }
                SnapshotEvent::NotSent { index, reason }
            }
        };
        out.notices.push(Notice::Snapshot { peer, event });
    }

    /// Leadership changed: what was offered and has not left never will.
    pub(crate) fn drop_unsent_snapshots(&mut self) {
        self.snapshots.running.retain(|_, running| running.outgoing.is_none());
    }

    /// Looks how far those are that got a snapshot: what they need next must not go before they have it, or they would
    /// need another snapshot.
    pub(crate) fn watch_followers(&mut self) {
        if self.snapshots.following.is_empty() {
            return;
        }
        let peers = self.consensus.status().peers;
        let kept_anyway = self.backlog.applied().saturating_sub(self.config.catchup_entries);
        self.snapshots.following.retain(|id, at| {
            let Some(peer) = peers.iter().find(|peer| peer.id == *id && peer.recent_active) else {
                return false;
            };
            *at = peer.matched.max(*at);
            // Within half of what is kept it will not fall behind again at once.
            *at < kept_anyway + self.config.catchup_entries / 2
        });
    }
}
