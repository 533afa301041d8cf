//! The follower's side while a snapshot arrives: which stream is accepted, and what happens when it breaks or ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use consensus::{Body, Consensus, Message, SnapshotUse};
use log::{Log, LogId};

use super::format::decode_header;
use super::receiver::{Receiver, StreamKey};
use crate::io::{Notice, Output, SnapshotEvent};
use crate::jobs::Job;
use crate::maintenance::memory::MemoryShare;

/// A broken stream can be resumed for this long, in nanoseconds. A sender tries again at once.
pub(super) const RESUME_WITHIN_NS: u64 = 60_000_000_000;

/// After a snapshot that did not fit on the disk none is accepted for this long, in nanoseconds: the next is about as
/// large, and would be sent in vain again and again.
pub(super) const FULL_DISK_PAUSE_NS: u64 = 10_000_000_000;

/// The one snapshot that is being received.
struct Current {
    key: StreamKey,
    term: u64,
    /// While its stream is broken: what was received, and until when it is kept.
    paused: Option<(Box<Receiver>, u64)>,
}

/// A peer wants to send a snapshot.
pub(crate) struct SnapshotOffer<'a> {
    /// The peer.
    pub(crate) from: u64,
    /// What its stream was opened with.
    pub(crate) header: Bytes,
    /// This member.
    pub(crate) member_id: u64,
    /// The last entry applied here.
    pub(crate) applied: u64,
    /// The lineage of this member's cluster.
    pub(crate) lineage: u64,
    /// Why this member takes none now, if so.
    pub(crate) refusal: Option<&'a str>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct SnapshotReceiving {
    current: Option<Current>,
    /// When one is accepted again, after one that did not fit on the disk.
    accepts_from_ns: u64,
    /// Accounted bytes of the states that are received, and of those that they replaced.
    memory: Arc<AtomicU64>,
}

impl SnapshotReceiving {
    /// Accounted bytes of what is received, and of what was replaced and is not dropped yet.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Accepts an offered snapshot, or goes on with a stream that broke.
    ///
    /// # Errors
    /// Why it is not accepted; for the sender.
    pub(crate) fn accept(
        &mut self,
        offer: SnapshotOffer<'_>,
        log: &mut Log,
        consensus: &mut Consensus,
        out: &mut Output,
    ) -> Result<Box<Receiver>, String> {
        let SnapshotOffer { from, header, member_id, applied, lineage, refusal } = offer;
        let (id, bytes) = decode_header(header)?;
        let message = Message::decode(bytes).map_err(|error| error.to_string())?;
        let key = StreamKey { from, id };
        let Body::Snapshot(meta) = message.body.clone() else {
            return Err("the stream's message is not of a snapshot".to_owned());
        };
        if message.from != from || message.to != member_id {
            return Err("the stream's message is not from its sender to this member".to_owned());
        }
        if meta.index <= applied {
            return Err(answer_known(consensus, from, message, "applied"));
        }
        let is_paused = |current: &Current| current.key == key && current.paused.is_some();
        let goes_on = self.current.as_ref().is_some_and(is_paused);
        if let Some(refusal) = refusal.filter(|_| !goes_on) {
            return Err(refusal.to_owned());
        }
        if let Err(reason) = check_use(consensus, from, &message) {
            // The leader's term may have ended while its stream was broken.
            if goes_on {
                self.abandon(out);
            }
            return Err(reason);
        }
        if let Some(receiver) = self.take_paused(key) {
            return Ok(receiver);
        }
        let is_newer = |other: &Current| other.key.from != from && other.term >= message.term;
        if self.current.as_ref().is_some_and(is_newer) {
            return Err("another member's snapshot is being received".to_owned());
        }
        self.abandon(out);
        let installer = Box::new(log.begin_install(LogId { index: meta.index, term: meta.term }));
        self.current = Some(Current { key, term: message.term, paused: None });
        let event = SnapshotEvent::Receiving { index: meta.index };
        out.notices.push(Notice::Snapshot { peer: from, event });
        Ok(Box::new(Receiver::new(key, message, meta, lineage, installer, MemoryShare::of(&self.memory))))
    }

