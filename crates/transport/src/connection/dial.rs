//! Dialling a peer: each of its URLs, each of their addresses, and the dialler's side of the handshake.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::connection::socket::PeerSocket;
use crate::context::StreamContext;
use crate::error::Error;
use crate::peer_info::PeerInfo;
use crate::protocol::{
    ANSWER_BYTES, HandshakeAnswer, HandshakeError, Hello, MAX_VERSION, PeerIdentity, RefusalReason, Side,
    StreamKind,
};

/// Opens a stream to the first address of the peer that accepts us. Returns the protocol version to speak, too. The
/// error is that of the last address tried.
pub(crate) fn dial(
    context: &StreamContext,
    peer: &PeerInfo,
    kind: StreamKind,
) -> Result<(PeerSocket, u16), Error> {
    let mut last = None;
    for url in peer.urls().iter() {
        let failed = |source| Error::Dial { address: url.to_string(), source };
        match url.resolve() {
            Err(error) => last = Some(failed(error)),
            Ok(addresses) => {
                for address in addresses {
                    match dial_address(context, peer, address, kind) {
                        Ok(dialled) => return Ok(dialled),
                        Err(error) => last = Some(error),
                    }
                }
            }
        }
    }
    let nowhere = || io::Error::new(io::ErrorKind::AddrNotAvailable, "it has no address");
    Err(last.unwrap_or_else(|| Error::Dial { address: peer.id_hex(), source: nowhere() }))
}

fn dial_address(
    context: &StreamContext,
    peer: &PeerInfo,
    address: SocketAddr,
    kind: StreamKind,
) -> Result<(PeerSocket, u16), Error> {
    let timeouts = &context.config.timeouts;
    let dead_after = if kind == StreamKind::Snapshot { timeouts.snapshot } else { timeouts.stall };
    let mut socket = TcpStream::connect_timeout(&address, timeouts.dial)
        .and_then(|tcp| PeerSocket::new(tcp, dead_after))
        .map_err(|source| Error::Dial { address: address.to_string(), source })?;
    let version = shake_hands(context, peer, &mut socket, kind)?;
    Ok((socket, version))
}

/// Sends the hello and checks the answer. Returns the protocol version that the acceptor chose.
fn shake_hands(
    context: &StreamContext,
    peer: &PeerInfo,
    socket: &mut PeerSocket,
    kind: StreamKind,
) -> Result<u16, Error> {
    let allowed = context.config.timeouts.handshake;
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
