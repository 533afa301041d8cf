//! Messages in a stream of bytes: a flag, a length, and so many bytes.
//!
//! A message that is too large is refused when its length arrives, before anything of it is kept.

use api::Code;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{Encoded, Failure};

/// Bytes before a message: a flag and its length.
pub(super) const PREFIX_BYTES: usize = 5;

/// Messages up to this size are copied out of the frame they came in. The frame is a slice of the connection's read
/// buffer, and a few bytes that somebody keeps (the key of a watcher) must not keep all of that.
const COPIED_BYTES: usize = 4096;

/// Answers up to this size leave as one DATA frame, their pieces joined: a copy costs less than a frame.
pub(super) const JOINED_BYTES: usize = 8192;

/// Finds the messages in what a client sends.
#[derive(Debug)]
pub(super) struct Messages {
    max_bytes: usize,
    /// What has arrived and was not handed out. While a message is incomplete it is gathered in `partial`.
    arrived: Bytes,
    partial: BytesMut,
}

impl Messages {
    /// Messages of at most `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Messages {
        Messages { max_bytes, arrived: Bytes::new(), partial: BytesMut::new() }
    }

    /// Takes the next bytes of the stream; what came before has been asked for by [`Messages::next`] until there was
    /// nothing more.
    pub(super) fn push(&mut self, data: Bytes) {
        if self.partial.is_empty() {
            self.arrived = data;
        } else {
            self.partial.extend_from_slice(&data);
        }
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// When it is larger than the limit, or compressed.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        if !self.partial.is_empty() {
            let length = self.length(&self.partial)?;
            if length.is_none_or(|length| self.partial.len() < PREFIX_BYTES + length) {
                return Ok(None);
            }
            self.arrived = std::mem::take(&mut self.partial).freeze();
        }
        match self.length(&self.arrived)? {
            Some(length) if self.arrived.len() >= PREFIX_BYTES + length => {
                self.arrived.advance(PREFIX_BYTES);
                let message = self.arrived.split_to(length);
                let is_small = message.len() <= COPIED_BYTES;
                Ok(Some(if is_small { Bytes::copy_from_slice(&message) } else { message }))
            }
            _ => {
                self.partial.extend_from_slice(&std::mem::take(&mut self.arrived));
                Ok(None)
            }
        }
    }

    /// Whether the stream may end here: between two messages.
    pub(super) fn is_between(&self) -> bool {
        self.arrived.is_empty() && self.partial.is_empty()
    }

    /// The length of the message that begins here, once its prefix is there.
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let Some(&[flag, a, b, c, d]) = bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        match flag {
            0 => {}
            1 => return Err(Failure::new(Code::Internal, COMPRESSED)),
            flag => {
                let text = format!("grpc: received unexpected payload format {flag}");
                return Err(Failure::new(Code::Internal, text));
            }
        }
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let max = self.max_bytes;
        if length > max {
            let text = format!("grpc: received message larger than max ({length} vs. {max})");
            return Err(Failure::new(Code::ResourceExhausted, text));
        }
        Ok(Some(length))
    }
}

/// A message says it is compressed, in a call that did not say how.
const COMPRESSED: &str = "grpc: compressed flag set with identity or empty encoding";

/// What stands before a message of so many bytes.
pub(super) fn prefix(length: usize) -> Bytes {
    let mut prefix = BytesMut::with_capacity(PREFIX_BYTES);
    put_prefix(&mut prefix, length);
    prefix.freeze()
}

/// Writes what stands before a message of so many bytes.
pub(super) fn put_prefix(out: &mut BytesMut, length: usize) {
    out.put_u8(0);
    // Limits on requests and answers keep messages far below this.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

/// The DATA of a message: its prefix and small pieces joined, large ones as they are.
pub(super) fn frames(message: Encoded) -> impl Iterator<Item = Bytes> {
    let length = message.len();
    let joins = length <= JOINED_BYTES;
    let mut joined = BytesMut::with_capacity(PREFIX_BYTES + if joins { length } else { 0 });
    put_prefix(&mut joined, length);
    let mut rest = Vec::new();
    for piece in message.0 {
        if joins { joined.extend_from_slice(&piece) } else { rest.push(piece) }
    }
    std::iter::once(joined.freeze()).chain(rest)
}

#[cfg(test)]
mod tests;
