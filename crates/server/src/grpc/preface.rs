//! What a client speaks. Without a handshake that says it, the first bytes do: HTTP/2 begins with a text that no
//! HTTP/1 request begins with.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http2::PREFACE;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What a client speaks: its handshake has chosen it (ALPN), or its first bytes say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientProtocol {
    /// HTTP/2.
    Http2,
    /// HTTP/1.1.
    Http1,
}

/// What a client connection is to everything above it: bytes in and out, and what its handshake established.
///
/// TLS fits here: its stream reads and writes what is decrypted and encrypted, and its handshake has chosen a protocol.
pub(crate) trait ClientTransport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// What the handshake has chosen; `None` if there was none, or it chose nothing: the first bytes decide.
    fn protocol(&self) -> Option<ClientProtocol> {
        None
    }
}

/// Reads until the protocol is known, unless the handshake has chosen one; returns a connection from which those bytes
/// can be read again.
///
/// # Errors
/// When reading fails. A connection that ends at once is not HTTP/2.
pub(crate) async fn protocol<I: ClientTransport>(
    mut io: I,
) -> io::Result<(ClientProtocol, ReplayedStart<I>)> {
    let mut first = [0; PREFACE.len()];
    let mut length = 0;
    if let Some(chosen) = io.protocol() {
        return Ok((chosen, ReplayedStart { io, first, next: 0, length }));
    }
    while length < first.len() && first[..length] == PREFACE[..length] {
        match io.read(&mut first[length..]).await? {
            0 => break,
            read => length += read,
        }
    }
    let protocol = if first == *PREFACE { ClientProtocol::Http2 } else { ClientProtocol::Http1 };
    Ok((protocol, ReplayedStart { io, first, next: 0, length }))
}

/// A connection whose first bytes were read before, and are read again.
pub(crate) struct ReplayedStart<I> {
    io: I,
    first: [u8; PREFACE.len()],
    next: usize,
    length: usize,
}

impl<I: AsyncRead + Unpin> AsyncRead for ReplayedStart<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let again = &self.first[self.next..self.length];
        if again.is_empty() {
            return Pin::new(&mut self.io).poll_read(context, into);
        }
        let count = again.len().min(into.remaining());
        into.put_slice(&again[..count]);
        self.next += count;
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for ReplayedStart<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
