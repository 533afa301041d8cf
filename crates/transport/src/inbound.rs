//! Incoming connections: the acceptor's side of the handshake, then a thread that reads.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tracing::{debug, info, warn};

use crate::connection::{FrameReader, PeerSocket, TlsSession};
use crate::context::StreamContext;
use crate::counters::PeerCounters;
use crate::error::Error;
use crate::owner::AcceptedConnection;
use crate::peer::PeerStreams;
use crate::protocol::{
    FRAME_HEADER_BYTES, FrameKind, HELLO_BYTES, HandshakeAnswer, Hello, MAX_VERSION, Refusal, Side,
    StreamClass, StreamKind,
};
use crate::registry::PeerRegistry;
use crate::snapshot;

/// Takes incoming connections, up to a limit.
pub(crate) struct Acceptor {
    context: Arc<StreamContext>,
    registry: Arc<PeerRegistry>,
    /// Connections that have a thread.
    connections: Arc<AtomicUsize>,
}

/// One of the threads that incoming connections may have.
struct ThreadPermit(Arc<AtomicUsize>);

impl ThreadPermit {
    fn take(connections: &Arc<AtomicUsize>, max: usize) -> Result<ThreadPermit, Error> {
        let permit = ThreadPermit(connections.clone());
        if connections.fetch_add(1, Relaxed) >= max {
            return Err(Error::TooManyConnections(max));
        }
        Ok(permit)
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Relaxed);
        assert!(before > 0, "a permit is returned once");
    }
}

impl Acceptor {
    pub(crate) fn new(context: Arc<StreamContext>, registry: Arc<PeerRegistry>) -> Acceptor {
        Acceptor { context, registry, connections: Arc::default() }
    }

    /// Takes a connection whose first bytes, not read yet, are the preface.
    pub(crate) fn accept(&self, connection: AcceptedConnection) -> Result<(), Error> {
        let permit =
            ThreadPermit::take(&self.connections, self.context.config.limits.max_inbound_connections)?;
        let (context, registry) = (self.context.clone(), self.registry.clone());
        let run = move || {
            run_connection(&context, &registry, connection);
            drop(permit);
        };
        let thread = std::thread::Builder::new().name("peer-in".into());
        thread.spawn(run).map_err(Error::io("start a thread")).map(drop)
    }
}

/// The connection's thread, from the handshake to the end.
fn run_connection(context: &StreamContext, registry: &PeerRegistry, connection: AcceptedConnection) {
    let (tcp, session) = match connection {
        AcceptedConnection::Plain(tcp) => (tcp, None),
        AcceptedConnection::Tls(tcp, session) => (tcp, Some(TlsSession::new((*session).into()))),
    };
    let address = tcp.peer_addr().map_or_else(|error| error.to_string(), |address| address.to_string());
    let timeouts = &context.config.timeouts;
    let mut socket = match PeerSocket::new(tcp, timeouts.stall) {
        Ok(socket) => socket,
        Err(error) => return warn!(address, %error, "cannot set up a peer connection"),
    };
    if let Some(session) = session {
        socket = socket.with_tls(session);
    }
    match read_hello(context, &mut socket) {
        Ok((hello, Ok(version))) => serve(context, registry, &mut socket, &hello, version, &address),
        Ok((hello, Err(refusal))) => {
            context.note_refusal(hello.from.member_id, Side::Local, &refusal);
            if let Err(error) = write_answer(context, &mut socket, Err(refusal)) {
                warn!(address, %error, "a refusal did not reach the peer");
            }
        }
        Err(error) => warn!(address, %error, "a peer connection failed in its handshake"),
    }
    socket.shutdown();
}

