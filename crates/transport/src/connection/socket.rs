//! The socket of a connection between two members, with TLS around it or without.
//!
//! Nothing else in this crate reads or writes a socket, but for the dialler's TLS handshake (`tls.rs`).

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use socket2::{Domain, SockRef, TcpKeepalive};

use crate::connection::tls::TlsSession;
use crate::connection::waker::is_pause;
use crate::error::Error;
use crate::protocol::{FrameHeader, FrameKind};

/// A connected socket.
pub(crate) struct PeerSocket {
    tcp: TcpStream,
    /// None on a connection in the clear.
    tls: Option<Box<TlsSession>>,
}

/// TCP probes idle connections, so that a thread that only reads notices when the other host is gone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_RETRIES: u32 = 5;

impl PeerSocket {
    /// Takes over a connected socket, in blocking mode. Data that the peer does not acknowledge for `dead_after`
    /// ends it.
    pub(crate) fn new(tcp: TcpStream, dead_after: Duration) -> io::Result<PeerSocket> {
        tcp.set_nonblocking(false)?;
        let socket = SockRef::from(&tcp);
        if socket.domain()? == Domain::UNIX {
            // It ends with the process at its other end, and has no options of TCP.
            return Ok(PeerSocket { tcp, tls: None });
        }
        tcp.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_RETRIES);
        socket.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(dead_after))?;
        Ok(PeerSocket { tcp, tls: None })
    }

    /// The same socket with TLS around it, whose handshake has ended.
    pub(crate) fn with_tls(self, session: TlsSession) -> PeerSocket {
        PeerSocket { tls: Some(Box::new(session)), ..self }
    }

    /// Whether TLS is around it.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The TCP socket and what encrypts it, for a thread that writes what others have queued.
    pub(crate) fn encrypted_parts(&mut self) -> Option<(&TcpStream, &mut TlsSession)> {
        self.tls.as_mut().map(|session| (&self.tcp, session.as_mut()))
    }

    /// The TCP socket, for options, polling and shutdown.
    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Ends both directions; a thread that blocks in a read or write returns.
    pub(crate) fn shutdown(&self) {
        // Fails when the connection is gone already, which is the aim.
        let _ = self.tcp().shutdown(Shutdown::Both);
    }

    /// Fills `bytes` before `deadline`, which is `allowed` after the begin of the handshake.
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
    pub(crate) fn write_frame(&mut self, kind: FrameKind, parts: &[Bytes], max: u32) -> Result<(), Error> {
        let header = FrameHeader::of(kind, parts, max)?.encode();
        let bodies = parts.iter().map(|part| IoSlice::new(part));
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

impl Read for PeerSocket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.tcp.read(bytes),
            Some(session) => session.read(&self.tcp, bytes),
        }
    }
}

/// Bytes that are encrypted at once, when the socket blocks: as many are in memory twice.
const MAX_ENCRYPTED_AT_ONCE_BYTES: usize = 64 << 10;

/// With TLS, for blocking sockets only: a write that fails midway breaks the connection.
impl Write for PeerSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(session) = &mut self.tls else { return self.tcp.write_vectored(parts) };
        let mut room = MAX_ENCRYPTED_AT_ONCE_BYTES;
        let mut slices = Vec::with_capacity(parts.len());
        for part in parts {
            let part = &part[..part.len().min(room)];
            room -= part.len();
            slices.push(IoSlice::new(part));
        }
        session.encrypt(&slices)?;
        while session.wants_flush() {
            session.flush(&self.tcp)?;
        }
        Ok(MAX_ENCRYPTED_AT_ONCE_BYTES - room)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}
