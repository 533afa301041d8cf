//! Frames between members, as a defective member would send or take them.

use bytes::Bytes;
use consensus::{Body, Entry, EntryKind, Message};
use member::peer_message::PeerMessage;

/// The consensus message in a frame, if it holds one.
pub(crate) fn message(bytes: &Bytes) -> Option<Message> {
    match PeerMessage::decode(bytes.clone())? {
        PeerMessage::Consensus(bytes) => Message::decode(bytes).ok(),
        _ => None,
    }
}

/// Bytes of the smallest frame with an append that has an entry: kind, header, three numbers, a row of the table.
const ONE_ENTRY_BYTES: usize = 1 + 28 + 3 * 8 + 17;

/// Whether a frame is an append with entries; told by the kinds of the frame and of the message and by its length,
/// since every frame is asked. Empty ones take no room in the window: each heartbeat of a follower whose disk hangs is
/// answered with one.
pub(crate) fn is_append(bytes: &Bytes) -> bool {
    (bytes.first(), bytes.get(2)) == (Some(&1), Some(&1)) && bytes.len() >= ONE_ENTRY_BYTES
}

/// The vote that would come if this frame asks for one.
pub(crate) fn grant(bytes: &Bytes) -> Option<Bytes> {
    let message = message(bytes)?;
    let Body::Vote { pre, .. } = message.body else { return None };
    let body = Body::VoteResponse { pre, granted: true, commit: 0, commit_term: 0 };
    Some(frame_of(&Message { from: message.to, to: message.from, term: message.term, body }))
}

/// Whether a frame forwards commands.
pub(crate) fn is_forward(bytes: &Bytes) -> bool {
    bytes.first() == Some(&2)
}

/// Whether a frame answers a member whose copy of a value is damaged.
pub(crate) fn is_value_answer(bytes: &Bytes) -> bool {
    bytes.first() == Some(&10)
}

/// A frame around a message.
pub(crate) fn frame_of(message: &Message) -> Bytes {
    PeerMessage::of_consensus(message.encode()).concat().into()
}

/// The answer that would come to a confirm, if this frame is one.
pub(crate) fn confirmation(bytes: &Bytes) -> Option<Bytes> {
    let message = message(bytes)?;
    let Body::LeadershipCheck { round } = message.body else { return None };
    let body = Body::LeadershipCheckResponse { round };
    Some(frame_of(&Message { from: message.to, to: message.from, term: message.term, body }))
}

/// The append with one bit of its last batch changed, if this frame is one with a batch.
pub(crate) fn altered(bytes: &Bytes) -> Option<Bytes> {
    let mut message = message(bytes)?;
    let Body::Append { entries, .. } = &mut message.body else { return None };
    let entry = entries.iter_mut().rev().find(|entry| entry.kind == EntryKind::Batch)?;
    let mut payload = entry.payload.to_vec();
    let last = payload.last_mut()?;
    *last ^= 1;
    *entry = Entry { payload: payload.into(), ..entry.clone() };
    Some(frame_of(&message))
}

/// The acceptance of an append, if this frame is one with entries.
pub(crate) fn acceptance(bytes: &Bytes) -> Option<Message> {
    let message = message(bytes)?;
    let Body::Append { entries, commit, .. } = &message.body else { return None };
    let body = Body::AppendAccepted { index: entries.last()?.index, commit: *commit };
    Some(Message { from: message.to, to: message.from, term: message.term, body })
}
