//! Receives a snapshot on a follower: checks each item and writes it to files that nothing refers to yet.
//!
//! ```text
//! item        Head        Values            Chunk                      ...  End
//! checked     conf state  checksum of each  refers to just these values     index and term of the message
//! written     checkpoint  data segment      checkpoint, addresses replaced
//! ```

use std::collections::VecDeque;

use bytes::Bytes;
use consensus::{Message, SnapshotMeta};
use log::{MAX_CHUNK_BYTES, SnapshotInstaller};
use store::{Restoration, Restored, with_addresses};

use super::format::{ItemKind, ItemReader, SnapshotStreamId, take_value};
use crate::conf_state;

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
    offset: u64,
    items: ItemReader,
    pub(super) installer: Box<SnapshotInstaller>,
    restoration: Restoration,
    /// Address and length of the values of the next chunk, in order.
    addresses: VecDeque<(u64, u32)>,
    head_seen: bool,
    restored: Option<Restored>,
    pub(super) failed: bool,
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
    /// At the beginning of the stream that `message`, about `meta`, opened.
    pub(super) fn new(
        key: StreamKey,
        message: Message,
        meta: SnapshotMeta,
        installer: Box<SnapshotInstaller>,
    ) -> Receiver {
        Receiver {
            key,
            message,
            meta,
            offset: 0,
            items: ItemReader::default(),
            installer,
            restoration: Restoration::default(),
            addresses: VecDeque::new(),
            head_seen: false,
            restored: None,
            failed: false,
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
        self.restored.is_some() && !self.failed
    }

    fn take_items(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.failed || self.restored.is_some() {
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
        self.installer.write_chunk(body).map_err(|error| error.to_string())
    }

    fn take_values(&mut self, mut body: Bytes) -> Result<(), String> {
        while !body.is_empty() {
            let (value, checksum) = take_value(&mut body)?;
            let address = self.installer.write_value(&value, checksum).map_err(|error| error.to_string())?;
            self.addresses.push_back((address, value.len() as u32));
        }
        Ok(())
    }

    fn take_chunk(&mut self, body: &Bytes) -> Result<(), String> {
        if !self.head_seen {
            return Err("a chunk comes before the head".to_owned());
        }
        let addresses = &mut self.addresses;
        let next = |value: &store::ValueRef| {
            addresses.pop_front().filter(|(_, len)| *len == value.len).map(|(address, _)| address)
        };
        let chunk = with_addresses(body, next).map_err(|error| error.to_string())?;
        if !self.addresses.is_empty() {
            return Err("there are more values than the chunk refers to".to_owned());
        }
        self.restoration.push(&chunk).map_err(|error| error.to_string())?;
        for part in chunk.chunks(MAX_CHUNK_BYTES) {
            self.installer.write_chunk(part).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The stream ended: its state must be the one that the message names.
    fn end(&mut self) -> Result<(), String> {
        let restored = std::mem::take(&mut self.restoration).finish().map_err(|error| error.to_string())?;
        let applied = restored.applied();
        if (applied.index, applied.term) != (self.meta.index, self.meta.term) {
            return Err(format!(
                "the state is of entry {}, the message of {}",
                applied.index, self.meta.index
            ));
        }
        if !self.items.is_empty() || !self.addresses.is_empty() {
            return Err("something follows the end".to_owned());
        }
        self.restored = Some(restored);
        Ok(())
    }

    /// The whole snapshot, or the installer to abandon when it is not whole.
    pub(super) fn into_whole(self) -> Result<WholeSnapshot, Box<SnapshotInstaller>> {
        match self.restored {
            Some(restored) if !self.failed => {
                let Receiver { message, meta, installer, .. } = self;
                Ok(WholeSnapshot { message, meta, installer, restored })
            }
            _ => Err(self.installer),
        }
    }
}

/// A snapshot that was received as a whole.
pub(super) struct WholeSnapshot {
    pub(super) message: Message,
    pub(super) meta: SnapshotMeta,
    pub(super) installer: Box<SnapshotInstaller>,
    pub(super) restored: Restored,
}
