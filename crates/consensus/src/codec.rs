//! Messages as bytes (docs/internals/peer-messages.md gives every byte).
//!
//! Encoding is a list of pieces: one header, then the entries' payloads as they are, so that nothing is copied on
//! the way to the socket. Decoding checks everything that can be checked without knowing the log: version, kinds,
//! lengths, the CRC of each entry, that nothing is left over. It is total: any bytes give a message or a
//! [`DecodeError`]. What depends on the state of the node is checked by `guard`.

mod decode;
mod encode;
mod reader;
#[cfg(test)]
mod tests;

pub use decode::DecodeError;
pub(crate) use reader::Reader;

/// Version of the message format.
pub const MESSAGE_VERSION: u8 = 1;
/// Bytes of the header common to all messages.
const HEADER_BYTES: usize = 28;
/// Bytes of one entry in the table of an append.
const ENTRY_ROW_BYTES: usize = 17;

/// The numbers of the message kinds.
mod kind {
    pub(super) const APPEND: u8 = 1;
    pub(super) const APPEND_ACCEPTED: u8 = 2;
    pub(super) const APPEND_REJECTED: u8 = 3;
    pub(super) const VOTE: u8 = 4;
    pub(super) const VOTE_RESPONSE: u8 = 5;
    pub(super) const HEARTBEAT: u8 = 6;
    pub(super) const HEARTBEAT_RESPONSE: u8 = 7;
    pub(super) const TIMEOUT_NOW: u8 = 8;
    pub(super) const SNAPSHOT: u8 = 9;
    pub(super) const LEADERSHIP_CHECK: u8 = 10;
    pub(super) const LEADERSHIP_CHECK_RESPONSE: u8 = 11;
}

/// The bits of the flags byte.
mod flag {
    /// A pre-vote or its response.
    pub(super) const PRE: u8 = 1;
    /// A vote request of a leader transfer.
    pub(super) const TRANSFER: u8 = 2;
    /// A vote that is given.
    pub(super) const GRANTED: u8 = 4;
}
