//! TLS around the socket of a connection, by blocking or non-blocking calls of one thread.
//!
//! A [`TlsSession`] turns what is written into records that wait in its buffer, and gives those to the socket; it never
//! owns the socket. Example of a non-blocking socket that is full:
//!
//! ```text
//! call                     buffer            socket
//! encrypt [header, body]   1 record, 4 KiB
//! flush                    1 KiB             took 3 KiB: Ok(3072), and `wants_flush`
//! flush                    empty             took 1 KiB
//! ```
//!
//! Both sides have finished their handshake before a session is used: the dialler's is [`shake_hands`], the acceptor's
//! is the owner's of the listener, who gives the session to [`crate::Peers::accept`].

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};

use crate::connection::waker::is_pause;
use crate::error::Error;

/// An encrypted connection after its handshake.
pub(crate) struct TlsSession(Connection);

impl TlsSession {
    pub(crate) fn new(mut connection: Connection) -> TlsSession {
        // Each caller gives a bounded amount and flushes it before it gives more.
        connection.set_buffer_limit(None);
        TlsSession(connection)
    }

    /// Reads what is decrypted; reads from the socket only when there is nothing. Zero is the end of the stream: every
    /// frame has a length and a checksum, so an end without TLS's farewell is an end like any other.
    pub(crate) fn read(&mut self, mut tcp: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            self.0.read_tls(&mut tcp)?;
            if let Err(error) = self.0.process_new_packets() {
                // The peer learns why, if the socket takes it at once.
                let _ = self.0.write_tls(&mut tcp);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }

    /// Encrypts all of these bytes, to be flushed.
    pub(crate) fn encrypt(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let taken = self.0.writer().write_vectored(parts)?;
        if taken < length {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }

    /// Whether encrypted bytes wait for the socket.
    pub(crate) fn wants_flush(&self) -> bool {
        self.0.wants_write()
    }

    /// Gives the socket what waits, as far as it takes it; how many bytes that were.
    pub(crate) fn flush(&mut self, mut tcp: &TcpStream) -> io::Result<usize> {
        let mut taken = 0;
        while self.0.wants_write() {
            match self.0.write_tls(&mut tcp) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => taken += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_pause(&error) && taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }
}

/// The dialler's side of the TLS handshake, over a blocking socket. It must be complete before `deadline`, which is
/// `allowed` after its begin.
///
/// # Errors
/// A certificate that is not one for `name`, a refusal of ours that the acceptor has told already, the deadline.
pub(crate) fn shake_hands(
    mut tcp: &TcpStream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    deadline: Instant,
    allowed: Duration,
) -> Result<TlsSession, Error> {
    let mut connection = ClientConnection::new(config, name).map_err(Error::Tls)?;
    while connection.is_handshaking() || connection.wants_write() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::HandshakeTimeout(allowed));
        }
        tcp.set_write_timeout(Some(left)).map_err(Error::io("set a timeout"))?;
        tcp.set_read_timeout(Some(left)).map_err(Error::io("set a timeout"))?;
        let is_writing = connection.wants_write();
        let moved = match is_writing {
            true => connection.write_tls(&mut tcp),
            false => connection.read_tls(&mut tcp),
        };
        match moved {
            Ok(0) => return Err(Error::Closed),
            Ok(_) if is_writing => {}
            Ok(_) => {
                if let Err(error) = connection.process_new_packets() {
                    // The acceptor learns why, if the socket takes it.
                    let _ = connection.write_tls(&mut tcp);
                    return Err(Error::Tls(error));
                }
            }
            Err(error) if is_pause(&error) || error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(Error::io("read or write a TLS handshake")(error)),
        }
    }
    tcp.set_write_timeout(None).map_err(Error::io("set a timeout"))?;
    tcp.set_read_timeout(None).map_err(Error::io("set a timeout"))?;
    Ok(TlsSession::new(connection.into()))
}
