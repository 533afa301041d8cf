//! Messages between members, as bodies of the frames of peer streams.
//!
//! ```text
//! offset size  field
//!      0    1  kind
//!      1    -  by kind, little-endian:
//!   1 consensus       a message of the consensus crate
//!   2 forward         a batch (see `batch`) of commands for the leader's proposal queue
//!   3 refused         reason u8 | run u64 | sequence u64 each: forwarded commands that were not and will not be
//!                     proposed
//!   4 read question   run u64 | question u64
//!   5 read answer     run u64 | question u64 | granted u8 | read index u64
//!   6 lease questions run u64 | sequence u64 | lease i64 | renew u8, each
//!   7 lease answers   run u64 | sequence u64 | status u8 | remaining seconds i64 | granted seconds i64, each
//!   8 state hash      applied index u64 | hash u64
//!   9 value question  main i64 | sub u32 | length u32 | checksum u32 | key
//!  10 value answer    main i64 | sub u32 | length u32 | checksum u32 | key length u32 | key | found u8 | value
//!  11 entry question  index u64 | term u64
//!  12 entry answer    index u64 | term u64 | found u8 | kind u8 | checksum u32 of the entry | payload
//!  13 member request  run u64 | sequence u64 | a request, see `membership/request.rs`; of command set 2
//!  14 member refusal  run u64 | sequence u64 | error u8 (0 not leader); of command set 2
//!  15 introduction    an update of the sender, see `membership/request.rs`: its id and peer URLs; of command set 2
//! ```
//!
//! A *run* is the process run of the member that asked (in a refusal: that forwarded). Each process numbers its
//! questions and commands again from the beginning, and what is left of an answer to one process may arrive at the
//! next: it is dropped, because the run is another. A forwarded batch names the run as the origin of its commands.
//! Values and entries need none: they are named by what they are.
//!
//! Forwarding is ours, not the consensus library's, so that a command is proposed at most once: a forwarded command
//! whose fate is unknown is never sent again; one that was refused is known not to have been proposed.

mod lease;
mod membership;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use consensus::MessageClass;

use crate::membership::request::MembershipRequest;

pub use lease::{LeaseAnswer, LeaseQuestionFields, MAX_LEASES_PER_FRAME};

/// Why forwarded commands came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The receiver does not lead; the sender may try the next leader.
    NotLeader = 1,
    /// The leader's proposal queue is full.
    TooManyRequests = 2,
    /// The quota is used up or the disk is nearly full.
    NoSpace = 3,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// A consensus message, still encoded.
    Consensus(Bytes),
    /// Commands for the leader, an encoded batch.
    Forward(Bytes),
    /// Commands of a process run that were not proposed.
    Refused {
        /// Why.
        reason: Reason,
        /// The process run that forwarded them.
        run: u64,
        /// Their sequence numbers.
        sequences: Vec<u64>,
    },
    /// A follower asks for a read index: its process run, and the number of its question.
    ReadQuestion(u64, u64),
    /// The asker's process run, the question, and the leader's applied index once the question's ReadIndex round is won
    /// and its index applied; `None` when the receiver does not lead.
    ReadAnswer(u64, u64, Option<u64>),
    /// A follower, of this process run, asks the leader to renew leases or to say what is left of them; at least one,
    /// at most [`MAX_LEASES_PER_FRAME`].
    LeaseQuestions(u64, Vec<LeaseQuestionFields>),
    /// Answers to lease questions: the asker's process run, then its sequence numbers, as many as there may be
    /// questions.
    LeaseAnswers(u64, Vec<(u64, LeaseAnswer)>),
    /// The state hash at an applied index, to be compared.
    StateHash {
        /// Applied index.
        index: u64,
        /// The store's hash there.
        hash: u64,
    },
    /// A member's copy of a value is damaged.
    ValueQuestion(ValueName),
    /// The value, if the peer has it intact.
    ValueAnswer(ValueName, Option<Bytes>),
    /// A member's copy of a committed entry is damaged.
    EntryQuestion {
        /// Its index.
        index: u64,
        /// Its term.
        term: u64,
    },
    /// The entry, if the peer has it intact.
    EntryAnswer {
        /// Its index.
        index: u64,
        /// Its term.
        term: u64,
        /// Kind and payload.
        entry: Option<(u8, Bytes)>,
    },
    /// A follower forwards a request about members. Only a member with command set 2 knows it.
    MembershipRequest {
        /// The process run that forwards it.
        run: u64,
        /// Its caller's token there.
        sequence: u64,
        /// What is asked.
        request: MembershipRequest,
    },
    /// A request about members that was not and will not be proposed.
    MembershipRefusal {
        /// The process run that forwarded it.
        run: u64,
        /// Its caller's token there.
        sequence: u64,
        /// Why; `None`: the receiver does not lead.
        error: Option<api::Error>,
    },
    /// The sender's own peer URLs, for a peer whose state may be too old to name the sender.
    Introduction {
        /// The sender.
        id: u64,
        /// Where it listens.
        peer_urls: Vec<String>,
    },
}

