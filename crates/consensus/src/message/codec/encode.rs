//! Encodes a message as the chunks of a frame.

use bytes::{BufMut, Bytes, BytesMut};

use super::layout::{ENTRY_ROW_BYTES, HEADER_BYTES, MESSAGE_VERSION, flag, kind};
use crate::entry::{Entry, EntryKind};
use crate::membership::{ConfState, MAX_MEMBERS};
use crate::message::body::{Body, Message};

/// Room for the fixed fields of the longest body, so that the header is one allocation.
const BODY_BYTES: usize = 40;

impl Message {
    /// The bytes of this message, as chunks to be written one after another: first the header, then the payloads of
    /// an append's entries, each sharing the entry's own buffer.
    ///
    /// Asserts what [`Message::decode`] refuses, so that a message a receiver would drop never leaves this member:
    /// entries that are not consecutive, and entries that have a payload although they are empty, or none although
    /// they are not.
    pub fn encode(&self) -> Vec<Bytes> {
        let rows = match &self.body {
            Body::Append { entries, .. } => entries.len() * ENTRY_ROW_BYTES,
            _ => 0,
        };
        let mut head = BytesMut::with_capacity(HEADER_BYTES + BODY_BYTES + rows);
        head.put_u8(MESSAGE_VERSION);
        head.put_u8(kind_of(&self.body));
        head.put_u8(flags_of(&self.body));
        head.put_u8(0);
        head.put_u64_le(self.from);
        head.put_u64_le(self.to);
        head.put_u64_le(self.term);
        put_body(&mut head, &self.body);
        let mut chunks = vec![head.freeze()];
        if let Body::Append { entries, .. } = &self.body {
            let payloads = entries.iter().map(|entry| &entry.payload);
            chunks.extend(payloads.filter(|payload| !payload.is_empty()).cloned());
        }
        chunks
    }
}

fn kind_of(body: &Body) -> u8 {
    match body {
        Body::Append { .. } => kind::APPEND,
        Body::AppendAccepted { .. } => kind::APPEND_ACCEPTED,
        Body::AppendRejected { .. } => kind::APPEND_REJECTED,
        Body::Vote { .. } => kind::VOTE,
        Body::VoteResponse { .. } => kind::VOTE_RESPONSE,
        Body::Heartbeat { .. } => kind::HEARTBEAT,
        Body::HeartbeatResponse { .. } => kind::HEARTBEAT_RESPONSE,
        Body::TimeoutNow => kind::TIMEOUT_NOW,
        Body::Snapshot(_) => kind::SNAPSHOT,
        Body::LeadershipCheck { .. } => kind::LEADERSHIP_CHECK,
        Body::LeadershipCheckResponse { .. } => kind::LEADERSHIP_CHECK_RESPONSE,
    }
}

fn flags_of(body: &Body) -> u8 {
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    match *body {
        Body::Vote { pre, transfer, .. } => bit(pre, flag::PRE) | bit(transfer, flag::TRANSFER),
        Body::VoteResponse { pre, granted, .. } => bit(pre, flag::PRE) | bit(granted, flag::GRANTED),
        _ => 0,
    }
}

fn put_body(buf: &mut BytesMut, body: &Body) {
    let mut put = |fields: &[u64]| fields.iter().for_each(|field| buf.put_u64_le(*field));
    match body {
        Body::Append { previous_index, previous_term, commit, entries } => {
            put(&[*previous_index, *previous_term, *commit]);
            put_entry_rows(buf, *previous_index, entries);
        }
        Body::AppendAccepted { index, commit } => put(&[*index, *commit]),
        Body::AppendRejected { index, hint_index, hint_term, commit } => {
            put(&[*index, *hint_index, *hint_term, *commit]);
        }
        Body::Vote { last_index, last_term, commit, commit_term, .. } => {
            put(&[*last_index, *last_term, *commit, *commit_term]);
        }
        Body::VoteResponse { commit, commit_term, .. } => put(&[*commit, *commit_term]),
        Body::Heartbeat { commit } | Body::HeartbeatResponse { commit } => put(&[*commit]),
        Body::TimeoutNow => {}
        Body::Snapshot(meta) => {
            put(&[meta.index, meta.term]);
            put_conf_state(buf, &meta.conf_state);
        }
        Body::LeadershipCheck { round } | Body::LeadershipCheckResponse { round } => put(&[*round]),
    }
}

fn put_entry_rows(buf: &mut BytesMut, previous_index: u64, entries: &[Entry]) {
    buf.put_u32_le(u32::try_from(entries.len()).expect("an append holds fewer than 2^32 entries"));
    for (entry, index) in entries.iter().zip(previous_index + 1..) {
        assert_eq!(entry.index, index, "entries of an append are consecutive");
        assert_eq!(
            entry.kind == EntryKind::Empty,
            entry.payload.is_empty(),
            "exactly an empty entry has no payload"
        );
        buf.put_u64_le(entry.term);
        buf.put_u8(entry.kind as u8);
        buf.put_u32_le(u32::try_from(entry.payload.len()).expect("a payload is shorter than 4 GiB"));
        buf.put_u32_le(entry.checksum());
    }
}

fn put_conf_state(buf: &mut BytesMut, conf: &ConfState) {
    buf.put_u8(u8::from(conf.auto_leave));
    for list in [&conf.voters, &conf.voters_outgoing, &conf.learners, &conf.learners_next] {
        assert!(list.len() <= MAX_MEMBERS, "a configuration names at most {MAX_MEMBERS} members a list");
        buf.put_u16_le(list.len() as u16);
        list.iter().for_each(|id| buf.put_u64_le(*id));
    }
}
