//! The follower's side while a snapshot arrives: which stream is accepted, and what happens when it breaks or ends.

use bytes::Bytes;
use consensus::{Body, Consensus, Message};
use log::{Log, LogId};

use super::format::decode_header;
use super::installing::ArrivedSnapshot;
use super::receiver::{Receiver, StreamKey, WholeSnapshot};
use crate::io::{Notice, Output, SnapshotEvent};
use crate::jobs::Job;

/// A broken stream can be resumed for this long, in nanoseconds. A sender tries again at once.
pub(super) const RESUME_WITHIN_NS: u64 = 60_000_000_000;

/// The one snapshot that is being received.
struct Current {
    key: StreamKey,
    term: u64,
    /// While its stream is broken: what was received, and until when it is kept.
    paused: Option<(Box<Receiver>, u64)>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct SnapshotReceiving {
    current: Option<Current>,
}

impl SnapshotReceiving {
    /// A peer wants to send a snapshot. `refusal` is why this member takes none now.
    ///
    /// # Errors
    /// Why it is not accepted; for the sender.
    #[expect(
        clippy::too_many_arguments,
        reason = "who is asked, what was received, and what it is checked against"
    )]
    pub(crate) fn accept(
        &mut self,
        from: u64,
        member_id: u64,
        header: Bytes,
        applied: u64,
        refusal: Option<&str>,
        log: &mut Log,
        consensus: &mut Consensus,
        out: &mut Output,
    ) -> Result<Box<Receiver>, String> {
        let (id, bytes) = decode_header(header)?;
        let message = Message::decode(bytes).map_err(|error| error.to_string())?;
        let key = StreamKey { from, id };
        if let Some(receiver) = self.take_paused(key) {
            return Ok(receiver);
        }
        let Body::Snapshot(meta) = message.body.clone() else {
            return Err("the stream's message is not of a snapshot".to_owned());
        };
        if message.from != from || message.to != member_id {
            return Err("the stream's message is not from its sender to this member".to_owned());
        }
        if meta.index <= applied {
            // Consensus answers how far this member is: the sender does not know, or it would not send this.
            let stepped = consensus.step(from, message);
            let known = stepped.map_or_else(
                |rejected| rejected.to_string(),
                |()| "it gets an answer that says so".to_owned(),
            );
            return Err(format!("entry {} is applied here; {known}", meta.index));
        }
        if let Some(refusal) = refusal {
            return Err(refusal.to_owned());
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
        Ok(Box::new(Receiver::new(key, message, meta, installer)))
    }

    fn take_paused(&mut self, key: StreamKey) -> Option<Box<Receiver>> {
        let current = self.current.as_mut().filter(|current| current.key == key)?;
        current.paused.take().map(|(receiver, _)| receiver)
    }

    /// Abandons what is being received. A receiver that a thread holds is abandoned when it comes back.
    fn abandon(&mut self, out: &mut Output) {
        if let Some((receiver, _)) = self.current.take().and_then(|current| current.paused) {
            out.background.push(Job::AbandonInstall(receiver.installer));
        }
    }

    /// A stream broke: what was received waits for its sender.
    pub(crate) fn broken(&mut self, now_ns: u64, receiver: Box<Receiver>, out: &mut Output) {
        match self.current.as_mut().filter(|current| current.key == receiver.key) {
            Some(current) if !receiver.failed => {
                current.paused = Some((receiver, now_ns + RESUME_WITHIN_NS));
            }
            Some(_) => {
                self.current = None;
                out.background.push(Job::AbandonInstall(receiver.installer));
            }
            None => out.background.push(Job::AbandonInstall(receiver.installer)),
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
    ) -> Result<ArrivedSnapshot, String> {
        let from = receiver.key.from;
        let is_current = self.current.take_if(|current| current.key == receiver.key).is_some();
        let WholeSnapshot { message, meta, installer, restored } = match receiver.into_whole() {
            Ok(whole) => whole,
            Err(installer) => {
                out.background.push(Job::AbandonInstall(installer));
                return Err("the stream ended before the snapshot did".to_owned());
            }
        };
        let stepped = match is_current && !is_installing {
            true => consensus.step(from, message).map_err(|rejected| rejected.to_string()),
            false => Err("a later snapshot took its place".to_owned()),
        };
        if let Err(reason) = stepped {
            out.background.push(Job::AbandonInstall(installer));
            return Err(reason);
        }
        Ok(ArrivedSnapshot { from, meta, installer, restored })
    }
}
