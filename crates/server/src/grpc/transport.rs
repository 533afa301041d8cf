//! What a client connection is to everything above it: bytes in and out, and what its handshake established.
//!
//! TLS fits here: its stream reads and writes what is decrypted and encrypted, and its handshake has chosen a protocol.

use tokio::io::{AsyncRead, AsyncWrite};

/// What a client speaks: its handshake has chosen it (ALPN), or its first bytes say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientProtocol {
    /// HTTP/2.
    Http2,
    /// HTTP/1.1.
    Http1,
}

/// See the module.
pub(crate) trait ClientTransport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// What the handshake has chosen; `None` if there was none, or it chose nothing: the first bytes decide.
    fn protocol(&self) -> Option<ClientProtocol> {
        None
    }
}

impl ClientTransport for tokio::net::TcpStream {}
impl ClientTransport for tokio::net::UnixStream {}
