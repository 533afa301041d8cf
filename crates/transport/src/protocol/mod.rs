//! The peer protocol to the byte: handshakes, frames, streams, peer URLs. Pure functions of bytes.

mod frame;
mod handshake;
mod refusal;
mod stream_kind;
mod url;

pub use frame::{FRAME_HEADER_BYTES, Frame, FrameError, FrameHeader, FrameKind};
pub(crate) use frame::{NUMBER_BYTES, number_body};
pub use handshake::{
    ANSWER_BYTES, HELLO_BYTES, HandshakeAnswer, HandshakeError, Hello, MAX_REFUSAL_TEXT_BYTES, MAX_VERSION,
    MIN_VERSION, PREFACE, PeerIdentity,
};
pub use refusal::{Refusal, RefusalReason, Side};
pub use stream_kind::{StreamClass, StreamKind};
pub(crate) use url::{PeerAddress, PeerUrl};
pub use url::{UrlError, acceptor_name};
