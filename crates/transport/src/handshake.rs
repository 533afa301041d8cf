//! The handshake: the dialler's hello, the acceptor's answer.
//!
//! Hello, 64 bytes (numbers little endian):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | [`PREFACE`] |
//! | 8 | 2 | oldest protocol version the dialler speaks |
//! | 10 | 2 | newest protocol version the dialler speaks |
//! | 12 | 1 | stream: 1 control, 2 bulk, 3 snapshot |
//! | 13 | 3 | zero |
//! | 16 | 8 | cluster id |
//! | 24 | 8 | member id of the dialler |
//! | 32 | 8 | incarnation of the dialler |
//! | 40 | 8 | member id the dialler means to reach |
//! | 48 | 12 | zero |
//! | 60 | 4 | CRC-32C of bytes 0 to 59 |
//!
//! Answer, 48 bytes, then the text of a refusal:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `89 "STELEA" 0a` |
//! | 8 | 2 | protocol version chosen, 0 when refused |
//! | 10 | 2 | 0 when accepted, else the code of the [`Reason`] |
//! | 12 | 2 | length of the text, 0 when accepted |
//! | 14 | 2 | zero |
//! | 16 | 8 | cluster id |
//! | 24 | 8 | member id of the acceptor |
//! | 32 | 8 | incarnation of the acceptor |
//! | 40 | 4 | CRC-32C of the text |
//! | 44 | 4 | CRC-32C of bytes 0 to 43 |
//!
//! These two layouts are those of every protocol version, past and to come; a reader ignores the bytes that are
//! zero today, so that a newer peer can be told by name that it is too new.

use crate::{HandshakeError, Reason, Refusal, StreamClass};

/// The first bytes of a peer connection. The first is no ASCII, so neither HTTP nor TLS begins like this.
pub const PREFACE: &[u8; 8] = b"\x89STELEP\n";
const ANSWER_PREFACE: &[u8; 8] = b"\x89STELEA\n";

/// The oldest protocol version this release speaks.
pub const MIN_VERSION: u16 = 1;
/// The newest protocol version this release speaks.
pub const MAX_VERSION: u16 = 1;

/// Length of a hello.
pub const HELLO_BYTES: usize = 64;
/// Length of an answer without its text.
pub const ANSWER_BYTES: usize = 48;
/// The longest text of a refusal: a few sentences.
pub const MAX_REFUSAL_TEXT_BYTES: usize = 1024;

/// Who somebody is: what both sides of a handshake present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster_id: u64,
    /// The member of the cluster.
    pub member_id: u64,
    /// The data directory of the member.
    pub incarnation: u64,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Messages of one class.
    Messages(StreamClass),
    /// One snapshot.
    Snapshot,
}

impl StreamKind {
    fn code(self) -> u8 {
        match self {
            StreamKind::Messages(StreamClass::Control) => 1,
            StreamKind::Messages(StreamClass::Bulk) => 2,
            StreamKind::Snapshot => 3,
        }
    }

    fn from_code(code: u8) -> Result<StreamKind, HandshakeError> {
        match code {
            1 => Ok(StreamKind::Messages(StreamClass::Control)),
            2 => Ok(StreamKind::Messages(StreamClass::Bulk)),
            3 => Ok(StreamKind::Snapshot),
            other => Err(HandshakeError::Stream(other)),
        }
    }
}

/// What the dialler says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The oldest protocol version it speaks.
    pub min_version: u16,
    /// The newest protocol version it speaks.
    pub max_version: u16,
    /// What the connection is for.
    pub stream: StreamKind,
    /// Who it is.
    pub from: Identity,
    /// The member it means to reach.
    pub to: u64,
}

