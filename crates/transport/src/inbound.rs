//! Incoming connections: the handshake from the acceptor's side, then a thread that reads.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tracing::{debug, info, warn};

use crate::counters::Counters;
use crate::frame::HEADER_BYTES;
use crate::peer::Peer;
use crate::peers::Shared;
use crate::reader::FrameReader;
use crate::stream::Stream;
use crate::{
    Answer, Error, HELLO_BYTES, Hello, Kind, MAX_VERSION, MIN_VERSION, Refusal, Side, StreamClass,
    StreamKind, snapshot,
};

/// One of the threads that incoming connections may have.
struct Permit(Arc<Shared>);

impl Permit {
    fn take(shared: &Arc<Shared>) -> Result<Permit, Error> {
        let max = shared.config.limits.max_inbound_connections;
        let permit = Permit(shared.clone());
        if shared.inbound_connections.fetch_add(1, Relaxed) >= max {
            return Err(Error::TooManyConnections(max));
        }
        Ok(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.inbound_connections.fetch_sub(1, Relaxed);
    }
}

/// Takes a connection whose first bytes are (still to be read and) the preface.
pub(crate) fn accept(shared: &Arc<Shared>, tcp: TcpStream) -> Result<(), Error> {
    let permit = Permit::take(shared)?;
    let read = move || receive(&permit.0, tcp);
    let thread = std::thread::Builder::new().name("peer-in".into());
    thread.spawn(read).map_err(Error::io("start a thread")).map(drop)
}

/// The life of the connection's thread.
fn receive(shared: &Shared, tcp: TcpStream) {
    let address = tcp.peer_addr().map_or_else(|error| error.to_string(), |address| address.to_string());
    let timeouts = &shared.config.timeouts;
    let mut stream = match Stream::new(tcp, timeouts.stall) {
        Ok(stream) => stream,
        Err(error) => return warn!(address, %error, "cannot set up a peer connection"),
    };
    match welcome(shared, &mut stream) {
        Ok(hello) => attend(shared, &mut stream, &hello, &address),
        // Told to the owner and the log already.
        Err(Error::RefusedPeer(_)) => {}
        Err(error) => warn!(address, %error, "a peer connection failed in its handshake"),
    }
    stream.shutdown();
}

/// Serves an admitted connection to its end.
fn attend(shared: &Shared, stream: &mut Stream, hello: &Hello, address: &str) {
    let id = hello.from.member_id;
    let name = format!("{id:x}");
    let peer = match shared.peer_or_insert(id) {
        Ok(peer) => peer,
        Err(error) => return warn!(peer = name, %error, "cannot take a peer connection"),
    };
    debug!(peer = name, address, stream = ?hello.stream, "the peer connected");
    match read(shared, &peer, stream, hello.stream) {
        Ok(()) => {}
        Err(error @ (Error::Closed | Error::Replaced | Error::Stopped)) => {
            info!(peer = name, address, stream = ?hello.stream, %error, "a connection of the peer ended");
        }
        Err(error) => {
            Counters::add(&peer.counters.receive_failures, 1);
            warn!(peer = name, address, stream = ?hello.stream, %error, "a connection of the peer failed");
        }
    }
}

/// Reads the hello and answers it.
fn welcome(shared: &Shared, stream: &mut Stream) -> Result<Hello, Error> {
    let timeouts = &shared.config.timeouts;
    let deadline = Instant::now() + timeouts.handshake;
    stream.tcp().set_write_timeout(Some(timeouts.stall)).map_err(Error::io("set a timeout"))?;
    let mut bytes = [0; HELLO_BYTES];
    stream.read_exact_by(&mut bytes, deadline, timeouts.handshake)?;
    let hello = Hello::decode(&bytes)?;
    let verdict = judge(shared, &hello);
    let answer = Answer { from: shared.config.local, verdict };
    stream.write_all(&answer.encode()).map_err(Error::io("write the answer"))?;
    match answer.verdict {
        Ok(_) => Ok(hello),
        Err(refusal) => {
            shared.note_refusal(hello.from.member_id, Side::Local, &refusal);
            Err(Error::RefusedPeer(refusal))
        }
    }
}

/// The protocol version to speak, or why not to speak. Versions come first: what follows them may have changed
/// its meaning.
fn judge(shared: &Shared, hello: &Hello) -> Result<u16, Refusal> {
    let version = hello.choose_version(MIN_VERSION, MAX_VERSION)?;
    shared.admit(&hello.from, None)?;
    shared.check_addressee(hello.to)?;
    Ok(version)
}

/// Reads one connection to its end.
fn read(shared: &Shared, peer: &Peer, stream: &mut Stream, kind: StreamKind) -> Result<(), Error> {
    let slot = peer.slot(kind);
    let claim = slot.claim(stream.tcp())?;
    match kind {
        StreamKind::Snapshot => claim.deliver(|| snapshot::receive(shared, peer.id, stream))?,
        StreamKind::Messages(class) => {
            if class == StreamClass::Control {
                peer.hurry();
            }
            let mut reader = FrameReader::new(shared.config.limits.max_frame_bytes);
            loop {
                let frame = reader.read_frame(stream)?;
                Counters::add(&peer.counters.received_bytes, (HEADER_BYTES + frame.body.len()) as u64);
                match (frame.kind, class) {
                    (Kind::Message, _) => {
                        let more = reader.has_more();
                        claim.deliver(|| shared.sink.frame(peer.id, class, frame.body, more))?;
                    }
                    (Kind::Ping, StreamClass::Control) => {
                        frame.number()?;
                        let max = shared.config.limits.max_frame_bytes;
                        stream.write_frame(Kind::Pong, &[frame.body], max)?;
                    }
                    _ => return Err(frame.unexpected()),
                }
            }
        }
    }
}
