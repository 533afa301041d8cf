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

/// How often a stream that broke is opened again before the snapshot is given up; then the peer gets a new one.
const MAX_RESUMES: u32 = 5;

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

fn send_all(peers: &Peers, outgoing: &mut Outgoing) -> Result<(), SendError> {
    let mut left = MAX_RESUMES;
    loop {
        match attempt(peers, outgoing) {
            Ok(()) => return Ok(()),
            Err(SendFailure::Snapshot(error)) => return Err(error),
            Err(SendFailure::Stream(error)) => {
                // A refusal by the receiver is final.
                if left == 0 || matches!(error, transport::Error::SnapshotReceiver(_)) {
                    return Err(SendError { reason: error.to_string(), damaged: None });
                }
                left -= 1;
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

fn attempt(peers: &Peers, outgoing: &mut Outgoing) -> Result<(), SendFailure> {
    let mut sender = peers.open_snapshot(outgoing.peer(), outgoing.header()).map_err(SendFailure::Stream)?;
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
