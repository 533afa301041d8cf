//! A gRPC codec that moves bytes: requests come in as they were sent, responses go out as pieces.
//!
//! A request's own bytes are what the log keeps, so they are handed on undecoded; a response is often a small header
//! before bytes that many clients share, so it is a list of pieces that are joined only in the send buffer.

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// An encoded message in pieces, sent one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoded(pub(crate) Vec<Bytes>);

impl Encoded {
    /// Encodes a whole message as one piece.
    pub(crate) fn message(message: &impl prost::Message) -> Encoded {
        Encoded(vec![message.encode_to_vec().into()])
    }

    /// Bytes of all pieces.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

/// The codec; it has no state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raw;

impl Codec for Raw {
    type Encode = Encoded;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

/// Bytes a call's buffers begin with. Both grow as they must; the library's 8 KiB would be allocated twice a call, for
/// messages of a few hundred bytes.
const BUFFER_BYTES: usize = 512;

/// Bytes after which a stream of responses lets the connection write: the library's.
const YIELD_BYTES: usize = 32 * 1024;

impl Encoder for Raw {
    type Item = Encoded;
    type Error = Status;

    fn encode(&mut self, item: Encoded, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(item.len());
        item.0.into_iter().for_each(|piece| buffer.put(piece));
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
    }
}
