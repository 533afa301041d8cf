//! An outgoing stream of messages: dialled, used, and dialled again by a thread of its own.
//!
//! Callers write through [`Outbound::send`], or queue there what is to be encrypted; the thread dials, drains the
//! queue, pings (control) and detects the end of the connection. Only the thread sets and clears the link, so it alone
//! reports `up` and `down`, alternately.
//!
//! ```text
//! run:  dial --failed, refused--> wait for the backoff, or until redial_now --> dial
//!        `- connected --> install the link, report up --> serve until an error --> clear it, report down --> wait
//! ```

mod backoff;
mod encrypted;
mod keepalive;
mod link;
mod logged_kinds;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tracing::{debug, info, warn};

use crate::config::PeerLimits;
use crate::connection::{FrameReader, PeerSocket, PollWaker, dial, is_pause};
use crate::context::StreamContext;
use crate::counters::PeerCounters;
use crate::error::Error;
use crate::outbound::backoff::Backoff;
use crate::outbound::encrypted::EncryptedStream;
use crate::outbound::keepalive::{Keepalive, KeepaliveAction, StallDetector};
use crate::outbound::link::{Link, LinkSocket};
use crate::outbound::logged_kinds::LoggedKinds;
use crate::peer_info::PeerInfo;
use crate::protocol::{FrameHeader, FrameKind, StreamClass, StreamKind, number_body};

pub use link::{DropReason, SendOutcome};

/// The acceptor of a message stream sends back pongs only.
const MAX_PONG_BYTES: u32 = 8;

/// The control or bulk stream to one peer.
pub(crate) struct Outbound {
    class: StreamClass,
    queue_bytes: usize,
    max_frame_bytes: u32,
    state: Mutex<OutboundState>,
    waker: PollWaker,
}

#[derive(Default)]
struct OutboundState {
    link: Option<Link>,
    /// Dial now instead of after the backoff.
    redial_now: bool,
    stopped: bool,
}

/// What the thread of an established connection has: the socket, for polling, and the connection itself if only the
/// thread writes it.
struct ThreadEnd {
    tcp: TcpStream,
    encrypted: Option<EncryptedStream>,
}

impl Outbound {
    pub(crate) fn new(class: StreamClass, limits: &PeerLimits) -> std::io::Result<Outbound> {
        Ok(Outbound {
            class,
            queue_bytes: limits.queue_bytes(class),
            max_frame_bytes: limits.max_frame_bytes,
            state: Mutex::default(),
            waker: PollWaker::new()?,
        })
    }

    /// Sends a frame from the calling thread, or queues it. Never blocks on the network.
    pub(crate) fn send(&self, kind: FrameKind, parts: &[Bytes]) -> SendOutcome {
        let Ok(header) = FrameHeader::of(kind, parts, self.max_frame_bytes) else {
            return SendOutcome::Dropped(DropReason::TooLarge);
        };
        let mut state = self.state.lock();
        let Some(link) = &mut state.link else { return SendOutcome::Dropped(DropReason::Disconnected) };
        let waited = link.queued_bytes() > 0;
        let sent = link.send(&header, parts, self.queue_bytes);
        if link.is_broken() || (!waited && link.queued_bytes() > 0) {
            self.waker.wake();
        }
        sent
    }

