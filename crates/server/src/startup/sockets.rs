//! Accepted connections, over TCP or a Unix socket, in the clear or with TLS.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::connection_cap::ConnectionCap;
use crate::auth::Source;
use crate::grpc::{ClientProtocol, ClientTransport};
use crate::tls::{FIRST_BYTE, TlsListener, certificate_of};

/// Time in which a client must have sent the first bytes, which tell its protocol. It sends them when it connects.
pub(super) const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection, of either kind.
pub(super) enum AcceptedSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection on its way from one runtime to another.
pub(super) enum DetachedSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// A connection whose handshake is over, if there was one.
pub(super) enum SecuredSocket {
    Plain(AcceptedSocket),
    Tls(Box<TlsStream<AcceptedSocket>>),
}

/// Which connections a listener takes.
#[derive(Clone)]
pub(super) enum ListenerSecurity {
    /// Those in the clear.
    Plain,
    /// Those with TLS.
    Tls(SecureEndpoint),
    /// Both, told apart by their first byte.
    Either(SecureEndpoint),
}

/// How handshakes are done, and how many at a time.
#[derive(Clone)]
pub(super) struct SecureEndpoint {
    pub(super) tls: Arc<TlsListener>,
    pub(super) handshakes: ConnectionCap,
}

impl ListenerSecurity {
    /// What a listener takes on whose address there are URLs of these kinds.
    pub(super) fn new(has_plain: bool, secure: Option<SecureEndpoint>) -> ListenerSecurity {
        match secure {
            None => ListenerSecurity::Plain,
            Some(endpoint) if has_plain => ListenerSecurity::Either(endpoint),
            Some(endpoint) => ListenerSecurity::Tls(endpoint),
        }
    }

    /// Does the handshake of a connection that needs one. `None` if it was rejected, or said nothing in time.
    pub(super) async fn secure(&self, socket: AcceptedSocket) -> Option<SecuredSocket> {
        let (endpoint, takes_plain) = match self {
            ListenerSecurity::Plain => return Some(SecuredSocket::Plain(socket)),
            ListenerSecurity::Tls(endpoint) => (endpoint, false),
            ListenerSecurity::Either(endpoint) => (endpoint, true),
        };
        // A connection that says nothing holds no place among the handshakes.
        let first = socket.first_byte().await?;
        if takes_plain && first != FIRST_BYTE {
            return Some(SecuredSocket::Plain(socket));
        }
        let _permit = endpoint.handshakes.admit()?;
        let remote = socket.remote();
        endpoint.tls.accept(socket, remote).await.map(|stream| SecuredSocket::Tls(Box::new(stream)))
    }
}

impl AcceptedSocket {
    /// The connection as a `TcpStream`, also that of a Unix socket: that type is a descriptor with the calls of any
    /// stream socket, and nothing is called here that only TCP knows.
    pub(super) fn into_stream(self) -> io::Result<TcpStream> {
        match self {
            AcceptedSocket::Tcp(stream) => Ok(stream),
            AcceptedSocket::Unix(stream) => {
                TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(stream.into_std()?)))
            }
        }
    }

    pub(super) fn leave_runtime(self) -> io::Result<DetachedSocket> {
        Ok(match self {
            AcceptedSocket::Tcp(stream) => DetachedSocket::Tcp(stream.into_std()?),
            AcceptedSocket::Unix(stream) => DetachedSocket::Unix(stream.into_std()?),
        })
    }

    pub(super) fn join_runtime(detached: DetachedSocket) -> io::Result<AcceptedSocket> {
        Ok(match detached {
            DetachedSocket::Tcp(stream) => AcceptedSocket::Tcp(TcpStream::from_std(stream)?),
            DetachedSocket::Unix(stream) => AcceptedSocket::Unix(UnixStream::from_std(stream)?),
        })
    }

    /// Where it comes from.
    pub(super) fn source(&self) -> Source {
        self.remote().map_or_else(Source::default, |address| Source::of(address.ip()))
    }

    fn remote(&self) -> Option<SocketAddr> {
        match self {
            AcceptedSocket::Tcp(stream) => stream.peer_addr().ok(),
            AcceptedSocket::Unix(_) => None,
        }
    }

    /// The first byte, which stays to be read; `None` if there is none in time.
    pub(super) async fn first_byte(&self) -> Option<u8> {
        let peeked = tokio::time::timeout(FIRST_BYTES_TIMEOUT, async {
            match self {
                AcceptedSocket::Tcp(stream) => {
                    let mut first = [0; 1];
                    stream.peek(&mut first).await.map(|count| (count, first[0]))
                }
                AcceptedSocket::Unix(stream) => {
                    let peek = || {
                        let mut first = [0; 1];
                        let (count, _) = rustix::net::recv(stream, &mut first[..], RecvFlags::PEEK)?;
                        Ok((count, first[0]))
                    };
                    stream.async_io(Interest::READABLE, peek).await
                }
            }
        });
        peeked.await.ok()?.ok().filter(|(count, _)| *count == 1).map(|(_, first)| first)
    }
}

