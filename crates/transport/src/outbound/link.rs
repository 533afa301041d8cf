//! An established outgoing connection: what is written at once, and what waits.
//!
//! The thread that calls `send` writes to the socket itself while nothing waits. What the socket does not take waits in
//! a queue, and so does every later frame, until the stream's thread has drained it:
//!
//! ```text
//! call              socket takes      queue afterwards           outcome
//! send a (60 KiB)   60 KiB            empty                      Queued: written by the caller
//! send b (90 KiB)   30 KiB            rest of b (60 KiB)         Queued: the stream's thread is woken
//! send c (10 KiB)                     rest of b, c (70 KiB)      Queued
//! send d (64 MiB)                     rest of b, c (70 KiB)      Dropped: above the limit of the queue
//! flush             70 KiB            empty
//! ```
//!
//! Callers never write to a connection with TLS, because encrypting takes longer than they may: every frame waits, and
//! the stream's thread takes the parts out, encrypts and writes them without the link's lock (`encrypted.rs`).
//!
//! Invariants
//! - In the clear both threads write with the link's lock held. Once a part of a frame has been written, its rest is in
//!   the queue before the lock is released, so frames are never mixed or cut.
//! - A link that failed is never written again.
//! - The queue is bounded in bytes and parts; only a frame that meets an empty queue may exceed the limit.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::connection::{PeerSocket, is_pause};
use crate::counters::PeerCounters;
use crate::protocol::{FRAME_HEADER_BYTES, FrameHeader};

/// The outcome of [`crate::Peers::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SendOutcome {
    /// The frame was written or waits for the socket. It may still be lost with the connection.
    Queued,
    /// The frame never arrives.
    Dropped(DropReason),
}

/// Why a frame was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// No peer of this id was set.
    UnknownPeer,
    /// The stream is down.
    Disconnected,
    /// The queue for the socket is full.
    QueueFull,
    /// The frame is longer than [`crate::PeerLimits::max_frame_bytes`].
    TooLarge,
}

/// Slices given to one system call.
const MAX_SLICES: usize = 64;
/// Bytes that the stream's thread writes while it holds the lock; a caller of `send` waits for at most one such write.
const MAX_WRITE_BYTES: usize = 256 << 10;
/// Parts that may wait, whatever their length, so that tiny ones are bounded too.
const MAX_QUEUED_PARTS: usize = 64 << 10;

/// The connection that callers of `send` write to.
pub(crate) struct Link {
    socket: LinkSocket,
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
    written_bytes: u64,
    broken: Option<io::Error>,
    counters: Arc<PeerCounters>,
}

/// Who writes.
pub(crate) enum LinkSocket {
    /// Callers, and the stream's thread: a socket in non-blocking mode.
    Shared(PeerSocket),
    /// The stream's thread alone; this one is only to shut it down.
    Encrypted(TcpStream),
}

impl Link {
    /// A link over an established connection.
    pub(crate) fn new(socket: LinkSocket, counters: Arc<PeerCounters>) -> Link {
        Link { socket, queue: VecDeque::new(), queued_bytes: 0, written_bytes: 0, broken: None, counters }
    }

    /// Writes a frame, or queues what the socket does not take. When nothing waits, a frame of any length is taken.
    pub(crate) fn send(&mut self, header: &FrameHeader, parts: &[Bytes], limit: usize) -> SendOutcome {
        if self.broken.is_some() {
            return SendOutcome::Dropped(DropReason::Disconnected);
        }
        let body_bytes = parts.iter().map(Bytes::len).sum::<usize>();
        assert_eq!(body_bytes, header.length as usize, "a body is as long as its header announces");
        let (header, length) = (header.encode(), FRAME_HEADER_BYTES + body_bytes);
        let is_full = self.queued_bytes + length > limit || self.queue.len() + parts.len() > MAX_QUEUED_PARTS;
        if self.queued_bytes > 0 && is_full {
            return SendOutcome::Dropped(DropReason::QueueFull);
        }
        let LinkSocket::Shared(socket) = &mut self.socket else {
            self.enqueue(&header, parts, 0);
            return SendOutcome::Queued;
        };
        if self.queued_bytes > 0 {
            self.enqueue(&header, parts, 0);
            return SendOutcome::Queued;
        }
        let slices = std::iter::once(&header[..]).chain(parts.iter().map(|part| &part[..]));
        let written = match write_once(socket, slices, usize::MAX) {
            Ok(written) => written,
            Err(error) => {
                self.broken = Some(error);
                return SendOutcome::Dropped(DropReason::Disconnected);
            }
        };
        self.count(written);
        if written < length {
            self.enqueue(&header, parts, written);
            // A short write mostly means a full socket; only a frame of many parts is continued here.
            while 1 + parts.len() > MAX_SLICES && self.flush() > 0 {}
        }
        SendOutcome::Queued
    }

