//! A connection between two members: the one place where TLS will be wrapped around TCP.
//!
//! A variant for TLS would hold the socket and a `rustls` connection, read and write through it, and answer
//! [`Stream::tcp`] with the socket for options, waiting and shutdown. Nothing else in this crate reads or writes
//! a socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};

use crate::{Error, Header, Kind};

pub(crate) enum Stream {
    Plain(TcpStream),
}

/// Idle connections are probed, so that a host that vanished is noticed by those who only read.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_RETRIES: u32 = 5;

impl Stream {
    /// Takes over a connected socket, in blocking mode. Data that the peer does not acknowledge for `dead_after`
    /// ends it.
    pub(crate) fn new(tcp: TcpStream, dead_after: Duration) -> io::Result<Stream> {
        tcp.set_nonblocking(false)?;
        tcp.set_nodelay(true)?;
        let socket = SockRef::from(&tcp);
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_RETRIES);
        socket.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(dead_after))?;
        Ok(Stream::Plain(tcp))
    }

    /// The socket below, for options, waiting and shutdown.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(tcp) => tcp,
        }
    }

    /// Ends both directions; whoever blocks in a read or write of it returns.
    pub(crate) fn shutdown(&self) {
        // Fails when the connection is gone already, which is what was asked for.
        let _ = self.tcp().shutdown(Shutdown::Both);
    }

    /// Fills `bytes` before `deadline`, which is `allowed` after the handshake began.
    pub(crate) fn read_exact_by(
        &mut self,
        bytes: &mut [u8],
        deadline: Instant,
        allowed: Duration,
    ) -> Result<(), Error> {
        let mut filled = 0;
        while filled < bytes.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::HandshakeTimeout(allowed));
            }
            self.tcp().set_read_timeout(Some(left)).map_err(Error::io("set a timeout"))?;
            match self.read(&mut bytes[filled..]) {
                Ok(0) => return Err(Error::Closed),
                Ok(count) => filled += count,
                Err(error) if is_pause(&error) || error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => return Err(Error::io("read a handshake")(error)),
            }
        }
        self.tcp().set_read_timeout(None).map_err(Error::io("set a timeout"))
    }

    /// Writes a whole frame to a blocking stream; the body is not copied.
    pub(crate) fn write_frame(&mut self, kind: Kind, pieces: &[Bytes], max: u32) -> Result<(), Error> {
        let header = Header::of(kind, pieces, max)?.encode();
        let bodies = pieces.iter().map(|piece| IoSlice::new(piece));
        let mut slices: Vec<_> = std::iter::once(IoSlice::new(&header)).chain(bodies).collect();
        let mut rest = slices.as_mut_slice();
        while !rest.is_empty() {
            match self.write_vectored(rest) {
                Ok(0) => return Err(Error::Closed),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("write")(error)),
            }
        }
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.write(bytes),
        }
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.write_vectored(pieces),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(tcp) => tcp.flush(),
        }
    }
}

/// Whether an operation only has to be tried again.
pub(crate) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
