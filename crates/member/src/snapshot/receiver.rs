//! Receives a snapshot on a follower: checks each item and writes it to files that nothing refers to yet.
//!
//! ```text
//! item        Head        Values            Chunk                      ...  End
//! checked     conf state  checksum of each  refers to just these values     index and term of the message
//! written     checkpoint  data segment      checkpoint, addresses replaced  all of it synced
//! ```
//!
//! All that takes time in proportion to the state happens here, on the thread that reads the stream: building the
//! index, syncing, and counting its references by file. What is left for the raft loop is to exchange one state for
//! another.

use std::collections::VecDeque;

use bytes::Bytes;
use consensus::{Message, SnapshotMeta};
use log::{InstallDone, JobError, Log, MAX_CHUNK_BYTES, ReferenceCounts, SnapshotInstaller};
use store::{ReplacedState, Restoration, Restored, Store, with_addresses};

use super::format::{ItemKind, ItemReader, SnapshotStreamId, take_value};
use crate::conf_state;
use crate::maintenance::memory::MemoryShare;

/// An index that is being built takes about so many bytes for each version with a value, beside the bytes of the chunks
/// that it is built from (RFC 0016).
const VERSION_MEMORY_BYTES: u64 = 50;

/// The sender, and which of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamKey {
    pub(super) from: u64,
    pub(super) id: SnapshotStreamId,
}

/// Receives one snapshot. It belongs to the thread that reads the stream; its calls block on the disk.
pub struct Receiver {
    pub(super) key: StreamKey,
    message: Message,
    meta: SnapshotMeta,
    /// This member's, which the state must have.
    lineage: u64,
    offset: u64,
    items: ItemReader,
    installer: Box<SnapshotInstaller>,
    restoration: Restoration,
    /// What the chunks so far take of memory, about.
    memory_bytes: u64,
    memory: MemoryShare,
    /// Address and length of the values of the next chunk, in order.
    addresses: VecDeque<(u64, u32)>,
    head_seen: bool,
    received: Option<(Restored, ReferenceCounts)>,
    pub(super) failed: bool,
    /// It failed because the disk is full.
    pub(super) lacked_space: bool,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver")
            .field("key", &self.key)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Receiver {
    /// At the beginning of the stream that `message`, about `meta`, opened. `lineage` is that of this member's cluster,
    /// `memory` the stream's share of what is accounted.
    pub(super) fn new(
        key: StreamKey,
        message: Message,
        meta: SnapshotMeta,
        lineage: u64,
        installer: Box<SnapshotInstaller>,
        memory: MemoryShare,
    ) -> Receiver {
        Receiver {
            key,
            message,
            meta,
            lineage,
            offset: 0,
            items: ItemReader::default(),
            installer,
            restoration: Restoration::default(),
            memory_bytes: 0,
            memory,
            addresses: VecDeque::new(),
            head_seen: false,
            received: None,
            failed: false,
            lacked_space: false,
        }
    }

    /// The offset from which it wants the stream.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the bytes at [`Receiver::offset`].
    ///
    /// # Errors
    /// Why the snapshot is refused; for the sender. The receiver is of no further use.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let taken = self.take_items(bytes);
        self.failed |= taken.is_err();
        taken
    }

    /// Whether the whole snapshot was received.
    pub fn is_whole(&self) -> bool {
        self.received.is_some() && !self.failed
    }

    fn take_items(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.failed || self.received.is_some() {
            return Err("the stream goes on behind its end".to_owned());
        }
        self.offset += bytes.len() as u64;
        self.items.push(bytes);
        while let Some((kind, body)) = self.items.take()? {
            match kind {
                ItemKind::Head => self.take_head(&body)?,
                ItemKind::Values => self.take_values(body)?,
                ItemKind::Chunk => self.take_chunk(&body)?,
                ItemKind::End => return self.end(),
            }
        }
        Ok(())
    }

    fn take_head(&mut self, body: &Bytes) -> Result<(), String> {
        let fits = conf_state::decode(body).is_some_and(|conf| conf == self.meta.conf_state);
        if self.head_seen || !fits {
            return Err("the head of the checkpoint is not the one the message names".to_owned());
        }
        self.head_seen = true;
        self.installer.write_chunk(body).map_err(|error| self.disk_failed(&error))
    }

