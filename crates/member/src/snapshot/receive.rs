//! The follower's side, as long as a snapshot arrives: what comes is checked and written where nobody looks yet.

use std::collections::VecDeque;

use bytes::Bytes;
use consensus::{Body, Message, SnapshotMeta};
use log::{LogId, MAX_CHUNK_BYTES, SnapshotInstaller};
use store::{Restoration, Restored, with_addresses};

use super::format::{ItemKind, ItemReader, StreamId, decode_header, take_value};
use crate::background::Job;
use crate::io::{Answer, Notice, Now, Output, SnapshotEvent};
use crate::member::Member;

/// What was received of a broken stream is kept this long, for its sender to go on. A sender tries again at once.
const RESUME_WITHIN_NS: u64 = 60_000_000_000;

/// Who sends, and which of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    from: u64,
    id: StreamId,
}

/// The one snapshot that is being received.
pub(super) struct Receiving {
    key: Key,
    term: u64,
    /// Here while its stream is broken, and since when.
    paused: Option<(Box<Receiver>, u64)>,
}

/// Receives a snapshot: belongs to the thread that reads the stream. Its calls block on the disk.
pub struct Receiver {
    key: Key,
    message: Message,
    meta: SnapshotMeta,
    offset: u64,
    items: ItemReader,
    installer: Box<SnapshotInstaller>,
    restoration: Restoration,
    /// Where the values of the next chunk were written, and how long each is.
    addresses: VecDeque<(u64, u32)>,
    head_seen: bool,
    restored: Option<Restored>,
    failed: bool,
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
    /// From where on it wants the stream.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the bytes at [`Receiver::offset`].
    ///
    /// # Errors
    /// Why it gives up: for the sender. What it had is of no use any more.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let taken = self.take_items(bytes);
        self.failed |= taken.is_err();
        taken
    }

    /// Whether all of it is here.
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
        let fits = crate::head::decode(body).is_some_and(|conf| conf == self.meta.conf_state);
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
        for piece in chunk.chunks(MAX_CHUNK_BYTES) {
            self.installer.write_chunk(piece).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The state must be the one the message speaks of.
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

    /// What an installation needs, or only what is to be given up when it is not whole.
    pub(super) fn into_parts(self) -> Result<Parts, Box<SnapshotInstaller>> {
        match self.restored {
            Some(restored) if !self.failed => {
                let Receiver { message, meta, installer, .. } = self;
                Ok(Parts { message, meta, installer, restored })
            }
            _ => Err(self.installer),
        }
    }
}

/// A whole snapshot.
pub(super) struct Parts {
    message: Message,
    meta: SnapshotMeta,
    installer: Box<SnapshotInstaller>,
    restored: Restored,
}

impl Member {
    /// A peer wants to send a snapshot; the answer is a receiver or why not.
    pub(crate) fn on_snapshot_offered(&mut self, from: u64, header: Bytes, token: u64, out: &mut Output) {
        let answer = match self.begin_receiving(from, header, out) {
            Ok(receiver) => Answer::SnapshotFrom(receiver),
            Err(reason) => Answer::SnapshotRefused(reason),
        };
        out.answers.push((token, answer));
    }

