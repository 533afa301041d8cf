//! What strangers send before anything is known of them: tokens, certificates, the first bytes of a connection, heads
//! and messages of calls; and what is in the files of certificates and keys.
//!
//! The readers themselves are in `auth`, `grpc` and `tls`. Here they are put together without a member, a clock or a
//! socket, so that the fuzz targets in `fuzz/` reach them. Nothing in the product uses this module.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::auth::{self, Credentials, JwtTokens, tokens};
use crate::config::{JwtOptions, ServerConfig, SignMethod};
use crate::grpc::{self, ClientProtocol, ClientTransport};
use crate::tls::{
    CertificateNames, CertificateRules, Offer, TlsListener, TlsSides, certificates_in, revoked_in,
};

/// Reads signed tokens.
pub struct SignedTokens(JwtTokens);

impl SignedTokens {
    /// With the keys of these options.
    ///
    /// # Errors
    /// Keys that cannot be used.
    pub fn load(options: &JwtOptions) -> Result<SignedTokens, String> {
        JwtTokens::load(options).map(SignedTokens).map_err(|error| error.to_string())
    }

    /// The user and the auth revision of a token that is valid now.
    pub fn owner(&self, token: &str) -> Option<(String, u64)> {
        self.0.owner(token).ok().map(|owner| (owner.name.as_ref().to_owned(), owner.revision))
    }
}

/// The entry that assigned a simple token, if the text has the form of one.
pub fn simple_token_entry(text: &str) -> Option<u64> {
    tokens::parse(text).map(|(_, index)| index)
}

/// The token in the value of an `Authorization` header.
pub fn token_of_header(value: &[u8]) -> Option<String> {
    Credentials::of_header(Some(value)).token().map(|token| token.as_ref().to_owned())
}

/// Whether a client speaks HTTP/2, by what it sends, of which so many bytes arrive at a time; and all of it, as it is
/// read behind that decision.
///
/// # Errors
/// The connection ended: there is no such.
pub fn first_bytes(bytes: &[u8], at_a_time: usize) -> io::Result<(bool, Vec<u8>)> {
    let connection = EndingConnection { bytes: bytes.to_owned(), next: 0, at_a_time: at_a_time.max(1) };
    // Nothing that it reads from waits.
    let ended = || io::Error::from(io::ErrorKind::WouldBlock);
    let (protocol, mut rest) = grpc::protocol(connection).now_or_never().ok_or_else(ended)??;
    let mut read = Vec::new();
    rest.read_to_end(&mut read).now_or_never().ok_or_else(ended)??;
    Ok((protocol == ClientProtocol::Http2, read))
}

pub use crate::grpc::ReadRequest;

/// Reads heads and messages of requests.
pub struct RequestReader(tokio::runtime::Runtime);

impl RequestReader {
    /// One for any number of requests.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<RequestReader> {
        tokio::runtime::Builder::new_current_thread().build().map(RequestReader)
    }

    /// What a request is with these header fields and this body, of less than 256 KiB, of which so many bytes arrive at
    /// a time; its messages have at most `max_bytes`.
    pub fn read(
        &self,
        fields: &[(&str, &[u8])],
        body: &[u8],
        at_a_time: usize,
        max_bytes: usize,
    ) -> ReadRequest {
        self.0.block_on(grpc::read_request(fields, body, at_a_time, max_bytes))
    }
}

/// A message as a client sends it, compressed.
pub fn gzip_message(message: Vec<u8>) -> Vec<u8> {
    grpc::gzip_message(message.into())
}

/// For whom a certificate is, as it is read of one that the other side shows.
pub struct ReadCertificate {
    names: CertificateNames,
    der: CertificateDer<'static>,
}

impl ReadCertificate {
    /// Reads a certificate in DER; `None` if it is none.
    pub fn of(der: &[u8]) -> Option<ReadCertificate> {
        let der = CertificateDer::from(der.to_vec());
        Some(ReadCertificate { names: CertificateNames::of(&der).ok()?, der })
    }

    /// Its common name.
    pub fn common_name(&self) -> &str {
        &self.names.common_name
    }

    /// The host names and addresses that it is for.
    pub fn hosts(&self) -> Vec<String> {
        let addresses = self.names.ip_addresses.iter().map(ToString::to_string);
        self.names.dns_names.iter().cloned().chain(addresses).collect()
    }

    /// Its serial number, without leading zeros.
    pub fn serial(&self) -> &[u8] {
        &self.names.serial
    }

    /// Whether it is for a host.
    pub fn is_for(&self, host: &str) -> bool {
        self.names.is_for(host)
    }