/// Names a value across members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueName {
    /// `main` of the version's revision.
    pub main: i64,
    /// `sub` of the version's revision.
    pub sub: u32,
    /// Length in bytes.
    pub len: u32,
    /// CRC-32C of the value.
    pub checksum: u32,
    /// The key.
    pub key: Bytes,
}

impl PeerMessage {
    /// The stream the frame belongs on; consensus messages say so themselves.
    pub fn class(&self) -> MessageClass {
        match self {
            PeerMessage::Forward(_)
            | PeerMessage::ValueAnswer(..)
            | PeerMessage::EntryAnswer { .. }
            | PeerMessage::Consensus(_) => MessageClass::Bulk,
            _ => MessageClass::Control,
        }
    }

    /// The buffers of a frame around an encoded consensus message.
    pub fn of_consensus(message: Vec<Bytes>) -> Vec<Bytes> {
        let mut buffers = Vec::with_capacity(1 + message.len());
        buffers.push(Bytes::from_static(&[1]));
        buffers.extend(message);
        buffers
    }

    /// Encodes the message into the buffers of a frame, in order; large payloads are not copied.
    pub fn encode(&self) -> Vec<Bytes> {
        let mut head = BytesMut::with_capacity(40);
        let mut tail = None;
        match self {
            PeerMessage::Consensus(message) => {
                head.put_u8(1);
                tail = Some(message.clone());
            }
            PeerMessage::Forward(batch) => {
                head.put_u8(2);
                tail = Some(batch.clone());
            }
            PeerMessage::Refused { reason, run, sequences } => {
                head.put_u8(3);
                head.put_u8(*reason as u8);
                head.put_u64_le(*run);
                sequences.iter().for_each(|sequence| head.put_u64_le(*sequence));
            }
            PeerMessage::ReadQuestion(run, question) => put_pair(&mut head, 4, *run, *question),
            PeerMessage::ReadAnswer(run, question, index) => {
                head.put_u8(5);
                head.put_u64_le(*run);
                head.put_u64_le(*question);
                head.put_u8(u8::from(index.is_some()));
                head.put_u64_le(index.unwrap_or(0));
            }
            PeerMessage::LeaseQuestions(run, questions) => {
                head.put_u8(6);
                head.put_u64_le(*run);
                lease::encode_questions(&mut head, questions);
            }
            PeerMessage::LeaseAnswers(run, answers) => {
                head.put_u8(7);
                head.put_u64_le(*run);
                lease::encode_answers(&mut head, answers);
            }
            PeerMessage::StateHash { index, hash } => {
                head.put_u8(8);
                head.put_u64_le(*index);
                head.put_u64_le(*hash);
            }
            PeerMessage::ValueQuestion(name) => {
                head.put_u8(9);
                encode_name(&mut head, name);
                tail = Some(name.key.clone());
            }
            PeerMessage::ValueAnswer(name, value) => {
                encode_value_answer(&mut head, name, value.is_some());
                tail.clone_from(value);
            }
            PeerMessage::EntryQuestion { index, term } => put_pair(&mut head, 11, *index, *term),
            PeerMessage::EntryAnswer { index, term, entry } => {
                encode_entry_answer(&mut head, *index, *term, entry.as_ref());
                tail = entry.as_ref().map(|(_, payload)| payload.clone());
            }
            PeerMessage::MembershipRequest { run, sequence, request } => {
                membership::encode_request(&mut head, *run, *sequence, request);
            }
            PeerMessage::Introduction { id, peer_urls } => {
                membership::encode_introduction(&mut head, *id, peer_urls);
            }
            PeerMessage::MembershipRefusal { run, sequence, error } => {
                membership::encode_refusal(&mut head, *run, *sequence, *error);
            }
        }
        std::iter::once(head.freeze()).chain(tail).collect()
    }