/// Reads the hello, and decides on it: the version to speak, or the refusal.
fn read_hello(
    context: &StreamContext,
    socket: &mut PeerSocket,
) -> Result<(Hello, Result<u16, Refusal>), Error> {
    let timeouts = &context.config.timeouts;
    let deadline = Instant::now() + timeouts.handshake;
    let mut bytes = [0; HELLO_BYTES];
    socket.read_exact_by(&mut bytes, deadline, timeouts.handshake)?;
    let hello = Hello::decode(&bytes)?;
    let verdict = choose_version_or_refuse(context, &hello);
    Ok((hello, verdict))
}

fn write_answer(
    context: &StreamContext,
    socket: &mut PeerSocket,
    verdict: Result<u16, Refusal>,
) -> Result<(), Error> {
    socket
        .tcp()
        .set_write_timeout(Some(context.config.timeouts.stall))
        .map_err(Error::io("set a timeout"))?;
    let answer = HandshakeAnswer { from: context.config.local, verdict };
    socket.write_all(&answer.encode()).map_err(Error::io("write the answer"))
}

/// The protocol version to speak, or the refusal. Versions come first: in another version, the fields after them may
/// have another meaning.
fn choose_version_or_refuse(context: &StreamContext, hello: &Hello) -> Result<u16, Refusal> {
    let version = hello.choose_version(context.min_version(), MAX_VERSION)?;
    context.admit(&hello.from, None)?;
    context.check_addressee(hello.to)?;
    Ok(version)
}

/// Serves an admitted connection until it ends.
fn serve(
    context: &StreamContext,
    registry: &PeerRegistry,
    socket: &mut PeerSocket,
    hello: &Hello,
    version: u16,
    address: &str,
) {
    let id = hello.from.member_id;
    let name = format!("{id:x}");
    let peer = match registry.get_or_insert(id) {
        Ok(peer) => peer,
        Err(error) => return warn!(peer = name, %error, "cannot take a peer connection"),
    };
    debug!(peer = name, address, stream = ?hello.stream, "the peer connected");
    match receive(context, &peer, socket, hello.stream, version) {
        Ok(()) => {}
        Err(error @ (Error::Closed | Error::Replaced | Error::Stopped)) => {
            info!(peer = name, address, stream = ?hello.stream, %error, "a connection of the peer ended");
        }
        Err(error) => {
            PeerCounters::add(&peer.info.counters.receive_failures, 1);
            warn!(peer = name, address, stream = ?hello.stream, %error, "a connection of the peer failed");
        }
    }
    registry.release(peer);
}

/// Delivers what arrives on one connection until it ends.
fn receive(
    context: &StreamContext,
    peer: &PeerStreams,
    socket: &mut PeerSocket,
    kind: StreamKind,
    version: u16,
) -> Result<(), Error> {
    let id = peer.info.id;
    // Before the answer: the peer dials again only after it had one or gave up, so a newer connection claims later,
    // and a peer that is removed once it has the answer finds the connection claimed.
    let claim = peer.inbound(kind).claim(socket.tcp())?;
    write_answer(context, socket, Ok(version))?;
    let class = match kind {
        StreamKind::Snapshot => return claim.deliver(|| snapshot::receive(context, id, socket))?,
        StreamKind::Messages(class) => class,
    };
    if class == StreamClass::Control {
        peer.redial_now();
    }
    let max_frame_bytes = context.config.limits.max_frame_bytes;
    let mut reader = FrameReader::new(max_frame_bytes);
    loop {
        let frame = reader.read_frame(socket)?;
        let frame_bytes = (FRAME_HEADER_BYTES + frame.body.len()) as u64;
        PeerCounters::add(&peer.info.counters.received_bytes, frame_bytes);
        match (frame.kind, class) {
            (FrameKind::Message, _) => {
                let more = reader.has_more();
                claim.deliver(|| context.sink.frame(id, class, frame.body, more))?;
            }
            (FrameKind::Ping, StreamClass::Control) => {
                Error::expect_number(&frame)?;
                socket.write_frame(FrameKind::Pong, &[frame.body], max_frame_bytes)?;
            }
            _ => return Err(Error::unexpected(&frame)),
        }
    }
}
