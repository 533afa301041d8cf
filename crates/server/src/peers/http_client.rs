//! HTTP requests to the peer URLs of other members, in the clear or over TLS, over TCP or a Unix socket.
//!
//! What is asked, and what an answer means, is the caller's: `startup/join/mod.rs` asks for the members, `corruption`
//! for hashes. Each request has a connection of its own, because they are rare. Callers bound the time.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::HOST;
use axum::http::{Response, request};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::config::{Scheme, Url};
use crate::tls::TlsSource;

/// Sends requests to other members.
#[derive(Clone)]
pub(crate) struct PeerHttp {
    tls: Option<Arc<TlsSource>>,
}

impl PeerHttp {
    /// With the certificates of `tls`, if there are any.
    pub(crate) fn new(tls: Option<Arc<TlsSource>>) -> PeerHttp {
        PeerHttp { tls }
    }

    /// Sends a request, which has no header `Host` yet, to the member that listens at `url`.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn send(
        &self,
        url: &Url,
        request: request::Builder,
        body: Body,
    ) -> Result<Response<Incoming>, String> {
        match url.scheme() {
            Scheme::Unix => exchange(UnixStream::connect(url.address()).await, url, request, body).await,
            Scheme::Http => exchange(TcpStream::connect(url.address()).await, url, request, body).await,
            Scheme::Https => {
                let stream = TcpStream::connect(url.address()).await.map_err(text)?;
                exchange(self.encrypt(url, stream).await?, url, request, body).await
            }
            Scheme::Unixs => {
                let stream = UnixStream::connect(url.address()).await.map_err(text)?;
                exchange(self.encrypt(url, stream).await?, url, request, body).await
            }
        }
    }

    /// Does the handshake, in which the acceptor proves who the URL names.
    async fn encrypt<I>(&self, url: &Url, stream: I) -> Result<std::io::Result<TlsStream<I>>, String>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let name = transport::acceptor_name(url.as_str()).map_err(text)?;
        let host = ServerName::try_from(name).map_err(text)?;
        let config = self.tls.as_ref().and_then(|source| source.current().http_client());
        let config = config.ok_or("no TLS is configured for other members (--peer-trusted-ca-file)")?;
        Ok(TlsConnector::from(config).connect(host, stream).await)
    }
}

async fn exchange<I>(
    stream: std::io::Result<I>,
    url: &Url,
    request: request::Builder,
    body: Body,
) -> Result<Response<Incoming>, String>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream.map_err(text)?)).await.map_err(text)?;
    tokio::spawn(connection);
    // A path is no host; as in HTTP clients for Unix sockets, any name will do.
    let host = if url.scheme().is_unix() { "localhost" } else { url.address() };
    let request = request.header(HOST, host).body(body).map_err(text)?;
    sender.send_request(request).await.map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
