//! Dialling a peer: each of its URLs, each of their addresses, TLS, and the dialler's side of the handshake.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;

use crate::connection::socket::PeerSocket;
use crate::connection::tls;
use crate::context::StreamContext;
use crate::error::Error;
use crate::peer_info::PeerInfo;
use crate::protocol::{
    ANSWER_BYTES, HandshakeAnswer, HandshakeError, Hello, MAX_VERSION, PeerAddress, PeerIdentity, PeerUrl,
    RefusalReason, Side, StreamKind,
};

/// Opens a stream to the first address of the peer that accepts us. Returns the protocol version to speak, too. The
/// error is that of the last address tried; of one where nothing listens only if that is so at all of them.
pub(crate) fn dial(
    context: &StreamContext,
    peer: &PeerInfo,
    kind: StreamKind,
) -> Result<(PeerSocket, u16), Error> {
    let mut last: Option<Error> = None;
    let mut note = |error: Error| {
        if !error.is_not_listening() || last.as_ref().is_none_or(Error::is_not_listening) {
            last = Some(error);
        }
    };
    for url in peer.urls().iter() {
        match url.resolve() {
            Err(error) => note(Error::Resolve { address: url.to_string(), source: error }),
            Ok(addresses) => {
                for address in addresses {
                    match dial_address(context, peer, url, &address, kind) {
                        Ok(dialled) => return Ok(dialled),
                        Err(error) => note(error),
                    }
                }
            }
        }
    }
    let nowhere = || io::Error::new(io::ErrorKind::AddrNotAvailable, "it has no address");
    Err(last.unwrap_or_else(|| Error::Resolve { address: peer.id_hex(), source: nowhere() }))
}

fn dial_address(
    context: &StreamContext,
    peer: &PeerInfo,
    url: &PeerUrl,
    address: &PeerAddress,
    kind: StreamKind,
) -> Result<(PeerSocket, u16), Error> {
    let timeouts = &context.config.timeouts;
    let dead_after = if kind == StreamKind::Snapshot { timeouts.snapshot } else { timeouts.stall };
    let mut socket = address
        .connect(context.config.local_address, timeouts.dial)
        .and_then(|tcp| PeerSocket::new(tcp, dead_after))
        .map_err(|source| Error::Dial { address: address.to_string(), source })?;
    if url.is_secure() {
        socket = encrypt(context, url, socket)?;
    }
    let timeouts = &context.config.timeouts;
    let check = if url.is_secure() { timeouts.address_check } else { Duration::ZERO };
    let version = shake_hands(context, peer, &mut socket, kind, timeouts.handshake + check)?;
    Ok((socket, version))
}

/// Puts TLS around the socket: the acceptor proves that it is the host that the URL names.
fn encrypt(context: &StreamContext, url: &PeerUrl, socket: PeerSocket) -> Result<PeerSocket, Error> {
    let config = context.config.tls.as_ref().and_then(|tls| tls.client_config());
    let config = config.ok_or_else(|| Error::NoTls(url.to_string()))?;
    let name = ServerName::try_from(url.host().to_owned()).map_err(|_| Error::Dial {
        address: url.to_string(),
        source: io::Error::new(io::ErrorKind::InvalidInput, "no certificate can be for a host of this name"),
    })?;
    let allowed = context.config.timeouts.handshake;
    let session = tls::shake_hands(socket.tcp(), config, name, Instant::now() + allowed, allowed)?;
    Ok(socket.with_tls(session))
}

/// Sends the hello and checks the answer, which must be there within `allowed`. Returns the protocol
/// version that the acceptor chose.
fn shake_hands(
    context: &StreamContext,
    peer: &PeerInfo,
    socket: &mut PeerSocket,
    kind: StreamKind,
    allowed: Duration,
) -> Result<u16, Error> {
    let deadline = Instant::now() + allowed;
    socket.tcp().set_write_timeout(Some(allowed)).map_err(Error::io("set a timeout"))?;
    let min_version = context.min_version();
    let hello = Hello { min_version, ..Hello::new(context.config.local, peer.id, kind) };
    socket.write_all(&hello.encode()).map_err(Error::io("write the hello"))?;
    let mut bytes = [0; ANSWER_BYTES];
    socket.read_exact_by(&mut bytes, deadline, allowed)?;
    let mut text = vec![0; HandshakeAnswer::text_length(&bytes)?];
    socket.read_exact_by(&mut text, deadline, allowed)?;
    let answer = HandshakeAnswer::decode(&bytes, &text)?;
    match answer.verdict {
        // Anybody may answer at the URL, but only the member that was meant speaks for the cluster. A refusal that says
        // that another was met comes from that other.
        Err(refusal) if refusal.reason == RefusalReason::WrongMember => {
            context.note_refusal(peer.id, Side::Remote, &refusal);
            Err(Error::RefusedByPeer(refusal))
        }
        Err(refusal) => {
            admit(context, peer, &answer.from)?;
            context.note_refusal(peer.id, Side::Remote, &refusal);
            Err(Error::RefusedByPeer(refusal))
        }
        Ok(version) if !(min_version..=MAX_VERSION).contains(&version) => {
            Err(HandshakeError::Version(version).into())
        }
        Ok(version) => admit(context, peer, &answer.from).map(|()| version),
    }
}

/// Admits the acceptor, if it is the member that was meant.
fn admit(context: &StreamContext, peer: &PeerInfo, acceptor: &PeerIdentity) -> Result<(), Error> {
    context.admit(acceptor, Some(peer.id)).map_err(|refusal| {
        context.note_refusal(peer.id, Side::Local, &refusal);
        Error::RefusedPeer(refusal)
    })
}
