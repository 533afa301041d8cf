//! Connects to an endpoint, with TLS where it is asked for.

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::endpoint::{Address, Endpoint};
use super::error::CallError;
use super::options::ClientOptions;

/// Bytes in both directions.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Connects to a member.
pub(super) async fn connect(
    endpoint: &Endpoint,
    options: &ClientOptions,
) -> Result<Box<dyn Duplex>, CallError> {
    match &endpoint.address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(CallError::from_io)?)),
        Address::Tcp(address) => {
            let socket = TcpStream::connect(address.as_str()).await.map_err(CallError::from_io)?;
            // Without it small messages only wait a little.
            let _ = socket.set_nodelay(true);
            let Some(tls) = options.tls_for(endpoint) else { return Ok(Box::new(socket)) };
            let name = options.server_name.as_deref().unwrap_or(endpoint.host());
            let name = ServerName::try_from(name.to_owned())
                .map_err(|error| CallError::from_io(std::io::Error::other(error)))?;
            let stream = TlsConnector::from(tls).connect(name, socket).await.map_err(CallError::from_io)?;
            Ok(Box::new(stream))
        }
    }
}
