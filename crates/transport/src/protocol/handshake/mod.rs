//! The handshake: the dialler sends a hello, the acceptor an answer; only then frames flow.
//!
//! Member a dials its bulk stream to member b of cluster 7. Both must complete the handshake within
//! [`crate::Timeouts::handshake`]:
//!
//! ```text
//! a: hello   versions 2..=5, stream bulk, cluster 7, from a (incarnation 51), to b
//!            b checks: checksum, versions, cluster, member and incarnation of the sender, the member meant
//! b: answer  version 5, cluster 7, from b (incarnation 62)
//!            a checks the identity in the answer the same way, and closes if it does not fit
//! a: frame, frame, ...
//!
//! b was not meant, or a was removed:
//! b: answer  reason 2 "this is member c, not b"        and closes; a waits a second and dials again
//! ```
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
//! | 10 | 2 | 0 when accepted, else the code of the [`RefusalReason`] |
//! | 12 | 2 | length of the text, 0 when accepted |
//! | 14 | 2 | zero |
//! | 16 | 8 | cluster id |
//! | 24 | 8 | member id of the acceptor |
//! | 32 | 8 | incarnation of the acceptor |
//! | 40 | 4 | CRC-32C of the text |
//! | 44 | 4 | CRC-32C of bytes 0 to 43 |
//!
//! All protocol versions have these two layouts. A reader ignores the bytes that are zero today, so that it can answer
//! a newer peer that its version is too new.

use crate::protocol::refusal::{Refusal, RefusalReason};
use crate::protocol::stream_kind::StreamKind;

/// The first bytes of a peer connection. The first is no ASCII, so neither HTTP nor TLS begins like this.
pub const PREFACE: &[u8; 8] = b"\x89STELEP\n";
const ANSWER_PREFACE: &[u8; 8] = b"\x89STELEA\n";

/// The oldest protocol version this release speaks. Version 2 names process runs in the messages of members.
pub const MIN_VERSION: u16 = 2;
/// The newest protocol version this release speaks. Version 3 carries requests about members, and says that its speaker
/// can apply changes of membership; version 4 says that it can apply commands about users and roles, version 5 that it
/// can apply downgrades.
pub const MAX_VERSION: u16 = 5;

/// Length of a hello.
pub const HELLO_BYTES: usize = 64;
/// Length of an answer without its text.
pub const ANSWER_BYTES: usize = 48;
/// The longest text of a refusal: a few sentences.
pub const MAX_REFUSAL_TEXT_BYTES: usize = 1024;

/// The identity that each side of a handshake presents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Equal on all members of a cluster; another one in a cluster that was forced out of it.
    pub cluster_id: u64,
    /// Unique within the cluster; never used again.
    pub member_id: u64,
    /// The random number of the member's data directory.
    pub incarnation: u64,
}

/// The dialler's half of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The oldest protocol version the dialler speaks.
    pub min_version: u16,
    /// The newest protocol version the dialler speaks.
    pub max_version: u16,
    /// What the connection is for.
    pub stream: StreamKind,
    /// The dialler.
    pub from: PeerIdentity,
    /// The member the dialler means to reach.
    pub to: u64,
}

impl Hello {
    /// A hello of this release, to a member of any release that it can talk to.
    pub fn new(from: PeerIdentity, to: u64, stream: StreamKind) -> Hello {
        Hello { min_version: MIN_VERSION, max_version: MAX_VERSION, stream, from, to }
    }

    /// The hello as it goes on the wire.
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

    /// Decodes a hello. Whether to accept it is decided by the caller.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Hello, HandshakeError> {
        check_preface(bytes, PREFACE)?;
        check_sum(bytes, 60)?;
        Ok(Hello {
            min_version: half(bytes, 8),
            max_version: half(bytes, 10),
            stream: StreamKind::from_code(bytes[12]).ok_or(HandshakeError::Stream(bytes[12]))?,
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
            return Err(refusal(RefusalReason::VersionTooOld));
        }
        if self.min_version > newest {
            return Err(refusal(RefusalReason::VersionTooNew));
        }
        Ok(self.max_version.min(newest))
    }
}

/// The acceptor's half of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeAnswer {
    /// The acceptor.
    pub from: PeerIdentity,
    /// The protocol version it chose, or why it refuses.
    pub verdict: Result<u16, Refusal>,
}

impl HandshakeAnswer {
    /// The answer as it goes on the wire, with the text of a refusal.
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

    /// Decodes an answer and the text that follows it.
    pub fn decode(bytes: &[u8; ANSWER_BYTES], text: &[u8]) -> Result<HandshakeAnswer, HandshakeError> {
        HandshakeAnswer::text_length(bytes)?;
        let (stored, computed) = (word(bytes, 40), crc32c::crc32c(text));
        if stored != computed {
            return Err(HandshakeError::Checksum { stored, computed });
        }
        let verdict = match half(bytes, 10) {
            0 => Ok(half(bytes, 8)),
            code => Err(Refusal::new(RefusalReason::from_code(code), String::from_utf8_lossy(text))),
        };
        Ok(HandshakeAnswer { from: identity(bytes), verdict })
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

fn put_identity(bytes: &mut [u8], identity: &PeerIdentity) {
    bytes[16..24].copy_from_slice(&identity.cluster_id.to_le_bytes());
    bytes[24..32].copy_from_slice(&identity.member_id.to_le_bytes());
    bytes[32..40].copy_from_slice(&identity.incarnation.to_le_bytes());
}

fn identity(bytes: &[u8]) -> PeerIdentity {
    PeerIdentity { cluster_id: long(bytes, 16), member_id: long(bytes, 24), incarnation: long(bytes, 32) }
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

/// What is wrong with the bytes of a handshake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The first eight bytes are something else.
    #[error("it starts with {0:02x?}, which is not the preface")]
    Preface([u8; 8]),
    /// The checksum does not match.
    #[error("checksum is {stored:08x}, computed {computed:08x}")]
    Checksum {
        /// As read.
        stored: u32,
        /// Of the bytes read.
        computed: u32,
    },
    /// A stream this version does not know.
    #[error("stream code {0} is unknown")]
    Stream(u8),
    /// The text of a refusal is longer than allowed.
    #[error("a refusal text of {0} bytes")]
    TextTooLong(u16),
    /// The peer chose a version we do not speak.
    #[error("the peer chose protocol version {0}, which we did not offer")]
    Version(u16),
}

#[cfg(test)]
mod tests;
