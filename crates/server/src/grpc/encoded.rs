//! A response as its bytes.
//!
//! It is often a small header before bytes that many clients share, so it is a list of pieces, which are joined only
//! where that is cheaper than sending them one by one.

use bytes::Bytes;

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