    fn take_paused(&mut self, key: StreamKey) -> Option<Box<Receiver>> {
        let current = self.current.as_mut().filter(|current| current.key == key)?;
        current.paused.take().map(|(receiver, _)| receiver)
    }

    /// Abandons what is being received. A receiver that a thread holds is abandoned when it comes back.
    fn abandon(&mut self, out: &mut Output) {
        if let Some((receiver, _)) = self.current.take().and_then(|current| current.paused) {
            out.background.push(Job::AbandonSnapshot(receiver));
        }
    }

    /// Whether a snapshot did not fit on the disk a moment ago.
    pub(crate) fn is_pausing(&self, now_ns: u64) -> bool {
        now_ns < self.accepts_from_ns
    }

    /// A stream broke: what was received waits for its sender.
    pub(crate) fn broken(&mut self, now_ns: u64, receiver: Box<Receiver>, out: &mut Output) {
        if receiver.lacked_space {
            self.accepts_from_ns = now_ns + FULL_DISK_PAUSE_NS;
        }
        match self.current.as_mut().filter(|current| current.key == receiver.key) {
            Some(current) if !receiver.failed => {
                current.paused = Some((receiver, now_ns + RESUME_WITHIN_NS));
            }
            Some(_) => {
                self.current = None;
                out.background.push(Job::AbandonSnapshot(receiver));
            }
            None => out.background.push(Job::AbandonSnapshot(receiver)),
        }
    }

    /// Abandons a broken stream that was not resumed in time.
    pub(crate) fn expire(&mut self, now_ns: u64, out: &mut Output) {
        let paused = self.current.as_ref().and_then(|current| current.paused.as_ref());
        if paused.is_some_and(|(_, until_ns)| now_ns >= *until_ns) {
            self.abandon(out);
        }
    }

    /// A stream has ended: consensus hears of its snapshot and decides. `is_installing` tells of another one.
    ///
    /// # Errors
    /// Why the snapshot is of no use; for the sender.
    pub(crate) fn whole(
        &mut self,
        receiver: Box<Receiver>,
        is_installing: bool,
        consensus: &mut Consensus,
        out: &mut Output,
    ) -> Result<Box<Receiver>, String> {
        let is_current = self.current.take_if(|current| current.key == receiver.key).is_some();
        let stepped = match receiver.is_whole() {
            false => Err("the stream ended before the snapshot did".to_owned()),
            true if !is_current || is_installing => Err("a later snapshot took its place".to_owned()),
            true => {
                let (from, message) = (receiver.key.from, receiver.message().clone());
                // What it was wanted for may have come otherwise meanwhile.
                check_use(consensus, from, &message)
                    .and_then(|()| consensus.step(from, message).map_err(|rejected| rejected.to_string()))
            }
        };
        if let Err(reason) = stepped {
            out.background.push(Job::AbandonSnapshot(receiver));
            return Err(reason);
        }
        Ok(receiver)
    }
}

/// Asks consensus whether it wants a snapshot. If its entries are here, the sender is answered.
///
/// # Errors
/// Why it is of no use; for the sender.
fn check_use(consensus: &mut Consensus, from: u64, message: &Message) -> Result<(), String> {
    match consensus.snapshot_use(from, message).map_err(|rejected| rejected.to_string())? {
        SnapshotUse::Wanted => Ok(()),
        SnapshotUse::Known => Err(answer_known(consensus, from, message.clone(), "known")),
        SnapshotUse::Ignored => Err("this member follows another leader, or a later term".to_owned()),
    }
}

/// Consensus answers how far this member is: the sender does not know, or it would not send this.
fn answer_known(consensus: &mut Consensus, from: u64, message: Message, what: &str) -> String {
    let index = if let Body::Snapshot(meta) = &message.body { meta.index } else { 0 };
    let stepped = consensus.step(from, message);
    let known = stepped
        .map_or_else(|rejected| rejected.to_string(), |()| "it gets an answer that says so".to_owned());
    format!("entry {index} is {what} here; {known}")
}
