//! A small gRPC client: one call without streams at a time, in the clear or with TLS. A [`DialledServer`] is to one
//! server; [`GrpcClient`] makes one for each call, to the first endpoint that answers.
//!
//! With it a member that starts asks a discovery service a few questions, and a running one sends its spans to a
//! collector. It is not for anything that many calls of clients wait for.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request};
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::config::ServiceSecurity;

/// Bytes before a message: a flag (0, not compressed) and the length.
const PREFIX_BYTES: usize = 5;

/// Longest answer that is read. The answers here name a few members.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// The client.
pub(crate) struct GrpcClient {
    /// `host:port`, `http://host:port` or `https://host:port`.
    pub(crate) endpoints: Vec<String>,
    /// Says at which of them TLS is spoken.
    pub(crate) security: ServiceSecurity,
    /// How TLS is spoken, if it is at one of them.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// For a connection.
    pub(crate) dial_timeout: Duration,
    /// For a whole call.
    pub(crate) request_timeout: Duration,
    /// Sent with each call, if there is one: what `Authenticate` gave.
    pub(crate) token: Option<String>,
}

/// A connection to one server.
pub(crate) struct DialledServer {
    client: h2::client::SendRequest<Bytes>,
    /// The scheme and the address.
    url: String,
    /// Reads and writes the socket; ends with the connection.
    driver: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

impl GrpcClient {
    /// Calls a method, such as `/etcdserverpb.KV/Range`.
    ///
    /// # Errors
    /// The status that the last endpoint answered with, or why it could not be asked.
    pub(crate) async fn call<A: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
    ) -> Result<A, String> {
        let body = pack(request)?;
        let mut last = "there is no endpoint".to_owned();
        for endpoint in &self.endpoints {
            let asked = tokio::time::timeout(self.request_timeout, self.ask(endpoint, method, body.clone()));
            match asked.await.map_err(|_| "no answer in time".to_owned()).and_then(|answer| answer) {
                Ok(answer) => return A::decode(answer).map_err(|error| error.to_string()),
                Err(error) => last = format!("{endpoint}: {error}"),
            }
        }
        Err(last)
    }

    async fn ask(&self, endpoint: &str, method: &str, body: Bytes) -> Result<Bytes, String> {
        let (address, is_secure) = self.security.address_of(endpoint);
        let tls = self.tls.clone().filter(|_| is_secure);
        let connection = DialledServer::open(address, tls, self.dial_timeout).await?;
        connection.exchange(method, body, self.token.as_deref()).await
    }
}

impl DialledServer {
    /// Connects to `host:port`, in the clear or with TLS.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) async fn open(
        address: &str,
        tls: Option<Arc<ClientConfig>>,
        dial_timeout: Duration,
    ) -> Result<DialledServer, String> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let dialled = tokio::time::timeout(dial_timeout, dial(address, tls));
        let stream = dialled.await.map_err(|_| "no connection in time".to_owned())??;
        let (client, connection) = h2::client::handshake(stream).await.map_err(|error| error.to_string())?;
        Ok(DialledServer { client, url: format!("{scheme}://{address}"), driver: tokio::spawn(connection) })
    }

    /// Calls a method.
    ///
    /// # Errors
    /// The status that the server answered with, or why it could not be asked: then the connection is of no more use.
    pub(crate) async fn call<A: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
    ) -> Result<A, String> {
        let answer = self.exchange(method, pack(request)?, None).await?;
        A::decode(answer).map_err(|error| error.to_string())
    }

    async fn exchange(&self, method: &str, body: Bytes, token: Option<&str>) -> Result<Bytes, String> {
        let text = |error: h2::Error| error.to_string();
        let mut client = self.client.clone().ready().await.map_err(text)?;
        let url = format!("{}{method}", self.url);
        let mut request =
            Request::post(url).header("content-type", "application/grpc").header("te", "trailers");
        if let Some(token) = token {
            request = request.header("token", token);
        }
        let request = request.body(()).map_err(|error| error.to_string())?;
        let (response, mut sending) = client.send_request(request, false).map_err(text)?;
        sending.send_data(body, true).map_err(text)?;
        let response = response.await.map_err(text)?;
        if !response.status().is_success() {
            return Err(format!("it answers with HTTP status {}", response.status()));
        }
        let (head, mut receiving) = response.into_parts();
        let mut answer = BytesMut::new();
        while let Some(part) = receiving.data().await {
            let part = part.map_err(text)?;
            receiving.flow_control().release_capacity(part.len()).map_err(text)?;
            answer.put_slice(&part);
            if answer.len() > MAX_ANSWER_BYTES {
                return Err("its answer is too long".to_owned());
            }
        }
        let trailers = receiving.trailers().await.map_err(text)?;
        check_status(trailers.as_ref().unwrap_or(&head.headers))?;
        unpack(answer.freeze())
    }
}

impl Drop for DialledServer {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A request as it travels.
fn pack(request: &impl Message) -> Result<Bytes, String> {
    let mut body = BytesMut::with_capacity(PREFIX_BYTES + request.encoded_len());
    body.put_u8(0);
    body.put_u32(u32::try_from(request.encoded_len()).map_err(|_| "the request is too long".to_owned())?);
    body.put_slice(&request.encode_to_vec());
    Ok(body.freeze())
}

/// A connection, in the clear or with TLS.
trait ServiceStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ServiceStream for S {}

async fn dial(address: &str, tls: Option<Arc<ClientConfig>>) -> Result<Box<dyn ServiceStream>, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let Some(config) = tls else { return Ok(Box::new(stream)) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let secure = TlsConnector::from(config).connect(name, stream).await;
    Ok(Box::new(secure.map_err(|error| error.to_string())?))
}

/// The status at the end of an answer; in its head if there is nothing else.
fn check_status(headers: &HeaderMap) -> Result<(), String> {
    let value = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    match value("grpc-status") {
        Some("0") => Ok(()),
        Some(_) => Err(value("grpc-message").unwrap_or("it gives no reason").to_owned()),
        None => Err("it does not speak gRPC".to_owned()),
    }
}

/// The one message of an answer.
fn unpack(mut answer: Bytes) -> Result<Bytes, String> {
    if answer.len() < PREFIX_BYTES || answer.get_u8() != 0 {
        return Err("its answer holds no message".to_owned());
    }
    let len = answer.get_u32() as usize;
    if len == answer.len() { Ok(answer) } else { Err("its answer is cut short".to_owned()) }
}

#[cfg(test)]
mod tests {
    //! Answers, good and bad.
    use super::*;

    #[test]
    fn what_is_no_answer_is_told_with_its_reason() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
        assert_eq!(check_status(&headers(&[("grpc-status", "0")])), Ok(()));
        let failed = headers(&[("grpc-status", "14"), ("grpc-message", "etcdserver: no leader")]);
        assert_eq!(check_status(&failed), Err("etcdserver: no leader".to_owned()));
        assert_eq!(check_status(&headers(&[])), Err("it does not speak gRPC".to_owned()));
        assert_eq!(unpack(Bytes::from_static(b"\0\0\0\0\x02ab")), Ok(Bytes::from_static(b"ab")));
        for bad in [&b""[..], b"\0\0\0\0\x03ab", b"\x01\0\0\0\x02ab", b"\0\0"] {
            assert!(unpack(Bytes::from_static(bad)).is_err(), "{bad:?}");
        }
    }
}
