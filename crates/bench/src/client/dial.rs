//! Makes connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ctl::{Address, CallError, Endpoint, Security};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// Time for a connection when the line names none.
const DIAL_TIME: Duration = Duration::from_secs(5);

/// The number of gRPC's code `Unavailable`.
const UNAVAILABLE: i32 = 14;

/// Bytes in both directions.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> ByteStream for T {}

/// How connections are made.
pub(crate) struct Dialling {
    /// Zero for the usual.
    pub(crate) timeout: Duration,
    /// For `https` endpoints, and for those without a scheme if `tls_flagged`.
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) tls_flagged: bool,
}

impl Dialling {
    /// Whether an endpoint is reached by TLS.
    pub(super) fn is_secure(&self, endpoint: &Endpoint) -> bool {
        match endpoint.security {
            Security::Plain => false,
            Security::Tls => true,
            Security::AsFlagged => self.tls_flagged,
        }
    }

    /// Connects to an endpoint.
    ///
    /// # Errors
    /// Why it cannot be reached, with its name.
    pub(super) async fn connect(&self, endpoint: &Endpoint) -> Result<Box<dyn ByteStream>, CallError> {
        let limit = if self.timeout.is_zero() { DIAL_TIME } else { self.timeout };
        let connected = tokio::time::timeout(limit, self.socket(endpoint)).await;
        let why = match connected {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no connection within {limit:?}"),
        };
        Err(CallError::status(UNAVAILABLE, format!("cannot reach {}: {why}", endpoint.name)))
    }

    async fn socket(&self, endpoint: &Endpoint) -> io::Result<Box<dyn ByteStream>> {
        let address = match &endpoint.address {
            Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Address::Tcp(address) => address,
        };
        let socket = TcpStream::connect(address.as_str()).await?;
        // Without it small messages only wait a little.
        let _ = socket.set_nodelay(true);
        if !self.is_secure(endpoint) {
            return Ok(Box::new(socket));
        }
        let name = ServerName::try_from(endpoint.host().to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        Ok(Box::new(connector.connect(name, socket).await?))
    }
}