    /// Bytes that wait for the socket.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.state.lock().link.as_ref().map_or(0, Link::queued_bytes)
    }

    /// Ends the delay between two dials: the peer has dialled us, or its URLs changed.
    pub(crate) fn redial_now(&self) {
        self.state.lock().redial_now = true;
        self.waker.wake();
    }

    /// Ends the stream for good.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        if let Some(link) = &state.link {
            link.shutdown();
        }
        self.waker.wake();
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// The stream's thread, until [`Outbound::stop`].
    pub(crate) fn run(&self, context: &StreamContext, peer: &PeerInfo) {
        let mut backoff = Backoff::new(&context.config.timeouts);
        let mut logged = LoggedKinds::default();
        while !self.is_stopped() {
            let delay = match dial(context, peer, StreamKind::Messages(self.class)) {
                Ok((socket, version)) => {
                    logged.clear();
                    let began = Instant::now();
                    self.run_connection(context, peer, socket, version);
                    backoff.after_loss(began.elapsed())
                }
                Err(Error::RefusedByPeer(_) | Error::RefusedPeer(_)) => backoff.after_refusal(),
                Err(error) => {
                    self.log_dial_failure(peer, &error, logged.is_first(&error));
                    if error.is_not_listening() {
                        context.sink.not_listening(peer.id, self.class);
                    }
                    backoff.after_failure()
                }
            };
            self.wait_to_redial(delay, context.config.timeouts.min_redial);
        }
    }

    /// Logs the first failure of each kind in an outage as a warning, the others for debugging only.
    fn log_dial_failure(&self, peer: &PeerInfo, error: &Error, is_first: bool) {
        let id = peer.id_hex();
        if is_first {
            warn!(peer = id, class = %self.class, %error, "cannot connect to the peer, retrying");
        } else {
            debug!(peer = id, class = %self.class, %error, "still cannot connect to the peer");
        }
    }

    /// Waits for `delay`, or only `min_delay` after [`Outbound::redial_now`], or not at all when stopped. The minimum
    /// keeps two members whose connections break at the same time from making each other redial in a loop.
    fn wait_to_redial(&self, delay: Duration, min_delay: Duration) {
        let began = Instant::now();
        loop {
            let mut state = self.state.lock();
            let deadline = began + if state.redial_now { delay.min(min_delay) } else { delay };
            if state.stopped || Instant::now() >= deadline {
                state.redial_now = false;
                return;
            }
            drop(state);
            if self.waker.wait(None, Some(deadline)).is_err() {
                return;
            }
        }
    }

    /// Uses a connection, in this version of the protocol, until it ends.
    fn run_connection(&self, context: &StreamContext, peer: &PeerInfo, socket: PeerSocket, version: u16) {
        let mut end = match self.install(peer, socket) {
            Ok(end) => end,
            Err(error) => return warn!(peer = peer.id_hex(), class = %self.class, %error, "lost the peer"),
        };
        peer.current.set_since(self.class, Some(Instant::now()));
        info!(peer = peer.id_hex(), class = %self.class, "connected to the peer");
        let connection = context.next_connection();
        context.sink.up(peer.id, self.class, connection, version);
        let Err(error) = self.serve(context, peer, &mut end);
        let link = self.state.lock().link.take();
        peer.current.set_since(self.class, None);
        if self.class == StreamClass::Control {
            PeerCounters::add(&peer.counters.disconnects, 1);
        }
        if let Some(link) = link {
            link.shutdown();
        }
        warn!(peer = peer.id_hex(), class = %self.class, %error, "lost the peer");
        context.sink.down(peer.id, self.class, connection, &error);
    }

    /// Makes the connection the one that callers write to; returns what its thread needs.
    fn install(&self, peer: &PeerInfo, socket: PeerSocket) -> Result<ThreadEnd, Error> {
        let tcp = socket.tcp().try_clone().map_err(Error::io("duplicate the socket"))?;
        tcp.set_nonblocking(true).map_err(Error::io("set non-blocking"))?;
        let (socket, encrypted) = match socket.is_encrypted() {
            false => (LinkSocket::Shared(socket), None),
            true => {
                let shutdown = tcp.try_clone().map_err(Error::io("duplicate the socket"))?;
                (LinkSocket::Encrypted(shutdown), Some(EncryptedStream::new(socket)))
            }
        };
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::Stopped);
        }
        state.link = Some(Link::new(socket, peer.counters.clone()));
        Ok(ThreadEnd { tcp, encrypted })
    }

    /// Drains the queue, pings, and reads pongs, until the connection ends.
    fn serve(
        &self,
        context: &StreamContext,
        peer: &PeerInfo,
        end: &mut ThreadEnd,
    ) -> Result<std::convert::Infallible, Error> {
        let timeouts = &context.config.timeouts;
        let mut detector = StallDetector::new(timeouts, Instant::now());
        let mut keepalive =
            (self.class == StreamClass::Control).then(|| Keepalive::new(timeouts, Instant::now()));
        let mut reader = FrameReader::new(MAX_PONG_BYTES);
        loop {
            let ping_due = keepalive.as_mut().map_or(Ok(None), |keepalive| self.ping_if_due(keepalive))?;
            if let Some(encrypted) = &mut end.encrypted {
                self.encrypt_and_flush(encrypted).map_err(Error::io("write"))?;
            }
            let (waiting, written) = self.link_state()?;
            let stall = detector.check(waiting, written, Instant::now())?;
            let deadline = ping_due.into_iter().chain(stall).min();
            let ready = self.waker.wait(Some((&end.tcp, waiting)), deadline).map_err(Error::io("wait"))?;
            if ready.writable {
                self.flush();
            }
            if ready.readable {
                while self.read_pongs(context, peer, end, &mut reader, keepalive.as_mut())? {}
            }
        }
    }

    /// Whether bytes wait, and how many ever left; the error when the link is broken or the stream stopped.
    fn link_state(&self) -> Result<(bool, u64), Error> {
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::Stopped);
        }
        let broken = state.link.take_if(|link| link.is_broken());
        if let Some(link) = broken {
            link.shutdown();
            return Err(link.into_error().map_or(Error::Closed, Error::io("write")));
        }
        let link = state.link.as_ref().ok_or(Error::Stopped)?;
        Ok((link.queued_bytes() > 0, link.written_bytes()))
    }

    fn flush(&self) {
        if let Some(link) = &mut self.state.lock().link {
            link.flush();
        }
    }

    /// Encrypts and writes what waits, until nothing does or the socket is full. The link is not locked meanwhile.
    fn encrypt_and_flush(&self, encrypted: &mut EncryptedStream) -> std::io::Result<()> {
        loop {
            let flushed = encrypted.flush()?;
            let batch = {
                let mut state = self.state.lock();
                let Some(link) = &mut state.link else { return Ok(()) };
                link.took(flushed.written, flushed.batch.unwrap_or(0));
                if flushed.batch.is_some() { link.take() } else { Vec::new() }
            };
            if batch.is_empty() {
                return Ok(());
            }
            encrypted.encrypt(&batch)?;
        }
    }

    /// Sends a ping when one is due; returns when to call it again.
    fn ping_if_due(&self, keepalive: &mut Keepalive) -> Result<Option<Instant>, Error> {
        match keepalive.next_action(Instant::now())? {
            KeepaliveAction::Wait(until) => Ok(Some(until)),
            KeepaliveAction::Ping(number) => {
                // A ping that a full queue drops stays unanswered, which ends the connection as it should.
                let _ = self.send(FrameKind::Ping, &[number_body(number)]);
                Ok(Some(Instant::now()))
            }
        }
    }

    /// Reads what the acceptor sent back: pongs, or the end. Whether there may be more.
    fn read_pongs(
        &self,
        context: &StreamContext,
        peer: &PeerInfo,
        end: &mut ThreadEnd,
        reader: &mut FrameReader,
        mut keepalive: Option<&mut Keepalive>,
    ) -> Result<bool, Error> {
        let read = match &mut end.encrypted {
            Some(encrypted) => reader.fill(|room| encrypted.read(room)),
            None => {
                let mut state = self.state.lock();
                let link = state.link.as_mut().ok_or(Error::Stopped)?;
                reader.fill(|room| link.read(room))
            }
        };
        match read {
            Ok(0) => return Err(Error::Closed),
            Ok(_) => {}
            Err(error) if is_pause(&error) => return Ok(false),
            Err(error) => return Err(Error::io("read")(error)),
        }
        while let Some(frame) = reader.next_frame()? {
            let now = Instant::now();
            let answered = match (&mut keepalive, frame.kind) {
                (Some(keepalive), FrameKind::Pong) => keepalive.pong(Error::expect_number(&frame)?, now),
                _ => None,
            };
            let time = answered.ok_or_else(|| Error::unexpected(&frame))?;
            peer.current.set_round_trip(time);
            context.sink.round_trip(peer.id, time);
        }
        Ok(true)
    }

    /// Sends a message of the owner; counts it if it is dropped.
    pub(crate) fn send_message(&self, peer: &PeerInfo, parts: &[Bytes]) -> SendOutcome {
        let sent = self.send(FrameKind::Message, parts);
        if sent != SendOutcome::Queued {
            PeerCounters::add(&peer.counters.send_failures, 1);
        }
        sent
    }
}
