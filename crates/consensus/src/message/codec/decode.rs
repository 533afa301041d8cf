//! Decodes a message from the bytes of a frame.

use bytes::Bytes;

use super::layout::{ENTRY_ROW_BYTES, MESSAGE_VERSION, flag, kind};
use crate::entry::{Entry, EntryKind};
use crate::field_reader::{FieldReader, WireError};
use crate::membership::{ConfState, MAX_MEMBERS};
use crate::message::body::{Body, Message, SnapshotMeta};

impl Message {
    /// Decodes one message. The payloads of entries share the buffer of `frame`.
    pub fn decode(frame: Bytes) -> Result<Message, WireError> {
        let mut reader = FieldReader::new(frame);
        let version = reader.u8()?;
        if version != MESSAGE_VERSION {
            return Err(WireError::Version { got: version, known: MESSAGE_VERSION });
        }
        let kind = reader.u8()?;
        let flags = reader.u8()?;
        let reserved = reader.u8()?;
        if reserved != 0 {
            return Err(WireError::Value { field: "reserved byte", got: reserved.into() });
        }
        let (from, to, term) = (reader.u64()?, reader.u64()?, reader.u64()?);
        check_flags(kind, flags)?;
        let body = body(kind, flags, &mut reader)?;
        reader.end()?;
        Ok(Message { from, to, term, body })
    }
}

fn check_flags(kind: u8, flags: u8) -> Result<(), WireError> {
    let known = match kind {
        kind::VOTE => flag::PRE | flag::TRANSFER,
        kind::VOTE_RESPONSE => flag::PRE | flag::GRANTED,
        _ => 0,
    };
    if flags & !known != 0 {
        return Err(WireError::Value { field: "flags", got: flags.into() });
    }
    Ok(())
}

fn body(kind: u8, flags: u8, reader: &mut FieldReader) -> Result<Body, WireError> {
    Ok(match kind {
        kind::APPEND => append(reader)?,
        kind::APPEND_ACCEPTED => Body::AppendAccepted { index: reader.u64()?, commit: reader.u64()? },
        kind::APPEND_REJECTED => Body::AppendRejected {
            index: reader.u64()?,
            hint_index: reader.u64()?,
            hint_term: reader.u64()?,
            commit: reader.u64()?,
        },
        kind::VOTE => Body::Vote {
            pre: flags & flag::PRE != 0,
            transfer: flags & flag::TRANSFER != 0,
            last_index: reader.u64()?,
            last_term: reader.u64()?,
            commit: reader.u64()?,
            commit_term: reader.u64()?,
        },
        kind::VOTE_RESPONSE => Body::VoteResponse {
            pre: flags & flag::PRE != 0,
            granted: flags & flag::GRANTED != 0,
            commit: reader.u64()?,
            commit_term: reader.u64()?,
        },
        kind::HEARTBEAT => Body::Heartbeat { commit: reader.u64()? },
        kind::HEARTBEAT_RESPONSE => Body::HeartbeatResponse { commit: reader.u64()? },
        kind::TIMEOUT_NOW => Body::TimeoutNow,
        kind::SNAPSHOT => Body::Snapshot(SnapshotMeta {
            index: reader.u64()?,
            term: reader.u64()?,
            conf_state: conf_state(reader)?,
        }),
        kind::LEADERSHIP_CHECK => Body::LeadershipCheck { round: reader.u64()? },
        kind::LEADERSHIP_CHECK_RESPONSE => Body::LeadershipCheckResponse { round: reader.u64()? },
        got => return Err(WireError::Value { field: "message kind", got: got.into() }),
    })
}

/// One row of an append's table: an entry without its payload.
struct EntryRow {
    term: u64,
    kind: EntryKind,
    len: usize,
    checksum: u32,
}

fn append(reader: &mut FieldReader) -> Result<Body, WireError> {
    let (previous_index, previous_term, commit) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let count = reader.u32()? as usize;
    let table = count.saturating_mul(ENTRY_ROW_BYTES);
    // Before allocating: the table must be there.
    if table > reader.remaining() {
        return Err(WireError::TooShort { missing: table - reader.remaining() });
    }
    if previous_index.checked_add(count as u64 + 1).is_none() {
        return Err(WireError::Value { field: "previous index", got: previous_index });
    }
    let rows = (0..count).map(|_| row(reader)).collect::<Result<Vec<_>, _>>()?;
    let mut entries = Vec::with_capacity(count);
    for (row, index) in rows.into_iter().zip(previous_index + 1..) {
        let payload = reader.bytes(row.len)?;
        let entry = Entry { term: row.term, index, kind: row.kind, payload };
        if entry.checksum() != row.checksum {
            return Err(WireError::Checksum { index });
        }
        entries.push(entry);
    }
    Ok(Body::Append { previous_index, previous_term, commit, entries })
}

fn row(reader: &mut FieldReader) -> Result<EntryRow, WireError> {
    let term = reader.u64()?;
    let kind = reader.u8()?;
    let kind = EntryKind::from_u8(kind).ok_or(WireError::Value { field: "entry kind", got: kind.into() })?;
    let len = reader.u32()? as usize;
    // An empty entry is exactly one without payload.
    if (kind == EntryKind::Empty) != (len == 0) {
        return Err(WireError::Value { field: "payload length", got: len as u64 });
    }
    Ok(EntryRow { term, kind, len, checksum: reader.u32()? })
}

fn conf_state(reader: &mut FieldReader) -> Result<ConfState, WireError> {
    let auto_leave = match reader.u8()? {
        0 => false,
        1 => true,
        got => return Err(WireError::Value { field: "auto-leave", got: got.into() }),
    };
    Ok(ConfState {
        auto_leave,
        voters: ids(reader)?,
        voters_outgoing: ids(reader)?,
        learners: ids(reader)?,
        learners_next: ids(reader)?,
    })
}

fn ids(reader: &mut FieldReader) -> Result<Vec<u64>, WireError> {
    let count = usize::from(reader.u16()?);
    if count > MAX_MEMBERS {
        return Err(WireError::Value { field: "number of members", got: count as u64 });
    }
    (0..count).map(|_| reader.u64()).collect()
}
