//! An established outgoing connection: what is written at once and what waits.
//!
//! Bytes are written by whoever holds the link's lock: the caller of `send` while nothing waits, the stream's
//! thread afterwards. Once a part of a frame has been written, its rest is in the queue before the lock is let
//! go, so frames are never mixed or cut; a link that fails is never written again.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::counters::Counters;
use crate::frame::HEADER_BYTES;
use crate::stream::{Stream, is_pause};

/// What became of a frame given to [`crate::Peers::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// It was written or waits for the socket. It may still be lost with the connection.
    Queued,
    /// It will never arrive.
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
    /// As much waits for the socket as may.
    QueueFull,
    /// The frame is longer than [`crate::Limits::max_frame_bytes`].
    TooLarge,
}

/// Slices given to one system call.
const MAX_SLICES: usize = 64;
/// Bytes the stream's thread writes while it holds the lock, so that a caller never waits for more than that.
const MAX_WRITE_BYTES: usize = 256 << 10;
/// Pieces that may wait, whatever their length, so that tiny ones are bounded too.
const MAX_QUEUED_PIECES: usize = 64 << 10;

pub(crate) struct Link {
    stream: Stream,
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
    written_bytes: u64,
    broken: Option<io::Error>,
    counters: Arc<Counters>,
}

impl Link {
    /// A link over a stream that is in non-blocking mode.
    pub(crate) fn new(stream: Stream, counters: Arc<Counters>) -> Link {
        Link { stream, queue: VecDeque::new(), queued_bytes: 0, written_bytes: 0, broken: None, counters }
    }

    /// Writes a frame or queues what the socket does not take. A frame is taken whatever its length when
    /// nothing waits.
    pub(crate) fn send(&mut self, header: &[u8; HEADER_BYTES], pieces: &[Bytes], limit: usize) -> Sent {
        if self.broken.is_some() {
            return Sent::Dropped(DropReason::Disconnected);
        }
        let length = HEADER_BYTES + pieces.iter().map(Bytes::len).sum::<usize>();
        if !self.queue.is_empty() {
            if self.queued_bytes + length > limit || self.queue.len() + pieces.len() > MAX_QUEUED_PIECES {
                return Sent::Dropped(DropReason::QueueFull);
            }
            self.enqueue(header, pieces, 0);
            return Sent::Queued;
        }
        let parts = std::iter::once(&header[..]).chain(pieces.iter().map(|piece| &piece[..]));
        let written = match write_once(&mut self.stream, parts, usize::MAX) {
            Ok(written) => written,
            Err(error) => {
                self.broken = Some(error);
                return Sent::Dropped(DropReason::Disconnected);
            }
        };
        self.count(written);
        if written < length {
            self.enqueue(header, pieces, written);
            // A short write mostly means a full socket; only a frame of many pieces goes on here.
            while 1 + pieces.len() > MAX_SLICES && self.flush() > 0 {}
        }
        Sent::Queued
    }

    /// Writes some of what waits; returns how many bytes the socket took. A failure is found in
    /// [`Link::into_error`].
    pub(crate) fn flush(&mut self) -> usize {
        if self.queue.is_empty() || self.broken.is_some() {
            return 0;
        }
        let parts = self.queue.iter().map(|piece| &piece[..]);
        match write_once(&mut self.stream, parts, MAX_WRITE_BYTES) {
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

    /// Reads what came on the way back, without waiting.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.stream.read(room)
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

    /// What broke it.
    pub(crate) fn into_error(self) -> Option<io::Error> {
        self.broken
    }

    pub(crate) fn shutdown(&self) {
        self.stream.shutdown();
    }

    fn count(&mut self, written: usize) {
        self.written_bytes += written as u64;
        Counters::add(&self.counters.sent_bytes, written as u64);
    }

    /// Queues a frame without its first `skip` bytes.
    fn enqueue(&mut self, header: &[u8; HEADER_BYTES], pieces: &[Bytes], skip: usize) {
        let mut skip = skip;
        if skip < HEADER_BYTES {
            self.push(Bytes::copy_from_slice(&header[skip..]));
        }
        skip = skip.saturating_sub(HEADER_BYTES);
        for piece in pieces {
            if skip < piece.len() {
                self.push(piece.slice(skip..));
            }
            skip = skip.saturating_sub(piece.len());
        }
    }

    fn push(&mut self, piece: Bytes) {
        self.queued_bytes += piece.len();
        self.queue.push_back(piece);
    }

    fn dequeue(&mut self, written: usize) {
        self.queued_bytes -= written;
        let mut left = written;
        while let Some(piece) = self.queue.front_mut() {
            if left < piece.len() {
                piece.advance(left);
                return;
            }
            left -= piece.len();
            self.queue.pop_front();
        }
    }
}

/// One vectored write of up to `max` bytes of the parts; 0 when the socket is full.
fn write_once<'a>(
    stream: &mut Stream,
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
    match stream.write_vectored(&slices[..count]) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Err(error) if is_pause(&error) => Ok(0),
        other => other,
    }
}
