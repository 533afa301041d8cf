//! What travels inside the frames of peers: `member::peer_message` and the messages of consensus.
//!
//! What decodes is encoded to the same bytes: every message has one encoding.

use bytes::Bytes;
use consensus::{ConfChange, Message};
use member::peer_message::PeerMessage;

/// Reads the bytes as a frame, a message and a conf change.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Some(frame) = PeerMessage::decode(bytes.clone()) {
        assert_eq!(frame.encode().concat(), data, "{frame:?}");
        if let PeerMessage::Consensus(message) = frame {
            check_message(message);
        }
    }
    if let Ok(change) = ConfChange::decode(bytes) {
        assert_eq!(change.encode(), data, "{change:?}");
    }
}

fn check_message(bytes: Bytes) {
    let Ok(message) = Message::decode(bytes.clone()) else {
        return;
    };
    assert_eq!(message.encode().concat(), bytes, "{message:?}");
}
