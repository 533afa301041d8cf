//! The numbers of the message format (docs/internals/peer-messages.md).

/// Version of the message format.
pub const MESSAGE_VERSION: u8 = 1;
/// Bytes of the header common to all messages.
pub(super) const HEADER_BYTES: usize = 28;
/// Bytes of one entry in the table of an append.
pub(super) const ENTRY_ROW_BYTES: usize = 17;

/// Message kinds.
pub(super) mod kind {
    pub(in crate::message::codec) const APPEND: u8 = 1;
    pub(in crate::message::codec) const APPEND_ACCEPTED: u8 = 2;
    pub(in crate::message::codec) const APPEND_REJECTED: u8 = 3;
    pub(in crate::message::codec) const VOTE: u8 = 4;
    pub(in crate::message::codec) const VOTE_RESPONSE: u8 = 5;
    pub(in crate::message::codec) const HEARTBEAT: u8 = 6;
    pub(in crate::message::codec) const HEARTBEAT_RESPONSE: u8 = 7;
    pub(in crate::message::codec) const TIMEOUT_NOW: u8 = 8;
    pub(in crate::message::codec) const SNAPSHOT: u8 = 9;
    pub(in crate::message::codec) const LEADERSHIP_CHECK: u8 = 10;
    pub(in crate::message::codec) const LEADERSHIP_CHECK_RESPONSE: u8 = 11;
}

/// Bits of the flags byte.
pub(super) mod flag {
    /// A pre-vote or its response.
    pub(in crate::message::codec) const PRE: u8 = 1;
    /// A vote request of a leader transfer.
    pub(in crate::message::codec) const TRANSFER: u8 = 2;
    /// A vote that is given.
    pub(in crate::message::codec) const GRANTED: u8 = 4;
}
