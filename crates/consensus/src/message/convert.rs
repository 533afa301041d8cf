//! Conversion of entries, hard states and messages to and from the raft library's types, by moves: the buffer of a
//! payload is the same one before and after.

use bytes::Bytes;
use raft::eraftpb;

use crate::entry::{Entry, EntryKind, HardState};
use crate::membership::{ConfChange, conf_state_from_raft, conf_state_to_raft};
use crate::message::body::{Body, Message, SnapshotMeta};

/// The context by which the library marks the election of a leader transfer.
const CAMPAIGN_TRANSFER: &[u8] = raft::CAMPAIGN_TRANSFER;

pub(crate) fn entry_to_raft(entry: Entry) -> eraftpb::Entry {
    let mut out = eraftpb::Entry { term: entry.term, index: entry.index, ..Default::default() };
    match entry.kind {
        EntryKind::Batch | EntryKind::Empty => out.data = entry.payload,
        EntryKind::ConfChange => {
            out.entry_type = eraftpb::EntryType::EntryConfChangeV2;
            out.context = entry.payload;
        }
    }
    out
}

fn entry_from_raft(entry: eraftpb::Entry) -> Entry {
    let (kind, payload) = match entry.entry_type {
        eraftpb::EntryType::EntryNormal if entry.data.is_empty() => (EntryKind::Empty, entry.data),
        eraftpb::EntryType::EntryNormal => (EntryKind::Batch, entry.data),
        // The library's own proposal to leave a joint configuration has neither data nor context.
        _ if entry.context.is_empty() => (EntryKind::ConfChange, ConfChange::leave_joint().encode()),
        _ => (EntryKind::ConfChange, entry.context),
    };
    Entry { term: entry.term, index: entry.index, kind, payload }
}

/// Converts entries, moving their payloads.
pub(crate) fn entries_from_raft(entries: Vec<eraftpb::Entry>) -> Vec<Entry> {
    entries.into_iter().map(entry_from_raft).collect()
}

pub(crate) fn hard_state_to_raft(state: HardState) -> eraftpb::HardState {
    eraftpb::HardState { term: state.term, vote: state.vote, commit: state.commit, ..Default::default() }
}

pub(crate) fn hard_state_from_raft(state: &eraftpb::HardState) -> HardState {
    HardState { term: state.term, vote: state.vote, commit: state.commit }
}

pub(crate) fn snapshot_to_raft(meta: &SnapshotMeta) -> eraftpb::Snapshot {
    let mut out = eraftpb::Snapshot::default();
    out.mut_metadata().index = meta.index;
    out.mut_metadata().term = meta.term;
    out.mut_metadata().set_conf_state(conf_state_to_raft(&meta.conf_state));
    out
}

pub(crate) fn snapshot_from_raft(snapshot: &eraftpb::Snapshot) -> SnapshotMeta {
    let meta = snapshot.get_metadata();
    SnapshotMeta {
        index: meta.index,
        term: meta.term,
        conf_state: conf_state_from_raft(meta.get_conf_state()),
    }
}

/// A message for the library; `None` for leadership checks, which it does not know.
pub(crate) fn message_to_raft(message: Message) -> Option<eraftpb::Message> {
    use eraftpb::MessageType as Kind;
    let mut out =
        eraftpb::Message { from: message.from, to: message.to, term: message.term, ..Default::default() };
    out.msg_type = match message.body {
        Body::Append { previous_index, previous_term, commit, entries } => {
            (out.index, out.log_term, out.commit) = (previous_index, previous_term, commit);
            out.entries = entries.into_iter().map(entry_to_raft).collect::<Vec<_>>().into();
            Kind::MsgAppend
        }
        Body::AppendAccepted { index, commit } => {
            (out.index, out.commit) = (index, commit);
            Kind::MsgAppendResponse
        }
        Body::AppendRejected { index, hint_index, hint_term, commit } => {
            (out.index, out.reject_hint, out.log_term, out.commit) = (index, hint_index, hint_term, commit);
            out.reject = true;
            Kind::MsgAppendResponse
        }
        Body::Vote { pre, transfer, last_index, last_term, commit, commit_term } => {
            (out.index, out.log_term) = (last_index, last_term);
            (out.commit, out.commit_term) = (commit, commit_term);
            if transfer {
                out.context = Bytes::from_static(CAMPAIGN_TRANSFER);
            }
            if pre { Kind::MsgRequestPreVote } else { Kind::MsgRequestVote }
        }
        Body::VoteResponse { pre, granted, commit, commit_term } => {
            (out.reject, out.commit, out.commit_term) = (!granted, commit, commit_term);
            if pre { Kind::MsgRequestPreVoteResponse } else { Kind::MsgRequestVoteResponse }
        }
        Body::Heartbeat { commit } => {
            out.commit = commit;
            Kind::MsgHeartbeat
        }
        Body::HeartbeatResponse { commit } => {
            out.commit = commit;
            Kind::MsgHeartbeatResponse
        }
        Body::TimeoutNow => Kind::MsgTimeoutNow,
        Body::Snapshot(meta) => {
            out.set_snapshot(snapshot_to_raft(&meta));
            Kind::MsgSnapshot
        }
        Body::LeadershipCheck { .. } | Body::LeadershipCheckResponse { .. } => return None,
    };
    Some(out)
}

/// A message of the library. It forwards proposals, reads and transfers only from a follower, and the node gives those
/// only to a leader; so any other kind is a defect of this crate.
pub(crate) fn message_from_raft(mut message: eraftpb::Message) -> Message {
    use eraftpb::MessageType as Kind;
    let kind = message.msg_type;
    let pre = matches!(kind, Kind::MsgRequestPreVote | Kind::MsgRequestPreVoteResponse);
    let body = match kind {
        Kind::MsgAppend => Body::Append {
            previous_index: message.index,
            previous_term: message.log_term,
            commit: message.commit,
            entries: message.take_entries().into_iter().map(entry_from_raft).collect(),
        },
        Kind::MsgAppendResponse if message.reject => Body::AppendRejected {
            index: message.index,
            hint_index: message.reject_hint,
            hint_term: message.log_term,
            commit: message.commit,
        },
        Kind::MsgAppendResponse => Body::AppendAccepted { index: message.index, commit: message.commit },
        Kind::MsgRequestVote | Kind::MsgRequestPreVote => Body::Vote {
            pre,
            transfer: message.context.as_ref() == CAMPAIGN_TRANSFER,
            last_index: message.index,
            last_term: message.log_term,
            commit: message.commit,
            commit_term: message.commit_term,
        },
        Kind::MsgRequestVoteResponse | Kind::MsgRequestPreVoteResponse => Body::VoteResponse {
            pre,
            granted: !message.reject,
            commit: message.commit,
            commit_term: message.commit_term,
        },
        Kind::MsgHeartbeat => Body::Heartbeat { commit: message.commit },
        Kind::MsgHeartbeatResponse => Body::HeartbeatResponse { commit: message.commit },
        Kind::MsgTimeoutNow => Body::TimeoutNow,
        Kind::MsgSnapshot => Body::Snapshot(snapshot_from_raft(message.get_snapshot())),
        other => unreachable!("the library is never asked to send {other:?}"),
    };
    Message { from: message.from, to: message.to, term: message.term, body }
}