    /// Writes some of what waits; returns how many bytes the socket took. After a failure the link is broken, and
    /// [`Link::into_error`] says why.
    pub(crate) fn flush(&mut self) -> usize {
        let LinkSocket::Shared(socket) = &mut self.socket else { return 0 };
        if self.queue.is_empty() || self.broken.is_some() {
            return 0;
        }
        let slices = self.queue.iter().map(|part| &part[..]);
        match write_once(socket, slices, MAX_WRITE_BYTES) {
            Ok(written) => {
                self.count(written);
                self.dequeue(written);
                written
            }
            Err(error) => {
                self.broken = Some(error);
                0
            }
        }
    }

    /// Takes the oldest parts out of the queue, to be encrypted. They count as queued until [`Link::took`].
    pub(crate) fn take(&mut self) -> Vec<Bytes> {
        let (mut parts, mut room) = (Vec::new(), MAX_WRITE_BYTES);
        while let Some(part) = self.queue.front_mut()
            && room > 0
        {
            let cut = part.len().min(room);
            room -= cut;
            parts.push(part.split_to(cut));
            if part.is_empty() {
                self.queue.pop_front();
            }
        }
        parts
    }

    /// The socket took `encrypted` bytes more, and has all of the `plain` bytes that were taken last.
    pub(crate) fn took(&mut self, encrypted: usize, plain: usize) {
        self.count(encrypted);
        self.queued_bytes -= plain;
    }

    /// Reads what the peer sent back, without waiting.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match &mut self.socket {
            LinkSocket::Shared(socket) => socket.read(room),
            LinkSocket::Encrypted(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Bytes the socket ever took.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The failure of a broken link.
    pub(crate) fn into_error(self) -> Option<io::Error> {
        self.broken
    }

    pub(crate) fn shutdown(&self) {
        match &self.socket {
            LinkSocket::Shared(socket) => socket.shutdown(),
            // Fails when the connection is gone already, which is the aim.
            LinkSocket::Encrypted(tcp) => drop(tcp.shutdown(Shutdown::Both)),
        }
    }

    fn count(&mut self, written: usize) {
        self.written_bytes += written as u64;
        PeerCounters::add(&self.counters.sent_bytes, written as u64);
    }

    /// Queues a frame without its first `skip` bytes.
    fn enqueue(&mut self, header: &[u8; FRAME_HEADER_BYTES], parts: &[Bytes], skip: usize) {
        let mut skip = skip;
        if skip < FRAME_HEADER_BYTES {
            self.push(Bytes::copy_from_slice(&header[skip..]));
        }
        skip = skip.saturating_sub(FRAME_HEADER_BYTES);
        for part in parts {
            if skip < part.len() {
                self.push(part.slice(skip..));
            }
            skip = skip.saturating_sub(part.len());
        }
    }

    fn push(&mut self, part: Bytes) {
        self.queued_bytes += part.len();
        self.queue.push_back(part);
    }

    fn dequeue(&mut self, written: usize) {
        self.queued_bytes -= written;
        let mut left = written;
        while let Some(part) = self.queue.front_mut() {
            if left < part.len() {
                part.advance(left);
                return;
            }
            left -= part.len();
            self.queue.pop_front();
        }
        assert!(left == 0 && self.queued_bytes == 0, "the socket took no more than the queue held");
    }
}

/// One vectored write of up to `max` bytes of the parts; 0 when the socket is full.
fn write_once<'a>(
    socket: &mut PeerSocket,
    parts: impl Iterator<Item = &'a [u8]>,
    max: usize,
) -> io::Result<usize> {
    let mut slices = [IoSlice::new(&[]); MAX_SLICES];
    let (mut count, mut room) = (0, max);
    for part in parts.take(MAX_SLICES) {
        let part = &part[..part.len().min(room)];
        slices[count] = IoSlice::new(part);
        count += 1;
        room -= part.len();
        if room == 0 {
            break;
        }
    }
    match socket.write_vectored(&slices[..count]) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Err(error) if is_pause(&error) => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    //! How much waits for a socket that takes nothing.
    use std::net::TcpListener;

    use super::*;
    use crate::protocol::FrameKind;

    #[test]
    fn tiny_frames_are_bounded_by_the_number_of_their_parts() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let socket = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        // Nothing but the stream's thread, which does not run, would write.
        let mut link = Link::new(LinkSocket::Encrypted(socket), Arc::default());
        let parts = [Bytes::from_static(b"x")];
        let header = FrameHeader::of(FrameKind::Message, &parts, 1).expect("it fits");
        let mut send = |parts: &[Bytes], header: &FrameHeader| link.send(header, parts, usize::MAX);
        for frame in 0..MAX_QUEUED_PARTS / 2 {
            assert_eq!(send(&parts, &header), SendOutcome::Queued, "frame {frame}: a header and a part");
        }
        assert_eq!(send(&parts, &header), SendOutcome::Dropped(DropReason::QueueFull));
    }
}
