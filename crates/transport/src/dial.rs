//! Dialling a peer: its URLs in turn, their addresses in turn, and the handshake from the dialler's side.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::peer::Peer;
use crate::peers::Shared;
use crate::stream::Stream;
use crate::{ANSWER_BYTES, Answer, Error, HandshakeError, Hello, MAX_VERSION, MIN_VERSION, Side, StreamKind};

/// Opens a stream to the first address of the peer that admits us; the error is that of the last one tried.
pub(crate) fn open(shared: &Shared, peer: &Peer, kind: StreamKind) -> Result<Stream, Error> {
    let mut last = None;
    for url in peer.urls().iter() {
        let dial = |source| Error::Dial { address: url.to_string(), source };
        match url.resolve() {
            Err(error) => last = Some(dial(error)),
            Ok(addresses) => {
                for address in addresses {
                    match open_at(shared, peer, address, kind) {
                        Ok(stream) => return Ok(stream),
                        Err(error) => last = Some(error),
                    }
                }
            }
        }
    }
    let nowhere = || io::Error::new(io::ErrorKind::AddrNotAvailable, "it has no address");
    Err(last.unwrap_or_else(|| Error::Dial { address: peer.id_hex(), source: nowhere() }))
}

fn open_at(shared: &Shared, peer: &Peer, address: SocketAddr, kind: StreamKind) -> Result<Stream, Error> {
    let timeouts = &shared.config.timeouts;
    let dead_after = if kind == StreamKind::Snapshot { timeouts.snapshot } else { timeouts.stall };
    let mut stream = TcpStream::connect_timeout(&address, timeouts.dial)
        .and_then(|tcp| Stream::new(tcp, dead_after))
        .map_err(|source| Error::Dial { address: address.to_string(), source })?;
    greet(shared, peer, &mut stream, kind)?;
    Ok(stream)
}

/// Says hello and takes the answer.
fn greet(shared: &Shared, peer: &Peer, stream: &mut Stream, kind: StreamKind) -> Result<(), Error> {
    let allowed = shared.config.timeouts.handshake;
    let deadline = Instant::now() + allowed;
    stream.tcp().set_write_timeout(Some(allowed)).map_err(Error::io("set a timeout"))?;
    let hello = Hello::new(shared.config.local, peer.id, kind);
    stream.write_all(&hello.encode()).map_err(Error::io("write the hello"))?;
    let mut bytes = [0; ANSWER_BYTES];
    stream.read_exact_by(&mut bytes, deadline, allowed)?;
    let mut text = vec![0; Answer::text_length(&bytes)?];
    stream.read_exact_by(&mut text, deadline, allowed)?;
    let answer = Answer::decode(&bytes, &text)?;
    match answer.verdict {
        Err(refusal) => {
            shared.note_refusal(peer.id, Side::Remote, &refusal);
            return Err(Error::RefusedByPeer(refusal));
        }
        Ok(version) if !(MIN_VERSION..=MAX_VERSION).contains(&version) => {
            return Err(HandshakeError::Version(version).into());
        }
        Ok(_) => {}
    }
    shared.admit(&answer.from, Some(peer.id)).map_err(|refusal| {
        shared.note_refusal(peer.id, Side::Local, &refusal);
        Error::RefusedPeer(refusal)
    })
}
