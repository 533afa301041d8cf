//! A socket that collects writes while a round of its connection runs.
//!
//! The HTTP/2 library flushes whenever it is polled, and writes each larger DATA frame by itself. A write to a socket
//! costs more than all the rest of a small call, so while [`ConnectionRound::holds`] the written bytes stay here, and
//! everything a round produced leaves together. The answer to a ping may wait even longer: see `pongs.rs`.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pongs::DelayedPong;

/// Bytes that are collected; more is written through. Four frames of the usual size: beyond that a write is cheap for
/// what it carries.
const MAX_COLLECTED_BYTES: usize = 64 << 10;

/// Room that a connection keeps between rounds: a thousand idle connections must not keep what a busy moment needed.
const MAX_KEPT_BYTES: usize = 4 << 10;

/// Flags that a connection and its socket share. Both are in one task, so relaxed ordering suffices.
#[derive(Clone, Default)]
pub(super) struct ConnectionRound(Arc<RoundFlags>);

#[derive(Default)]
struct RoundFlags {
    holds: AtomicBool,
    /// Reads that brought something.
    received: AtomicU64,
}

impl ConnectionRound {
    /// Whether writes are held from now on.
    pub(super) fn hold(&self, holds: bool) {
        self.0.holds.store(holds, Ordering::Relaxed);
    }

    fn holds(&self) -> bool {
        self.0.holds.load(Ordering::Relaxed)
    }

    /// A number that grows whenever something arrives.
    pub(super) fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }
}

/// See the module.
pub(super) struct GatheringSocket<I> {
    io: I,
    round: ConnectionRound,
    collected: Vec<u8>,
    /// Bytes at its beginning that are written already.
    written: usize,
    pong: DelayedPong,
}

impl<I> GatheringSocket<I> {
    pub(super) fn new(io: I, round: ConnectionRound) -> GatheringSocket<I> {
        GatheringSocket { io, round, collected: Vec::new(), written: 0, pong: DelayedPong::default() }
    }
}

impl<I: AsyncWrite + Unpin> GatheringSocket<I> {
    /// Writes what was collected.
    fn poll_release(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.collected.len() {
            let rest = &self.collected[self.written..];
            let written = ready!(Pin::new(&mut self.io).poll_write(context, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        if !self.collected.is_empty() {
            self.pong.sent();
        }
        self.written = 0;
        self.collected.clear();
        self.collected.shrink_to(MAX_KEPT_BYTES);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for GatheringSocket<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, into))?;
        if into.filled().len() > before {
            self.round.0.received.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for GatheringSocket<I> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = parts.iter().map(|part| part.len()).sum();
        if self.collected.len() + length > MAX_COLLECTED_BYTES {
            ready!(self.poll_release(context))?;
        }
        if length > MAX_COLLECTED_BYTES {
            return Pin::new(&mut self.io).poll_write_vectored(context, parts);
        }
        parts.iter().for_each(|part| self.collected.extend_from_slice(part));
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.round.holds() || self.pong.may_wait(&self.collected, context) {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_release(context))?;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_release(context))?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
