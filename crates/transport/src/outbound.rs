//! An outgoing stream of messages: dialled, kept, and dialled again by a thread of its own.
//!
//! Callers write through [`Outbound::send`]; the thread dials, drains the queue, pings (control) and notices
//! the end. Only the thread sets and clears the link, so it alone reports `up` and `down`, in turn.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tracing::{debug, info, warn};

use crate::backoff::Backoff;
use crate::counters::Counters;
use crate::frame::number_body;
use crate::link::Link;
use crate::peer::Peer;
use crate::peers::Shared;
use crate::pulse::{Beat, Progress, Pulse};
use crate::reader::FrameReader;
use crate::stream::{Stream, is_pause};
use crate::wake::Wake;
use crate::{DropReason, Error, Header, Kind, Sent, StreamClass, StreamKind, dial};

/// The way back of a message stream carries pongs only.
const MAX_ANSWER_BYTES: u32 = 8;

pub(crate) struct Outbound {
    class: StreamClass,
    queue_bytes: usize,
    max_frame_bytes: u32,
    state: Mutex<State>,
    wake: Wake,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    /// Dial now rather than after the rest.
    hurried: bool,
    stopped: bool,
}

impl Outbound {
    pub(crate) fn new(class: StreamClass, shared: &Shared) -> std::io::Result<Outbound> {
        Ok(Outbound {
            class,
            queue_bytes: shared.config.limits.queue_bytes(class),
            max_frame_bytes: shared.config.limits.max_frame_bytes,
            state: Mutex::default(),
            wake: Wake::new()?,
        })
    }

    /// Sends a frame from the calling thread, or queues it. Never blocks on the network.
    pub(crate) fn send(&self, kind: Kind, pieces: &[Bytes]) -> Sent {
        let Ok(header) = Header::of(kind, pieces, self.max_frame_bytes) else {
            return Sent::Dropped(DropReason::TooLarge);
        };
        let mut state = self.state.lock();
        let Some(link) = &mut state.link else { return Sent::Dropped(DropReason::Disconnected) };
        let waited = link.queued_bytes() > 0;
        let sent = link.send(&header.encode(), pieces, self.queue_bytes);
        if link.is_broken() || (!waited && link.queued_bytes() > 0) {
            self.wake.wake();
        }
        sent
    }