    /// Whether it is admitted where these common names and these hosts are allowed (all, if there are none) and these
    /// serial numbers revoked.
    pub fn is_admitted(
        &self,
        common_names: Vec<String>,
        hostnames: Vec<String>,
        revoked: HashSet<Vec<u8>>,
    ) -> bool {
        CertificateRules { common_names, hostnames, revoked }.check(&self.der, &[]).is_ok()
    }
}

/// How many certificates a file holds.
///
/// # Errors
/// What is wrong with it.
pub fn certificates(file: &[u8]) -> Result<usize, String> {
    certificates_in(file).map(|certificates| certificates.len())
}

/// The serial numbers that a file revokes, without leading zeros.
///
/// # Errors
/// What is wrong with it.
pub fn revoked_serials(file: &[u8]) -> Result<HashSet<Vec<u8>>, String> {
    revoked_in(file)
}

/// Reads the files of keys for signed tokens; returns whether what they sign is what they check.
///
/// # Errors
/// Keys that cannot be used.
pub fn token_keys(method: SignMethod, public: &[u8], private: &[u8]) -> Result<bool, String> {
    auth::read_keys(method, public, private).map_err(|error| error.to_string())
}

/// The client listeners of a configuration, for handshakes of TLS.
pub struct Handshakes {
    listener: std::sync::Arc<TlsListener>,
    runtime: tokio::runtime::Runtime,
}

impl Handshakes {
    /// Reads or makes up the certificates.
    ///
    /// # Errors
    /// Files that cannot be used, or no `https` URL of clients.
    pub fn load(config: &ServerConfig) -> Result<Handshakes, String> {
        let sides = TlsSides::load(config).map_err(|error| error.to_string())?;
        let listener = sides.for_clients(Offer::AnyHttp).ok_or("no client URL is of https")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        Ok(Handshakes { listener, runtime: runtime.map_err(|error| error.to_string())? })
    }

    /// Whether a connection that sends this and ends gets through its handshake.
    pub fn is_accepted(&self, bytes: &[u8], at_a_time: usize) -> bool {
        let connection = EndingConnection { bytes: bytes.to_owned(), next: 0, at_a_time: at_a_time.max(1) };
        self.runtime.block_on(self.listener.accept(connection, None)).is_some()
    }
}

/// A connection that sends its bytes and ends, and takes everything.
struct EndingConnection {
    bytes: Vec<u8>,
    next: usize,
    at_a_time: usize,
}

impl ClientTransport for EndingConnection {}

impl AsyncRead for EndingConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = self.at_a_time.min(into.remaining()).min(self.bytes.len() - self.next);
        into.put_slice(&self.bytes[self.next..self.next + count]);
        self.next += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for EndingConnection {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    //! What comes in is what is read again.
    use super::*;

    #[test]
    fn a_request_is_read_however_it_arrives() {
        let reader = RequestReader::new().expect("a runtime");
        let large = vec![7; 100_000];
        let body = [&[0, 0, 0, 0, 2][..], b"hi", &gzip_message(large.clone()), &[0, 0, 0]].concat();
        let mut fields: Vec<(&str, &[u8])> = vec![
            (":method", b"POST"),
            (":authority", b"a"),
            ("content-type", b"application/grpc"),
            ("grpc-timeout", b"150m"),
            ("grpc-encoding", b"gzip"),
        ];
        let messages = vec![b"hi".to_vec().into(), large.into()];
        let time = Some(std::time::Duration::from_millis(150));
        let all = ReadRequest::Call { messages, failure: None, time };
        for at_a_time in [1, 7, body.len()] {
            assert_eq!(reader.read(&fields, &body, at_a_time, 100_000), all);
            let less = reader.read(&fields, &body, at_a_time, 99_999);
            let ReadRequest::Call { messages, failure: Some((code, _)), .. } = less else {
                panic!("{less:?}")
            };
            assert_eq!((messages.len(), &code[..]), (1, "8"));
        }
        let refused = reader.read(&fields[..2], &body, 1, 10);
        assert_eq!(refused, ReadRequest::Plain);
        fields[0].1 = b"GET\xff";
        let refused = reader.read(&fields, &body, 1, 10);
        assert!(
            matches!(&refused, ReadRequest::Refused(code, text) if code == "13" && text.is_ascii()),
            "{refused:?}"
        );
        fields.push((":path", b"/"));
        assert_eq!(reader.read(&fields, &body, 1, 10), ReadRequest::Malformed);
    }

    #[test]
    fn the_first_bytes_say_what_is_spoken_and_are_read_again() {
        let http2 = [&http2::PREFACE[..], b"more"].concat();
        for at_a_time in [1, 7, 100] {
            assert_eq!(first_bytes(&http2, at_a_time).expect("whole"), (true, http2.clone()));
            let http1 = b"PRI / HTTP/1.1".to_vec();
            assert_eq!(first_bytes(&http1, at_a_time).expect("whole"), (false, http1));
        }
    }
}
