//! Questions about leases and their answers: many in one frame, because a frame costs a system call at its sender and
//! a wake-up at its receiver, and clients renew by the thousand.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Questions or answers in one frame: enough to forget what a frame costs, and at most 25 KB before a heartbeat.
pub const MAX_LEASES_PER_FRAME: usize = 1000;

/// A follower's question to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseQuestionFields {
    /// The asker's sequence number.
    pub sequence: u64,
    /// Lease id.
    pub lease: i64,
    /// Renew, or only look.
    pub renew: bool,
}

/// The leader's answer about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It lives; seconds left and seconds granted.
    Alive {
        /// Seconds until it runs out, as the leader's clock has it.
        remaining_s: i64,
        /// The TTL it was granted.
        granted_s: i64,
    },
    /// There is no such lease.
    NotFound,
    /// The receiver does not lead (any more).
    NotLeader,
}

pub(super) fn encode_questions(head: &mut BytesMut, questions: &[LeaseQuestionFields]) {
    head.reserve(17 * questions.len());
    for question in questions {
        head.put_u64_le(question.sequence);
        head.put_i64_le(question.lease);
        head.put_u8(u8::from(question.renew));
    }
}

pub(super) fn decode_questions(bytes: &mut Bytes) -> Option<Vec<LeaseQuestionFields>> {
    decode_some(bytes, |bytes| {
        Some(LeaseQuestionFields {
            sequence: bytes.try_get_u64_le().ok()?,
            lease: bytes.try_get_i64_le().ok()?,
            renew: decode_bool(bytes)?,
        })
    })
}

pub(super) fn encode_answers(head: &mut BytesMut, answers: &[(u64, LeaseAnswer)]) {
    head.reserve(25 * answers.len());
    for (sequence, answer) in answers {
        let (status, remaining_s, granted_s) = match *answer {
            LeaseAnswer::Alive { remaining_s, granted_s } => (0, remaining_s, granted_s),
            LeaseAnswer::NotFound => (1, 0, 0),
            LeaseAnswer::NotLeader => (2, 0, 0),
        };
        head.put_u64_le(*sequence);
        head.put_u8(status);
        head.put_i64_le(remaining_s);
        head.put_i64_le(granted_s);
    }
}

pub(super) fn decode_answers(bytes: &mut Bytes) -> Option<Vec<(u64, LeaseAnswer)>> {
    decode_some(bytes, |bytes| {
        let sequence = bytes.try_get_u64_le().ok()?;
        let status = bytes.try_get_u8().ok()?;
        let remaining_s = bytes.try_get_i64_le().ok()?;
        let granted_s = bytes.try_get_i64_le().ok()?;
        let answer = match (status, remaining_s, granted_s) {
            (0, ..) => LeaseAnswer::Alive { remaining_s, granted_s },
            (1, 0, 0) => LeaseAnswer::NotFound,
            (2, 0, 0) => LeaseAnswer::NotLeader,
            _ => return None,
        };
        Some((sequence, answer))
    })
}

/// Decodes items to the end of the frame: at least one, and no more than a sender puts in.
fn decode_some<T>(bytes: &mut Bytes, mut item: impl FnMut(&mut Bytes) -> Option<T>) -> Option<Vec<T>> {
    let mut items = vec![item(bytes)?];
    while bytes.has_remaining() && items.len() < MAX_LEASES_PER_FRAME {
        items.push(item(bytes)?);
    }
    Some(items)
}

/// Decodes a byte that must be 0 or 1.
pub(super) fn decode_bool(bytes: &mut Bytes) -> Option<bool> {
    match bytes.try_get_u8().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}