    fn begin_receiving(
        &mut self,
        from: u64,
        header: Bytes,
        out: &mut Output,
    ) -> Result<Box<Receiver>, String> {
        let (id, bytes) = decode_header(header)?;
        let message = Message::decode(bytes).map_err(|error| error.to_string())?;
        let key = Key { from, id };
        if let Some(receiver) = self.take_paused(key) {
            return Ok(receiver);
        }
        let Body::Snapshot(meta) = message.body.clone() else {
            return Err("the stream's message is not of a snapshot".to_owned());
        };
        if message.from != from || message.to != self.config.member_id {
            return Err("the stream's message is not from its sender to this member".to_owned());
        }
        if meta.index <= self.backlog.applied() {
            // Consensus answers how far we are: the sender does not know, or it would not send this.
            let stepped = self.consensus.step(from, message);
            let known = stepped.map_or_else(|rejected| rejected.to_string(), |()| "it is told so".to_owned());
            return Err(format!("entry {} is applied here; {known}", meta.index));
        }
        if self.snapshots.is_installing() || self.upkeep.is_stopping() {
            return Err("a snapshot is being installed, or the member stops".to_owned());
        }
        if self
            .snapshots
            .receiving
            .as_ref()
            .is_some_and(|other| other.key.from != from && other.term >= message.term)
        {
            return Err("another member's snapshot is being received".to_owned());
        }
        self.forget_receiving(out);
        let installer = Box::new(self.log.begin_install(LogId { index: meta.index, term: meta.term }));
        self.snapshots.receiving = Some(Receiving { key, term: message.term, paused: None });
        let event = SnapshotEvent::Receiving { index: meta.index };
        out.notices.push(Notice::Snapshot { peer: from, event });
        Ok(Box::new(Receiver {
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
        }))
    }

    fn take_paused(&mut self, key: Key) -> Option<Box<Receiver>> {
        let receiving = self.snapshots.receiving.as_mut().filter(|receiving| receiving.key == key)?;
        receiving.paused.take().map(|(receiver, _)| receiver)
    }

    /// Gives up what is being received; a receiver that is out is given up when it comes back.
    fn forget_receiving(&mut self, out: &mut Output) {
        if let Some((receiver, _)) = self.snapshots.receiving.take().and_then(|receiving| receiving.paused) {
            out.background.push(Job::AbandonInstall(receiver.installer));
        }
    }

    /// A stream broke: what was received waits for its sender.
    pub(crate) fn on_snapshot_broken(&mut self, now: Now, receiver: Box<Receiver>, out: &mut Output) {
        let current = self.snapshots.receiving.as_mut().filter(|receiving| receiving.key == receiver.key);
        match current {
            Some(receiving) if !receiver.failed => {
                receiving.paused = Some((receiver, now.monotonic_ns + RESUME_WITHIN_NS));
            }
            Some(_) => {
                self.snapshots.receiving = None;
                out.background.push(Job::AbandonInstall(receiver.installer));
            }
            None => out.background.push(Job::AbandonInstall(receiver.installer)),
        }
    }

    /// What nobody goes on with is given up.
    pub(crate) fn expire_received(&mut self, now: Now, out: &mut Output) {
        let paused = self.snapshots.receiving.as_ref().and_then(|receiving| receiving.paused.as_ref());
        if paused.is_some_and(|(_, until_ns)| now.monotonic_ns >= *until_ns) {
            self.forget_receiving(out);
        }
    }

    /// All of it is here: consensus hears of it, and decides.
    pub(crate) fn on_snapshot_whole(&mut self, receiver: Box<Receiver>, token: u64, out: &mut Output) {
        let from = receiver.key.from;
        let is_current =
            self.snapshots.receiving.take_if(|receiving| receiving.key == receiver.key).is_some();
        let Parts { message, meta, installer, restored } = match receiver.into_parts() {
            Ok(parts) => parts,
            Err(installer) => {
                out.background.push(Job::AbandonInstall(installer));
                let reason = "the stream ended before the snapshot did".to_owned();
                return out.answers.push((token, Answer::SnapshotRefused(reason)));
            }
        };
        let stepped = match is_current && !self.snapshots.is_installing() {
            true => self.consensus.step(from, message).map_err(|rejected| rejected.to_string()),
            false => Err("a later snapshot took its place".to_owned()),
        };
        match stepped {
            Ok(()) => {
                self.snapshots.arrived = Some(super::Arrived { from, meta, installer, restored });
                out.answers.push((token, Answer::SnapshotTaken));
            }
            Err(reason) => {
                out.background.push(Job::AbandonInstall(installer));
                out.answers.push((token, Answer::SnapshotRefused(reason)));
            }
        }
    }
}
