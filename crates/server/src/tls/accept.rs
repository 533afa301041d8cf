//! The listener's side of a handshake.
//!
//! A handshake is a part of its connection's task, and all else that its thread does runs between its steps
//! (`limited_steps`). It has a deadline, and who calls limits how many there are. One that fails is logged as etcd logs
//! it, but the same failure of one address once a minute.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::{CertificateError, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::address::{self, SystemResolver};
use super::certificate::CertificateNames;
use super::limited_steps::limit_steps;
use super::loaded::Offer;
use super::sides::TlsSide;
use super::source::TlsSource;
use super::verify::RefusedCertificate;
use crate::logging::RepeatedFailures;

/// Time for a handshake; etcd's. The check of a member's address has its own.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// First byte of a TLS connection: a record of a handshake. No other protocol that is spoken here begins with it.
pub(crate) const FIRST_BYTE: u8 = 0x16;

/// How the connections of one listener are secured.
pub(crate) struct TlsListener {
    source: Arc<TlsSource>,
    offer: Offer,
    failures: Mutex<RepeatedFailures>,
}

/// Why a connection was rejected.
#[derive(Debug, thiserror::Error)]
enum Rejection {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the TLS handshake was not complete after {HANDSHAKE_TIMEOUT:?}")]
    Timeout,
    #[error("{0}")]
    Certificate(String),
    #[error("no certificate is loaded for this endpoint")]
    NoCertificate,
    #[error("a file of authorities or revoked certificates cannot be used; the log names it")]
    BadRestrictions,
}

/// What is known of a dialler when it is rejected.
#[derive(Default)]
struct RejectedDialler {
    server_name: String,
    certificate: Option<CertificateNames>,
}

impl TlsListener {
    /// A listener that offers these protocols with the certificates of `source`.
    pub(crate) fn new(source: Arc<TlsSource>, offer: Offer) -> TlsListener {
        TlsListener { source, offer, failures: Mutex::default() }
    }

    /// Does the handshake of a connection from `remote`, which is none on a Unix socket. `None` if it was rejected.
    pub(crate) async fn accept<I>(&self, io: I, remote: Option<SocketAddr>) -> Option<TlsStream<I>>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let mut dialler = RejectedDialler::default();
        match self.accept_or_reject(io, remote, &mut dialler).await {
            Ok(stream) => Some(stream),
            Err(rejection) => {
                self.log(remote, &dialler, &rejection);
                None
            }
        }
    }

    async fn accept_or_reject<I>(
        &self,
        io: I,
        remote: Option<SocketAddr>,
        dialler: &mut RejectedDialler,
    ) -> Result<TlsStream<I>, Rejection>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let shaking = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.handshake(io, dialler));
        let stream = shaking.await.unwrap_or(Err(Rejection::Timeout))?;
        self.check_address(&stream, remote, dialler).await?;
        Ok(stream)
    }

    async fn handshake<I>(&self, io: I, dialler: &mut RejectedDialler) -> Result<TlsStream<I>, Rejection>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), io).await?;
        dialler.server_name = hello.client_hello().server_name().unwrap_or_default().to_owned();
        let loaded = self.source.current_off_worker().await;
        if loaded.is_refusing {
            return Err(Rejection::BadRestrictions);
        }
        let config: Arc<ServerConfig> = loaded.server(self.offer).ok_or(Rejection::NoCertificate)?;
        limit_steps(hello.into_stream(config)).await.map_err(|error| {
            let refused = refused_certificate(&error);
            dialler.certificate = refused.map(|refused| refused.names.clone());
            refused.map(|refused| Rejection::Certificate(refused.reason.clone())).unwrap_or(error.into())
        })
    }

    /// Checks a member's certificate against the address it connects from, as etcd does unless told otherwise. Unix
    /// sockets have no addresses.
    async fn check_address<I>(
        &self,
        stream: &TlsStream<I>,
        remote: Option<SocketAddr>,
        dialler: &mut RejectedDialler,
    ) -> Result<(), Rejection> {
        let files = self.source.files();
        if files.side == TlsSide::Client || files.skips_address_check() {
            return Ok(());
        }
        let (Some(remote), Some(names)) = (remote, certificate_of(stream)) else { return Ok(()) };
        dialler.certificate = Some(names.clone());
        let remote = remote.ip().to_canonical();
        address::check(&names, remote, Arc::new(SystemResolver)).await.map_err(Rejection::Certificate)
    }

    fn log(&self, remote: Option<SocketAddr>, dialler: &RejectedDialler, rejection: &Rejection) {
        let address = remote.map_or_else(|| "@".to_owned(), |remote| remote.to_string());
        let server_name = dialler.server_name.as_str();
        // A connection that is opened and closed again, as probes do, is not worth a warning.
        if matches!(rejection, Rejection::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof) {
            let side = self.source.files().side.name();
            return tracing::debug!(side, remote_addr = address, server_name, error = %rejection, "rejected connection");
        }
        let key = format!("{} {rejection}", remote.map(|remote| remote.ip().to_string()).unwrap_or_default());
        let Some(count) = self.failures.lock().due(&key, Instant::now()) else { return };
        // As in etcd the line has no such fields if there was no certificate, or none that could be read.
        let names = dialler.certificate.as_ref();
        let ips = names.map(|names| names.ip_addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>());
        let ips = ips.map(|ips| format!("{ips:?}"));
        let dns = names.map(|names| format!("{:?}", names.dns_names));
        macro_rules! warn {
            ($message:literal) => {
                tracing::warn!(
                    "remote-addr" = address, "server-name" = server_name, "ip-addresses" = ips, "dns-names" = dns,
                    error = %rejection, count, $message
                )
            };
        }
        match self.source.files().side {
            TlsSide::Client => warn!("rejected connection on client endpoint"),
            TlsSide::Peer => warn!("rejected connection on peer endpoint"),
        }
    }
}

/// The certificate that our rules have refused, if that was the reason.
fn refused_certificate(error: &io::Error) -> Option<&RefusedCertificate> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(CertificateError::Other(other)) = error else { return None };
    other.0.downcast_ref::<RefusedCertificate>()
}

/// For whom the certificate is that the other side has proven to own, if it was asked for one.
pub(crate) fn certificate_of<I>(stream: &TlsStream<I>) -> Option<CertificateNames> {
    let first = stream.get_ref().1.peer_certificates()?.first()?;
    // It was read before, when it was verified.
    CertificateNames::of(first).ok()
}
