//! What a member with damage asks its peers.

mod entries;
mod recovery;
mod serving;
mod values;

use bytes::Bytes;

use crate::io::Output;
use crate::peer_message::PeerMessage;

/// Takes the questions that were sent: peer and question.
fn take_sent(out: &mut Output) -> Vec<(u64, PeerMessage)> {
    let frames = out.frames.drain(..);
    let decode = |buffers: Vec<Bytes>| PeerMessage::decode(buffers.concat().into()).expect("it was encoded");
    frames.map(|(peer, _, buffers)| (peer, decode(buffers))).collect()
}