    /// Decodes a frame that a peer sent; `None` for anything [`PeerMessage::encode`] does not write.
    pub fn decode(mut bytes: Bytes) -> Option<PeerMessage> {
        let kind = bytes.try_get_u8().ok()?;
        let frame = match kind {
            1 => return Some(PeerMessage::Consensus(bytes)),
            2 => return Some(PeerMessage::Forward(bytes)),
            3 => decode_refused(&mut bytes)?,
            4 => PeerMessage::ReadQuestion(bytes.try_get_u64_le().ok()?, bytes.try_get_u64_le().ok()?),
            5 => {
                let (run, question) = (bytes.try_get_u64_le().ok()?, bytes.try_get_u64_le().ok()?);
                let index = match (lease::decode_bool(&mut bytes)?, bytes.try_get_u64_le().ok()?) {
                    (true, index) => Some(index),
                    (false, 0) => None,
                    (false, _) => return None,
                };
                PeerMessage::ReadAnswer(run, question, index)
            }
            6 => {
                let run = bytes.try_get_u64_le().ok()?;
                PeerMessage::LeaseQuestions(run, lease::decode_questions(&mut bytes)?)
            }
            7 => {
                let run = bytes.try_get_u64_le().ok()?;
                PeerMessage::LeaseAnswers(run, lease::decode_answers(&mut bytes)?)
            }
            8 => PeerMessage::StateHash {
                index: bytes.try_get_u64_le().ok()?,
                hash: bytes.try_get_u64_le().ok()?,
            },
            9 => {
                let mut name = decode_name(&mut bytes)?;
                name.key = bytes.split_to(bytes.len());
                PeerMessage::ValueQuestion(name)
            }
            10 => decode_value_answer(&mut bytes)?,
            11 => PeerMessage::EntryQuestion {
                index: bytes.try_get_u64_le().ok()?,
                term: bytes.try_get_u64_le().ok()?,
            },
            12 => decode_entry_answer(&mut bytes)?,
            13 => {
                let (run, sequence, request) = membership::decode_request(&mut bytes)?;
                PeerMessage::MembershipRequest { run, sequence, request }
            }
            14 => {
                let (run, sequence, error) = membership::decode_refusal(&mut bytes)?;
                PeerMessage::MembershipRefusal { run, sequence, error }
            }
            15 => {
                let (id, peer_urls) = membership::decode_introduction(&mut bytes)?;
                PeerMessage::Introduction { id, peer_urls }
            }
            _ => return None,
        };
        (!bytes.has_remaining()).then_some(frame)
    }
}

fn put_pair(head: &mut BytesMut, kind: u8, first: u64, second: u64) {
    head.put_u8(kind);
    head.put_u64_le(first);
    head.put_u64_le(second);
}

fn decode_refused(bytes: &mut Bytes) -> Option<PeerMessage> {
    let reason = match bytes.try_get_u8().ok()? {
        1 => Reason::NotLeader,
        2 => Reason::TooManyRequests,
        3 => Reason::NoSpace,
        _ => return None,
    };
    let run = bytes.try_get_u64_le().ok()?;
    let mut sequences = Vec::with_capacity(bytes.len() / 8);
    while bytes.has_remaining() {
        sequences.push(bytes.try_get_u64_le().ok()?);
    }
    Some(PeerMessage::Refused { reason, run, sequences })
}

fn encode_entry_answer(head: &mut BytesMut, index: u64, term: u64, entry: Option<&(u8, Bytes)>) {
    head.put_u8(12);
    head.put_u64_le(index);
    head.put_u64_le(term);
    head.put_u8(u8::from(entry.is_some()));
    let (kind, checksum) = match entry {
        Some((kind, payload)) => (*kind, log::entry_checksum(term, index, *kind, payload)),
        None => (0, 0),
    };
    head.put_u8(kind);
    head.put_u32_le(checksum);
}

/// An entry that does not check is no frame: only a sender at fault makes one.
fn decode_entry_answer(bytes: &mut Bytes) -> Option<PeerMessage> {
    let (index, term) = (bytes.try_get_u64_le().ok()?, bytes.try_get_u64_le().ok()?);
    let found = lease::decode_bool(bytes)?;
    let (kind, checksum) = (bytes.try_get_u8().ok()?, bytes.try_get_u32_le().ok()?);
    let payload = bytes.split_to(bytes.len());
    let intact = match found {
        true => log::entry_checksum(term, index, kind, &payload) == checksum,
        false => (kind, checksum) == (0, 0) && payload.is_empty(),
    };
    intact.then_some(PeerMessage::EntryAnswer { index, term, entry: found.then_some((kind, payload)) })
}

fn encode_name(head: &mut BytesMut, name: &ValueName) {
    head.put_i64_le(name.main);
    head.put_u32_le(name.sub);
    head.put_u32_le(name.len);
    head.put_u32_le(name.checksum);
}

fn decode_name(bytes: &mut Bytes) -> Option<ValueName> {
    Some(ValueName {
        main: bytes.try_get_i64_le().ok()?,
        sub: bytes.try_get_u32_le().ok()?,
        len: bytes.try_get_u32_le().ok()?,
        checksum: bytes.try_get_u32_le().ok()?,
        key: Bytes::new(),
    })
}

fn encode_value_answer(head: &mut BytesMut, name: &ValueName, is_found: bool) {
    head.put_u8(10);
    encode_name(head, name);
    head.put_u32_le(name.key.len() as u32);
    head.put_slice(&name.key);
    head.put_u8(u8::from(is_found));
}

fn decode_value_answer(bytes: &mut Bytes) -> Option<PeerMessage> {
    let mut name = decode_name(bytes)?;
    let key = bytes.try_get_u32_le().ok()? as usize;
    if bytes.len() < key {
        return None;
    }
    name.key = bytes.split_to(key);
    let found = lease::decode_bool(bytes)?;
    let value = bytes.split_to(bytes.len());
    let is_written_so = found || value.is_empty();
    is_written_so.then(|| PeerMessage::ValueAnswer(name, found.then_some(value)))
}

#[cfg(test)]
mod tests;
