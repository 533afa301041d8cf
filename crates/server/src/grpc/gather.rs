//! A socket whose writes are gathered until its owner lets them go.
//!
//! The HTTP/2 library flushes whenever it is polled, and writes each larger DATA frame by itself. A write to a socket
//! costs more than all the rest of a small call, so while [`Turn::holds`] what is written waits here, and everything a
//! turn of the connection produced leaves together. The answer to a ping waits for even longer: see [`super::pongs`].

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pongs::Pong;

/// Bytes that wait at most; more goes through. Four frames of the usual size: from there on a write is cheap for what
/// it carries.
const GATHERED_BYTES: usize = 64 << 10;

/// Room that a connection keeps between turns. A thousand idle connections must not keep what a busy moment needed.
const KEPT_BYTES: usize = 4 << 10;

/// What the owner of a connection and its socket tell each other. Both are in one task, so no order is needed.
#[derive(Clone, Default)]
pub(super) struct Turn(Arc<Flags>);

#[derive(Default)]
struct Flags {
    holds: AtomicBool,
    heard: AtomicBool,
}

impl Turn {
    /// Whether writes wait from now on.
    pub(super) fn hold(&self, holds: bool) {
        self.0.holds.store(holds, Ordering::Relaxed);
    }

    fn holds(&self) -> bool {
        self.0.holds.load(Ordering::Relaxed)
    }

    /// Whether anything arrived since this was asked last.
    pub(super) fn take_heard(&self) -> bool {
        self.0.heard.swap(false, Ordering::Relaxed)
    }
}

/// See the module.
pub(super) struct Gather<I> {
    io: I,
    turn: Turn,
    gathered: Vec<u8>,
    /// How many of them are written already.
    written: usize,
    pong: Pong,
}

impl<I> Gather<I> {
    pub(super) fn new(io: I, turn: Turn) -> Gather<I> {
        Gather { io, turn, gathered: Vec::new(), written: 0, pong: Pong::default() }
    }
}

impl<I: AsyncWrite + Unpin> Gather<I> {
    /// Writes what was gathered.
    fn poll_let_go(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.gathered.len() {
            let rest = &self.gathered[self.written..];
            let written = ready!(Pin::new(&mut self.io).poll_write(context, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        if !self.gathered.is_empty() {
            self.pong.sent();
        }
        self.written = 0;
        self.gathered.clear();
        self.gathered.shrink_to(KEPT_BYTES);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Gather<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, into))?;
        if into.filled().len() > before {
            self.turn.0.heard.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Gather<I> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = parts.iter().map(|part| part.len()).sum();
        if self.gathered.len() + length > GATHERED_BYTES {
            ready!(self.poll_let_go(context))?;
        }
        if length > GATHERED_BYTES {
            return Pin::new(&mut self.io).poll_write_vectored(context, parts);
        }
        parts.iter().for_each(|part| self.gathered.extend_from_slice(part));
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.turn.holds() || self.pong.may_wait(&self.gathered, context) {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_let_go(context))?;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_let_go(context))?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
