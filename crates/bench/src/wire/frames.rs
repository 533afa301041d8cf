//! Frames: a head of nine bytes, and a payload.

/// Bytes of a frame's head.
pub(super) const HEAD_BYTES: usize = 9;

/// The least that every peer takes as one payload.
pub(super) const FIRST_PAYLOAD_BYTES: usize = 16 << 10;

/// Types of frames.
pub(super) mod kind {
    pub(in crate::wire) const DATA: u8 = 0;
    pub(in crate::wire) const HEADERS: u8 = 1;
    pub(in crate::wire) const RESET: u8 = 3;
    pub(in crate::wire) const SETTINGS: u8 = 4;
    pub(in crate::wire) const PING: u8 = 6;
    pub(in crate::wire) const GO_AWAY: u8 = 7;
    pub(in crate::wire) const WINDOW_UPDATE: u8 = 8;
    pub(in crate::wire) const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub(super) mod flag {
    pub(in crate::wire) const ACK: u8 = 1;
    pub(in crate::wire) const END_STREAM: u8 = 1;
    pub(in crate::wire) const END_HEADERS: u8 = 4;
    pub(in crate::wire) const PADDED: u8 = 8;
    pub(in crate::wire) const PRIORITY: u8 = 0x20;
}

/// Numbers of settings.
pub(super) mod setting {
    pub(in crate::wire) const TABLE_SIZE: u16 = 1;
    pub(in crate::wire) const PUSH: u16 = 2;
    pub(in crate::wire) const MAX_STREAMS: u16 = 3;
    pub(in crate::wire) const WINDOW: u16 = 4;
    pub(in crate::wire) const FRAME_BYTES: u16 = 5;
}

/// The head of a frame that came.
#[derive(Clone, Copy)]
pub(super) struct Prefix {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Prefix {
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Self { length, kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Adds the head of a frame to `into`. `length` fits 24 bits.
pub(super) fn head(length: usize, kind: u8, flags: u8, stream: u32, into: &mut Vec<u8>) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    into.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// The payload without its padding and priority; `None` when they are longer than it.
pub(super) fn content(prefix: Prefix, payload: &[u8]) -> Option<&[u8]> {
    let mut content = payload;
    if prefix.has(flag::PADDED) {
        let (padding, rest) = content.split_first()?;
        content = rest.get(..rest.len().checked_sub(usize::from(*padding))?)?;
    }
    if prefix.kind == kind::HEADERS && prefix.has(flag::PRIORITY) {
        content = content.get(5..)?;
    }
    Some(content)
}
