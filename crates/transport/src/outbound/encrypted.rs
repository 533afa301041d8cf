//! The sending end of a connection with TLS, which belongs to the stream's thread alone.
//!
//! ```text
//! callers            link (locked)            the stream's thread (this file)             socket
//! send --enqueue-->  queue --Link::take-->  encrypt, outside of the lock --flush-->  non-blocking
//! ```
//!
//! One batch is encrypted at a time, and its bytes count as queued until the socket has all of them: so a queue is as
//! long as without TLS, and a peer that takes nothing is noticed by the same clock.

use std::io::{self, IoSlice, Read};
use std::net::TcpStream;

use bytes::Bytes;

use crate::connection::{PeerSocket, TlsSession, is_pause};

/// An established connection with TLS, in non-blocking mode.
pub(crate) struct EncryptedStream {
    socket: PeerSocket,
    /// Bytes of the batch that was encrypted last, before encryption.
    batch_bytes: usize,
}

/// What a flush came to.
pub(crate) struct Flushed {
    /// Encrypted bytes that the socket took.
    pub(crate) written: usize,
    /// Bytes, before encryption, of the batch that the socket has now; `None` while a part of it waits.
    pub(crate) batch: Option<usize>,
}

impl EncryptedStream {
    /// Takes over a socket with TLS around it.
    pub(crate) fn new(socket: PeerSocket) -> EncryptedStream {
        EncryptedStream { socket, batch_bytes: 0 }
    }

    /// Reads what the peer sent back, without waiting.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.socket.read(room)
    }

    /// Gives the socket what it takes.
    pub(crate) fn flush(&mut self) -> io::Result<Flushed> {
        let (tcp, session) = self.parts()?;
        let written = match session.flush(tcp) {
            Err(error) if is_pause(&error) => 0,
            other => other?,
        };
        let is_done = !session.wants_flush();
        Ok(Flushed { written, batch: is_done.then(|| std::mem::take(&mut self.batch_bytes)) })
    }

    /// Encrypts the next batch, after the one before has been flushed.
    pub(crate) fn encrypt(&mut self, batch: &[Bytes]) -> io::Result<()> {
        assert_eq!(self.batch_bytes, 0, "one batch is flushed before the next is encrypted");
        let slices: Vec<_> = batch.iter().map(|part| IoSlice::new(part)).collect();
        let (_, session) = self.parts()?;
        session.encrypt(&slices)?;
        self.batch_bytes = batch.iter().map(Bytes::len).sum();
        Ok(())
    }

    fn parts(&mut self) -> io::Result<(&TcpStream, &mut TlsSession)> {
        self.socket.encrypted_parts().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}
