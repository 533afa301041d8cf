//! Frames between members, as a defective member would send or accept them.

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

/// Whether a frame is an append with entries. Decided by the kinds of frame and message and by the length, without
/// decoding, since this is called for every frame. Empty appends do not count towards the window of appends in flight.
pub(crate) fn is_append(bytes: &Bytes) -> bool {
    (bytes.first(), bytes.get(2)) == (Some(&1), Some(&1)) && bytes.len() >= ONE_ENTRY_BYTES
}

/// The granted vote that would answer this frame, if it requests a vote.
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

/// Whether a frame carries the copy of a value to a member whose own copy is damaged.
pub(crate) fn is_value_answer(bytes: &Bytes) -> bool {
    bytes.first() == Some(&10)
}

/// A frame around a message.
pub(crate) fn frame_of(message: &Message) -> Bytes {
    PeerMessage::of_consensus(message.encode()).concat().into()
}

/// The answer to a leadership check, if this frame is one.
pub(crate) fn leadership_answer(bytes: &Bytes) -> Option<Bytes> {
    let message = message(bytes)?;
    let Body::LeadershipCheck { round } = message.body else { return None };
    let body = Body::LeadershipCheckResponse { round };
    Some(frame_of(&Message { from: message.to, to: message.from, term: message.term, body }))
}

/// The append with one bit of its last batch changed, if this frame is an append with a batch.
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

/// The acceptance of this frame, if it is an append with entries.
pub(crate) fn acceptance(bytes: &Bytes) -> Option<Message> {
    let message = message(bytes)?;
    let Body::Append { entries, commit, .. } = &message.body else { return None };
    let body = Body::AppendAccepted { index: entries.last()?.index, commit: *commit };
    Some(Message { from: message.to, to: message.from, term: message.term, body })
}