/// Calls a method of whatever the connection is.
macro_rules! delegate {
    ($self:ident, $enum:ident::{$($kind:ident),*}, $io:ident => $call:expr) => {
        match $self.get_mut() {
            $($enum::$kind(stream) => {
                let $io = Pin::new(stream);
                $call
            })*
        }
    };
}

impl AsyncRead for AcceptedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self, AcceptedSocket::{Tcp, Unix}, io => io.poll_read(context, into))
    }
}

impl AsyncWrite for AcceptedSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, AcceptedSocket::{Tcp, Unix}, io => io.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, AcceptedSocket::{Tcp, Unix}, io => io.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, AcceptedSocket::{Tcp, Unix}, io => io.poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, AcceptedSocket::{Tcp, Unix}, io => io.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl AsyncRead for SecuredSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self, SecuredSocket::{Plain, Tls}, io => io.poll_read(context, into))
    }
}

impl AsyncWrite for SecuredSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, SecuredSocket::{Plain, Tls}, io => io.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, SecuredSocket::{Plain, Tls}, io => io.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, SecuredSocket::{Plain, Tls}, io => io.poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, SecuredSocket::{Plain, Tls}, io => io.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl ClientTransport for SecuredSocket {
    fn protocol(&self) -> Option<ClientProtocol> {
        let SecuredSocket::Tls(stream) = self else { return None };
        match stream.get_ref().1.alpn_protocol()? {
            b"h2" => Some(ClientProtocol::Http2),
            _ => Some(ClientProtocol::Http1),
        }
    }
}

impl SecuredSocket {
    /// The common name of the certificate that the client has proven to own; `None` if it was not asked for one.
    pub(super) fn common_name(&self) -> Option<Arc<str>> {
        let SecuredSocket::Tls(stream) = self else { return None };
        certificate_of(stream).map(|names| names.common_name.into())
    }
}

#[cfg(test)]
mod tests {
    //! What a connection that says nothing holds.
    use std::future::poll_fn;
    use std::task::Poll;

    use prometheus::IntCounter;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::tls::tests::generated_listener;

    #[tokio::test]
    async fn a_silent_connection_holds_no_place_among_the_handshakes() {
        let dir = tempfile::tempdir().expect("a directory");
        let refused = IntCounter::new("refused", "those beyond").expect("a good name");
        let handshakes = ConnectionCap::new("test", 1, refused);
        let endpoint = SecureEndpoint { tls: generated_listener(dir.path()), handshakes: handshakes.clone() };
        for has_plain in [false, true] {
            let security = ListenerSecurity::new(has_plain, Some(endpoint.clone()));
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            let mut securing = Box::pin(security.secure(AcceptedSocket::Unix(ours)));
            let mut step =
                async || poll_fn(|context| Poll::Ready(securing.as_mut().poll(context).is_pending())).await;
            assert!(step().await, "it waits for the first byte");
            assert!(handshakes.admit().is_some(), "and holds no place");
            theirs.write_all(&[FIRST_BYTE]).await.expect("room");
            while handshakes.admit().is_some() {
                assert!(step().await, "it waits for the rest");
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn one_handshake_too_many_is_refused_and_the_clear_goes_on() {
        let dir = tempfile::tempdir().expect("a directory");
        let refused = IntCounter::new("refused", "those beyond").expect("a good name");
        let handshakes = ConnectionCap::new("test", 1, refused.clone());
        let endpoint = SecureEndpoint { tls: generated_listener(dir.path()), handshakes: handshakes.clone() };
        let security = ListenerSecurity::new(true, Some(endpoint));
        let _held = handshakes.admit().expect("the only place");
        for (first, is_served) in [(FIRST_BYTE, false), (b'G', true)] {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            theirs.write_all(&[first]).await.expect("room");
            assert_eq!(security.secure(AcceptedSocket::Unix(ours)).await.is_some(), is_served);
        }
        assert_eq!(refused.get(), 1, "it is counted");
    }
}