    /// Bytes that wait for the socket.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.state.lock().link.as_ref().map_or(0, Link::queued_bytes)
    }

    /// Cuts short a rest between two dials: there is news of the peer.
    pub(crate) fn hurry(&self) {
        self.state.lock().hurried = true;
        self.wake.wake();
    }

    /// Ends the stream for good.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        if let Some(link) = &state.link {
            link.shutdown();
        }
        self.wake.wake();
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// The life of the stream's thread.
    pub(crate) fn run(&self, shared: &Shared, peer: &Peer) {
        let mut backoff = Backoff::new(&shared.config.timeouts);
        let mut complained = false;
        while !self.is_stopped() {
            let rest = match dial::open(shared, peer, StreamKind::Messages(self.class)) {
                Ok(stream) => {
                    complained = false;
                    let began = Instant::now();
                    self.carry(shared, peer, stream);
                    backoff.after_loss(began.elapsed())
                }
                Err(Error::RefusedByPeer(_) | Error::RefusedPeer(_)) => backoff.after_refusal(),
                Err(error) => {
                    self.complain(peer, &error, &mut complained);
                    backoff.after_failure()
                }
            };
            self.rest(rest, shared.config.timeouts.min_redial);
        }
    }

    /// Logs the first failure of an outage where operators look, the others only for those who dig.
    fn complain(&self, peer: &Peer, error: &Error, complained: &mut bool) {
        let id = peer.id_hex();
        if *complained {
            debug!(peer = id, class = %self.class, %error, "still cannot connect to the peer");
        } else {
            warn!(peer = id, class = %self.class, %error, "cannot connect to the peer, dialling on");
        }
        *complained = true;
    }

    /// Waits for `rest`, or only `least` when hurried, or not at all when stopped. The least keeps two members
    /// whose connections break at once from hurrying each other without end.
    fn rest(&self, rest: Duration, least: Duration) {
        let began = Instant::now();
        loop {
            let mut state = self.state.lock();
            let deadline = began + if state.hurried { rest.min(least) } else { rest };
            if state.stopped || Instant::now() >= deadline {
                state.hurried = false;
                return;
            }
            drop(state);
            if self.wake.wait(None, Some(deadline)).is_err() {
                return;
            }
        }
    }

    /// Uses an established stream until it ends.
    fn carry(&self, shared: &Shared, peer: &Peer, stream: Stream) {
        let socket = match self.install(peer, stream) {
            Ok(socket) => socket,
            Err(error) => return warn!(peer = peer.id_hex(), class = %self.class, %error, "lost the peer"),
        };
        peer.counters.set_since(self.class, Some(Instant::now()));
        info!(peer = peer.id_hex(), class = %self.class, "connected to the peer");
        shared.sink.up(peer.id, self.class);
        let Err(error) = self.serve(shared, peer, &socket);
        let link = self.state.lock().link.take();
        peer.counters.set_since(self.class, None);
        if let Some(link) = link {
            link.shutdown();
        }
        warn!(peer = peer.id_hex(), class = %self.class, %error, "lost the peer");
        shared.sink.down(peer.id, self.class, &error);
    }

    /// Makes the stream the one that callers write to; returns its socket, to wait for.
    fn install(&self, peer: &Peer, stream: Stream) -> Result<TcpStream, Error> {
        let socket = stream.tcp().try_clone().map_err(Error::io("duplicate the socket"))?;
        socket.set_nonblocking(true).map_err(Error::io("set non-blocking"))?;
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::Stopped);
        }
        state.link = Some(Link::new(stream, peer.counters.clone()));
        Ok(socket)
    }

    /// Drains, pings and listens until the link ends.
    fn serve(
        &self,
        shared: &Shared,
        peer: &Peer,
        socket: &TcpStream,
    ) -> Result<std::convert::Infallible, Error> {
        let timeouts = &shared.config.timeouts;
        let mut progress = Progress::new(timeouts, Instant::now());
        let mut pulse = (self.class == StreamClass::Control).then(|| Pulse::new(timeouts, Instant::now()));
        let mut reader = FrameReader::new(MAX_ANSWER_BYTES);
        loop {
            let beat = pulse.as_mut().map_or(Ok(None), |pulse| self.beat(pulse))?;
            let (waiting, written) = self.look()?;
            let stall = progress.check(waiting, written, Instant::now())?;
            let deadline = beat.into_iter().chain(stall).min();
            let ready = self.wake.wait(Some((socket, waiting)), deadline).map_err(Error::io("wait"))?;
            if ready.writable {
                self.flush();
            }
            if ready.readable {
                self.listen(shared, peer, &mut reader, pulse.as_mut())?;
            }
        }
    }

    /// Whether bytes wait and how many ever left; the error when the link is over.
    fn look(&self) -> Result<(bool, u64), Error> {
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

    /// Pings when it is time; returns when to look again.
    fn beat(&self, pulse: &mut Pulse) -> Result<Option<Instant>, Error> {
        match pulse.beat(Instant::now())? {
            Beat::Wait(until) => Ok(Some(until)),
            Beat::Ping(number) => {
                // A ping that a full queue drops goes unanswered: that is what it is there to show.
                let _ = self.send(Kind::Ping, &[number_body(number)]);
                Ok(Some(Instant::now()))
            }
        }
    }

    /// Reads what came back: pongs, or the end.
    fn listen(
        &self,
        shared: &Shared,
        peer: &Peer,
        reader: &mut FrameReader,
        pulse: Option<&mut Pulse>,
    ) -> Result<(), Error> {
        let read = {
            let mut state = self.state.lock();
            let link = state.link.as_mut().ok_or(Error::Stopped)?;
            reader.fill(|room| link.read(room))
        };
        match read {
            Ok(0) => return Err(Error::Closed),
            Ok(_) => {}
            Err(error) if is_pause(&error) => return Ok(()),
            Err(error) => return Err(Error::io("read")(error)),
        }
        let mut pulse = pulse;
        while let Some(frame) = reader.next_frame()? {
            let now = Instant::now();
            let answered = match (&mut pulse, frame.kind) {
                (Some(pulse), Kind::Pong) => pulse.pong(frame.number()?, now),
                _ => None,
            };
            let time = answered.ok_or_else(|| frame.unexpected())?;
            peer.counters.set_round_trip(time);
            shared.sink.round_trip(peer.id, time);
        }
        Ok(())
    }

    /// Sends a frame of the owner, and counts it when it is dropped.
    pub(crate) fn send_message(&self, peer: &Peer, pieces: &[Bytes]) -> Sent {
        let sent = self.send(Kind::Message, pieces);
        if sent != Sent::Queued {
            Counters::add(&peer.counters.send_failures, 1);
        }
        sent
    }
}
