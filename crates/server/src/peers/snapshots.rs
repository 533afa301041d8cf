//! Snapshots between members: the threads that read and write their streams.
//!
//! [`member::snapshot`] knows what a stream contains; this module carries bytes between it and the transport, and
//! makes sure that the end of every stream is reported.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use member::snapshot::{Outgoing, Receiver, SendError};
use member::{Answer, Input};
use transport::{Peers, SnapshotReceiver, SnapshotSender, SnapshotSink};

use crate::node::Node;
use crate::raft_loop::Handoff;

/// How often in a row a stream that broke is opened again without its receiver having got further, before the snapshot
/// is given up; then the peer gets a new one.
const MAX_IDLE_RESUMES: u32 = 5;

/// Delay before it is opened again: about what a lost connection needs to be dialled again.
const RESUME_DELAY: Duration = Duration::from_millis(200);

/// Sends a snapshot on a thread of its own and reports how it ended.
pub(crate) fn send(peers: Arc<Peers>, handoff: Handoff, mut outgoing: Box<Outgoing>) {
    let sent = outgoing.sent();
    let thread = std::thread::Builder::new().name("stele-snapshot".to_owned());
    let report = handoff.clone();
    let started = thread.spawn(move || {
        let result = send_all(&peers, &mut outgoing);
        report.submit(Input::SnapshotSent { sent, result });
    });
    if let Err(error) = started {
        let reason = format!("cannot start a thread: {error}");
        handoff.submit(Input::SnapshotSent { sent, result: Err(SendError { reason, damaged: None }) });
    }
}

/// What ends an attempt.
enum SendFailure {
    /// The connection failed: another one may go on.
    Stream(transport::Error),
    /// The snapshot cannot be sent.
    Snapshot(SendError),
}

/// Which streams that broke are opened again: those of which the receiver gets more and more, however often they break.
struct Resumes {
    /// The furthest offset that the receiver wanted to go on from.
    furthest: u64,
    /// Times that the stream may still be opened again without getting further.
    left: u32,
}

impl Resumes {
    fn new() -> Resumes {
        Resumes { furthest: 0, left: MAX_IDLE_RESUMES }
    }

    /// The receiver wants the stream from this offset on.
    fn opened(&mut self, offset: u64) {
        if offset > self.furthest {
            *self = Resumes { furthest: offset, left: MAX_IDLE_RESUMES };
        }
    }

    /// The stream broke, or could not be opened. Whether it is to be opened again.
    fn broke(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

fn send_all(peers: &Peers, outgoing: &mut Outgoing) -> Result<(), SendError> {
    let mut resumes = Resumes::new();
    loop {
        match attempt(peers, outgoing, &mut resumes) {
            Ok(()) => return Ok(()),
            Err(SendFailure::Snapshot(error)) => return Err(error),
            Err(SendFailure::Stream(error)) => {
                // A refusal by the receiver is final.
                let is_final = matches!(error, transport::Error::SnapshotReceiver(_));
                if is_final || !resumes.broke() {
                    return Err(SendError { reason: error.to_string(), damaged: None });
                }
                tracing::warn!(
                    remote_peer_id = format!("{:x}", outgoing.peer()),
                    %error,
                    "the stream of a database snapshot broke; resuming"
                );
                std::thread::sleep(RESUME_DELAY);
            }
        }
    }
}

fn attempt(peers: &Peers, outgoing: &mut Outgoing, resumes: &mut Resumes) -> Result<(), SendFailure> {
    let mut sender = peers.open_snapshot(outgoing.peer(), outgoing.header()).map_err(SendFailure::Stream)?;
    resumes.opened(sender.offset());
    if !outgoing.resume(sender.offset()) {
        let reason = format!("the receiver wants it from byte {}, which is not kept", sender.offset());
        return Err(SendFailure::Snapshot(SendError { reason, damaged: None }));
    }
    while let Some(bytes) = outgoing.next_bytes().map_err(SendFailure::Snapshot)? {
        send_chunks(&mut sender, bytes).map_err(SendFailure::Stream)?;
    }
    sender.finish().map_err(SendFailure::Stream)
}

fn send_chunks(sender: &mut SnapshotSender, mut bytes: Bytes) -> Result<(), transport::Error> {
    while !bytes.is_empty() {
        let chunk = bytes.split_to(bytes.len().min(sender.max_chunk_bytes()));
        sender.chunk(&[chunk])?;
    }
    Ok(())
}

/// Receives the snapshots that peers send.
pub(crate) struct IncomingSnapshots {
    node: Arc<Node>,
}

impl IncomingSnapshots {
    /// Snapshots for this node's member.
    pub(crate) fn new(node: Arc<Node>) -> IncomingSnapshots {
        IncomingSnapshots { node }
    }
}

impl SnapshotSink for IncomingSnapshots {
    fn begin(&self, from: u64, header: Bytes) -> Result<(u64, Box<dyn SnapshotReceiver>), String> {
        match self.node.request_blocking(|token| Input::SnapshotOffered { token, from, header }) {
            Ok(Answer::SnapshotFrom(receiver)) => {
                let offset = receiver.offset();
                Ok((offset, Box::new(IncomingSnapshot { node: self.node.clone(), receiver: Some(receiver) })))
            }
            Ok(Answer::SnapshotRefused(reason)) => Err(reason),
            Ok(other) => Err(format!("the member answered {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// One snapshot as it arrives. However the stream ends, the member gets its receiver back.
struct IncomingSnapshot {
    node: Arc<Node>,
    receiver: Option<Box<Receiver>>,
}

impl SnapshotReceiver for IncomingSnapshot {
    fn chunk(&mut self, _: u64, bytes: Bytes) -> Result<(), String> {
        // The transport guarantees that each chunk continues where the last one ended.
        self.receiver.as_mut().map_or(Ok(()), |receiver| receiver.take(&bytes))
    }

    fn end(mut self: Box<Self>, _: u64) -> Result<(), String> {
        let Some(receiver) = self.receiver.take() else { return Ok(()) };
        match self.node.request_blocking(|token| Input::SnapshotWhole { token, receiver }) {
            Ok(Answer::SnapshotTaken) => Ok(()),
            Ok(Answer::SnapshotRefused(reason)) => Err(reason),
            Ok(other) => Err(format!("the member answered {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for IncomingSnapshot {
    fn drop(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            self.node.handoff.submit(Input::SnapshotBroken(receiver));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Which streams are opened again.
    use super::{MAX_IDLE_RESUMES, Resumes};

    /// A large snapshot was given up at its sixth break, however far it had got.
    #[test]
    fn a_stream_that_gets_further_is_opened_again_however_often_it_breaks() {
        let mut resumes = Resumes::new();
        for offset in 0..100 {
            resumes.opened(offset);
            assert!(resumes.broke(), "at byte {offset}");
        }
    }

    #[test]
    fn a_stream_that_gets_no_further_is_given_up() {
        let mut resumes = Resumes::new();
        resumes.opened(0);
        assert!(resumes.broke());
        resumes.opened(70);
        // Its receiver begins again, cannot be reached, or is where it was.
        for attempt in 0..MAX_IDLE_RESUMES {
            assert!(resumes.broke(), "attempt {attempt}");
            resumes.opened(if attempt % 2 == 0 { 0 } else { 70 });
        }
        assert!(!resumes.broke());
    }
}