    fn take_values(&mut self, mut body: Bytes) -> Result<(), String> {
        while !body.is_empty() {
            let (value, checksum) = take_value(&mut body)?;
            let written = self.installer.write_value(&value, checksum);
            let address = written.map_err(|error| self.disk_failed(&error))?;
            self.addresses.push_back((address, value.len() as u32));
        }
        Ok(())
    }

    fn take_chunk(&mut self, body: &Bytes) -> Result<(), String> {
        if !self.head_seen {
            return Err("a chunk comes before the head".to_owned());
        }
        let addresses = &mut self.addresses;
        let values = addresses.len() as u64;
        let next = |value: &store::ValueRef| {
            addresses.pop_front().filter(|(_, len)| *len == value.len).map(|(address, _)| address)
        };
        let chunk = with_addresses(body, next).map_err(|error| error.to_string())?;
        if !self.addresses.is_empty() {
            return Err("there are more values than the chunk refers to".to_owned());
        }
        self.restoration.push(&chunk).map_err(|error| error.to_string())?;
        self.memory_bytes += chunk.len() as u64 + values * VERSION_MEMORY_BYTES;
        self.memory.set(self.memory_bytes);
        for part in chunk.chunks(MAX_CHUNK_BYTES) {
            self.installer.write_chunk(part).map_err(|error| self.disk_failed(&error))?;
        }
        Ok(())
    }

    /// The stream ended: its state must be the one that the message names. It is made durable while the sender still
    /// waits, so that a full disk fails the snapshot and nothing else.
    fn end(&mut self) -> Result<(), String> {
        let restored = std::mem::take(&mut self.restoration).finish().map_err(|error| error.to_string())?;
        let applied = restored.applied();
        if (applied.index, applied.term) != (self.meta.index, self.meta.term) {
            return Err(format!(
                "the state is of entry {}, the message of {}",
                applied.index, self.meta.index
            ));
        }
        if restored.lineage() != self.lineage {
            return Err(format!(
                "the state is of lineage {:x}, this member of {:x}: one of them is of a forced cluster",
                restored.lineage(),
                self.lineage
            ));
        }
        if !self.items.is_empty() || !self.addresses.is_empty() {
            return Err("something follows the end".to_owned());
        }
        self.installer.make_durable().map_err(|error| self.disk_failed(&error))?;
        let references = restored.values().map(|value| (value.address, value.len)).collect();
        self.memory.set(restored.memory().total());
        self.received = Some((restored, references));
        Ok(())
    }

    /// Notes what a failure of the disk means. Returns the reason for the sender.
    fn disk_failed(&mut self, error: &JobError) -> String {
        self.lacked_space |= error.is_full();
        error.to_string()
    }

    /// What its sender says about the snapshot.
    pub(super) fn meta(&self) -> &SnapshotMeta {
        &self.meta
    }

    /// The message that announced it.
    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    /// The parts of a snapshot that was received as a whole.
    ///
    /// # Panics
    /// If it was not.
    pub(super) fn into_whole(self) -> WholeSnapshot {
        let (restored, references) = self.received.filter(|_| !self.failed).expect("it is whole");
        let state = ReceivedState { restored, references, memory: self.memory };
        WholeSnapshot { from: self.key.from, meta: self.meta, installer: self.installer, state }
    }

    /// Gives up what was received, and removes its files.
    pub(crate) fn abandon(self) -> InstallDone {
        self.installer.abandon(JobError::Superseded)
    }
}

/// A snapshot that was received as a whole.
pub(super) struct WholeSnapshot {
    /// The sender.
    pub(super) from: u64,
    pub(super) meta: SnapshotMeta,
    pub(super) installer: Box<SnapshotInstaller>,
    pub(super) state: ReceivedState,
}

/// A state that was received as a whole, with its references counted.
pub(crate) struct ReceivedState {
    restored: Restored,
    references: ReferenceCounts,
    memory: MemoryShare,
}

impl ReceivedState {
    /// Switches store and log to this state, in a time that depends on the number of files alone. Returns the state
    /// before.
    pub(crate) fn install(self, store: &mut Store, log: &mut Log) -> OldState {
        let ReceivedState { restored, references, mut memory } = self;
        let state = store.install(restored);
        log.install_switched(&references);
        memory.set(state.memory().total());
        OldState { _state: state, _memory: memory }
    }
}

/// A state that a snapshot replaced, with its share of what is accounted. Dropping it takes time in proportion to the
/// state.
pub struct OldState {
    _state: ReplacedState,
    _memory: MemoryShare,
}
