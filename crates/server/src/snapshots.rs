//! Snapshots between members: the threads that read and write their streams.
//!
//! What a stream holds is the member's affair ([`member::snapshot`]); this module carries bytes between it and the
//! transport, and makes sure that every stream's end is reported.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use member::snapshot::{Outgoing, Receiver, SendError};
use member::{Answer, Input};
use transport::{Peers, SnapshotReceiver, SnapshotSender, SnapshotSink};

use crate::driver::Mailbox;
use crate::node::Node;

/// How often a stream that broke is opened again before the snapshot is given up; then the peer gets a new one.
const RESUMES: u32 = 5;

/// How long to wait before that: about what a connection that was cut needs to come back.
const RESUME_AFTER: Duration = Duration::from_millis(200);

/// Sends a snapshot on a thread of its own and reports how it ended.
pub(crate) fn send(peers: Arc<Peers>, mailbox: Arc<Mailbox>, mut outgoing: Box<Outgoing>) {
    let sent = outgoing.sent();
    let thread = std::thread::Builder::new().name("stele-snapshot".to_owned());
    let report = mailbox.clone();
    let started = thread.spawn(move || {
        let result = send_all(&peers, &mut outgoing);
        report.send(Input::SnapshotSent { sent, result });
    });
    if let Err(error) = started {
        let reason = format!("cannot start a thread: {error}");
        mailbox.send(Input::SnapshotSent { sent, result: Err(SendError { reason, damaged: None }) });
    }
}

/// What ends an attempt.
enum Broken {
    /// The connection: another one may go on.
    Stream(transport::Error),
    /// The snapshot.
    Snapshot(SendError),
}

fn send_all(peers: &Peers, outgoing: &mut Outgoing) -> Result<(), SendError> {
    let mut left = RESUMES;
    loop {
        match attempt(peers, outgoing) {
            Ok(()) => return Ok(()),
            Err(Broken::Snapshot(error)) => return Err(error),
            Err(Broken::Stream(error)) => {
                // The receiver's own word is final.
                if left == 0 || matches!(error, transport::Error::SnapshotReceiver(_)) {
                    return Err(SendError { reason: error.to_string(), damaged: None });
                }
                left -= 1;
                tracing::warn!(
                    remote_peer_id = format!("{:x}", outgoing.peer()),
                    %error,
                    "the stream of a database snapshot broke; going on"
                );
                std::thread::sleep(RESUME_AFTER);
            }
        }
    }
}

fn attempt(peers: &Peers, outgoing: &mut Outgoing) -> Result<(), Broken> {
    let mut sender = peers.open_snapshot(outgoing.peer(), outgoing.header()).map_err(Broken::Stream)?;
    if !outgoing.resume(sender.offset()) {
        let reason = format!("the receiver wants it from byte {}, which is not kept", sender.offset());
        return Err(Broken::Snapshot(SendError { reason, damaged: None }));
    }
    while let Some(bytes) = outgoing.next_bytes().map_err(Broken::Snapshot)? {
        send_piece(&mut sender, bytes).map_err(Broken::Stream)?;
    }
    sender.finish().map_err(Broken::Stream)
}

fn send_piece(sender: &mut SnapshotSender, mut bytes: Bytes) -> Result<(), transport::Error> {
    while !bytes.is_empty() {
        let piece = bytes.split_to(bytes.len().min(sender.max_chunk_bytes()));
        sender.chunk(&[piece])?;
    }
    Ok(())
}

/// Takes what peers send to the member.
pub(crate) struct Arriving {
    node: Arc<Node>,
}

impl Arriving {
    /// Snapshots for this node's member.
    pub(crate) fn new(node: Arc<Node>) -> Arriving {
        Arriving { node }
    }
}

impl SnapshotSink for Arriving {
    fn begin(&self, from: u64, header: Bytes) -> Result<(u64, Box<dyn SnapshotReceiver>), String> {
        match self.node.ask_blocking(|token| Input::SnapshotOffered { token, from, header }) {
            Ok(Answer::SnapshotFrom(receiver)) => {
                let offset = receiver.offset();
                Ok((offset, Box::new(Arrival { node: self.node.clone(), receiver: Some(receiver) })))
            }
            Ok(Answer::SnapshotRefused(reason)) => Err(reason),
            Ok(other) => Err(format!("the member answered {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// One snapshot as it arrives. Whatever becomes of the stream, the member gets its receiver back.
struct Arrival {
    node: Arc<Node>,
    receiver: Option<Box<Receiver>>,
}

impl SnapshotReceiver for Arrival {
    fn chunk(&mut self, _: u64, bytes: Bytes) -> Result<(), String> {
        // The transport hands over what continues where the last piece ended.
        self.receiver.as_mut().map_or(Ok(()), |receiver| receiver.take(&bytes))
    }

    fn end(mut self: Box<Self>, _: u64) -> Result<(), String> {
        let Some(receiver) = self.receiver.take() else { return Ok(()) };
        match self.node.ask_blocking(|token| Input::SnapshotWhole { token, receiver }) {
            Ok(Answer::SnapshotTaken) => Ok(()),
            Ok(Answer::SnapshotRefused(reason)) => Err(reason),
            Ok(other) => Err(format!("the member answered {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            self.node.mailbox.send(Input::SnapshotBroken(receiver));
        }
    }
}