impl Hello {
    /// A hello of this release.
    pub fn new(from: Identity, to: u64, stream: StreamKind) -> Hello {
        Hello { min_version: MIN_VERSION, max_version: MAX_VERSION, stream, from, to }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(PREFACE);
        bytes[8..10].copy_from_slice(&self.min_version.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.max_version.to_le_bytes());
        bytes[12] = self.stream.code();
        put_identity(&mut bytes, &self.from);
        bytes[40..48].copy_from_slice(&self.to.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a hello. Says nothing about whether it is welcome.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Hello, HandshakeError> {
        check_preface(bytes, PREFACE)?;
        check_sum(bytes, 60)?;
        Ok(Hello {
            min_version: half(bytes, 8),
            max_version: half(bytes, 10),
            stream: StreamKind::from_code(bytes[12])?,
            from: identity(bytes),
            to: long(bytes, 40),
        })
    }

    /// The newest version both this hello and `oldest..=newest` speak.
    pub(crate) fn choose_version(&self, oldest: u16, newest: u16) -> Result<u16, Refusal> {
        let theirs = format!("{} to {}", self.min_version, self.max_version);
        let ours = format!("{oldest} to {newest}");
        let refusal = |reason| {
            Refusal::new(
                reason,
                format!("you speak the peer protocol in versions {theirs}, this member {ours}"),
            )
        };
        if self.max_version < oldest {
            return Err(refusal(Reason::VersionTooOld));
        }
        if self.min_version > newest {
            return Err(refusal(Reason::VersionTooNew));
        }
        Ok(self.max_version.min(newest))
    }
}

/// What the acceptor says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Who it is.
    pub from: Identity,
    /// The protocol version it chose, or why it will not talk.
    pub verdict: Result<u16, Refusal>,
}

impl Answer {
    /// Its bytes, with the text of a refusal.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..8].copy_from_slice(ANSWER_PREFACE);
        put_identity(&mut bytes, &self.from);
        let mut text = "";
        match &self.verdict {
            Ok(version) => bytes[8..10].copy_from_slice(&version.to_le_bytes()),
            Err(refusal) => {
                text = cut(&refusal.text, MAX_REFUSAL_TEXT_BYTES);
                bytes[10..12].copy_from_slice(&refusal.reason.code().to_le_bytes());
                bytes[12..14].copy_from_slice(&(text.len() as u16).to_le_bytes());
            }
        }
        bytes[40..44].copy_from_slice(&crc32c::crc32c(text.as_bytes()).to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&checksum.to_le_bytes());
        [&bytes, text.as_bytes()].concat()
    }

    /// The length of the text that follows these bytes.
    pub fn text_length(bytes: &[u8; ANSWER_BYTES]) -> Result<usize, HandshakeError> {
        check_preface(bytes, ANSWER_PREFACE)?;
        check_sum(bytes, 44)?;
        match half(bytes, 12) {
            long if usize::from(long) > MAX_REFUSAL_TEXT_BYTES => Err(HandshakeError::TextTooLong(long)),
            length => Ok(usize::from(length)),
        }
    }

    /// Reads an answer and the text that followed it.
    pub fn decode(bytes: &[u8; ANSWER_BYTES], text: &[u8]) -> Result<Answer, HandshakeError> {
        Answer::text_length(bytes)?;
        let (stored, computed) = (word(bytes, 40), crc32c::crc32c(text));
        if stored != computed {
            return Err(HandshakeError::Checksum { stored, computed });
        }
        let verdict = match half(bytes, 10) {
            0 => Ok(half(bytes, 8)),
            code => Err(Refusal::new(Reason::from_code(code), String::from_utf8_lossy(text))),
        };
        Ok(Answer { from: identity(bytes), verdict })
    }
}

fn check_preface(bytes: &[u8], expected: &[u8; 8]) -> Result<(), HandshakeError> {
    match bytes.first_chunk::<8>() {
        Some(found) if found == expected => Ok(()),
        found => Err(HandshakeError::Preface(found.copied().unwrap_or_default())),
    }
}

/// Checks the checksum at `at` over everything before it.
fn check_sum(bytes: &[u8], at: usize) -> Result<(), HandshakeError> {
    let (stored, computed) = (word(bytes, at), crc32c::crc32c(&bytes[..at]));
    if stored == computed { Ok(()) } else { Err(HandshakeError::Checksum { stored, computed }) }
}

fn put_identity(bytes: &mut [u8], identity: &Identity) {
    bytes[16..24].copy_from_slice(&identity.cluster_id.to_le_bytes());
    bytes[24..32].copy_from_slice(&identity.member_id.to_le_bytes());
    bytes[32..40].copy_from_slice(&identity.incarnation.to_le_bytes());
}

fn identity(bytes: &[u8]) -> Identity {
    Identity { cluster_id: long(bytes, 16), member_id: long(bytes, 24), incarnation: long(bytes, 32) }
}

/// `text`, cut at a character boundary to at most `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests;
