//! A connection while it lasts, and calls on it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use ctl::CallError;
use tokio::io::ReadBuf;

use super::dial::ByteStream;
use crate::wire::Wire;

/// Bytes of one read: the answers of many calls, and a good part of a long list.
const READ_BYTES: usize = 128 << 10;

/// Reads of one connection before others have their turn.
const READS_AT_ONCE: usize = 16;

/// The number of gRPC's code `Unavailable`.
const UNAVAILABLE: i32 = 14;

/// A connection that has been made.
pub(super) struct Link {
    wire: RefCell<Wire>,
    /// The task that moves the connection's bytes.
    io_task: RefCell<Option<Waker>>,
}

impl Link {
    /// Starts to move the bytes of a connection, until it ends or the link is dropped.
    pub(super) fn start(wire: Wire, socket: Box<dyn ByteStream>) -> Rc<Self> {
        let link = Rc::new(Self { wire: RefCell::new(wire), io_task: RefCell::new(None) });
        tokio::task::spawn_local(move_bytes(Rc::downgrade(&link), socket));
        link
    }

    /// Why no new call may begin, if so.
    pub(super) fn closing(&self) -> Option<CallError> {
        self.wire.borrow().closing().cloned()
    }

    fn wake_io_task(&self) {
        if let Some(waker) = self.io_task.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Begins a call as soon as the server's limit of open calls allows.
    ///
    /// # Errors
    /// The connection takes no new calls.
    pub(super) async fn open(
        self: &Rc<Self>,
        method: &'static str,
        message: &[u8],
        last: bool,
    ) -> Result<Talk, CallError> {
        let mut queued = Queued { link: self, number: None };
        let mut wire = poll_fn(|cx| {
            let mut wire = self.wire.borrow_mut();
            let may_begin = wire.closing().is_some() || wire.has_room(&mut queued.number, cx);
            if may_begin { Poll::Ready(wire) } else { Poll::Pending }
        })
        .await;
        let stream = wire.open(method, message, last)?;
        drop(wire);
        self.wake_io_task();
        Ok(Talk { link: Rc::clone(self), stream })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // It closes the socket.
        self.wake_io_task();
    }
}

/// A caller that waits until a call may begin; it leaves the queue when dropped.
struct Queued<'a> {
    link: &'a Link,
    number: Option<u64>,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.link.wire.borrow_mut().leave(number);
        }
    }
}

/// A call that has begun; it is given up when dropped.
pub(crate) struct Talk {
    link: Rc<Link>,
    stream: u32,
}

impl Talk {
    /// The connection that it is made on.
    pub(super) fn link(&self) -> Rc<Link> {
        Rc::clone(&self.link)
    }

    /// Sends one more message.
    pub(crate) fn send(&self, message: &[u8]) {
        self.link.wire.borrow_mut().send(self.stream, message, false);
        self.link.wake_io_task();
    }

    /// The next message, or none when the call ended well. It may be dropped and called again.
    ///
    /// # Errors
    /// The status of a call that failed, or the loss of the connection.
    pub(crate) async fn next(&self) -> Result<Option<Vec<u8>>, CallError> {
        poll_fn(|cx| self.poll(cx, false)).await
    }

    /// The only message of the answer.
    ///
    /// # Errors
    /// The status of a call that failed, or the loss of the connection.
    pub(super) async fn answer(self) -> Result<Vec<u8>, CallError> {
        let answer = poll_fn(|cx| self.poll(cx, true)).await?;
        answer.ok_or_else(|| CallError::status(13, "the server sent no message".to_owned()))
    }

    /// `whole` is whether a message counts only once the call has ended.
    fn poll(&self, cx: &Context<'_>, whole: bool) -> Poll<Result<Option<Vec<u8>>, CallError>> {
        let mut wire = self.link.wire.borrow_mut();
        let Some(call) = wire.call(self.stream) else { return Poll::Ready(Ok(None)) };
        let may_take = !whole || matches!(call.end, Some(Ok(())));
        if may_take && let Some(message) = call.take_message() {
            return Poll::Ready(Ok(Some(message)));
        }
        match &call.end {
            Some(Ok(())) => Poll::Ready(Ok(None)),
            Some(Err(error)) => Poll::Ready(Err(error.clone())),
            None => {
                call.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let mut wire = self.link.wire.borrow_mut();
        wire.close(self.stream);
        let writes = !wire.output.is_empty();
        drop(wire);
        if writes {
            self.link.wake_io_task();
        }
    }
}

thread_local! {
    /// Where reads put their bytes: all connections take turns in one thread.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Reads and writes until the connection ends, and tells all its calls; or until the link is dropped.
async fn move_bytes(link: Weak<Link>, mut socket: Box<dyn ByteStream>) {
    let mut written = 0;
    poll_fn(|cx| {
        let Some(link) = link.upgrade() else { return Poll::Ready(()) };
        let moved = read(&link, &mut *socket, cx).and_then(|()| write(&link, &mut *socket, &mut written, cx));
        if let Err(error) = moved {
            link.wire.borrow_mut().fail(error);
            return Poll::Ready(());
        }
        let mut io_task = link.io_task.borrow_mut();
        if !io_task.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *io_task = Some(cx.waker().clone());
        }
        Poll::Pending
    })
    .await;
}

fn read(link: &Link, socket: &mut dyn ByteStream, cx: &mut Context<'_>) -> Result<(), CallError> {
    BUFFER.with_borrow_mut(|buffer| {
        for _ in 0..READS_AT_ONCE {
            let mut space = ReadBuf::new(buffer);
            match Pin::new(&mut *socket).poll_read(cx, &mut space) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => return Err(lost(&error)),
                Poll::Ready(Ok(())) if space.filled().is_empty() => {
                    return Err(CallError::status(
                        UNAVAILABLE,
                        "the server closed the connection".to_owned(),
                    ));
                }
                Poll::Ready(Ok(())) => link.wire.borrow_mut().receive(space.filled())?,
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    })
}

fn write(
    link: &Link,
    socket: &mut dyn ByteStream,
    written: &mut usize,
    cx: &mut Context<'_>,
) -> Result<(), CallError> {
    let wire = &mut *link.wire.borrow_mut();
    while *written < wire.output.len() {
        match Pin::new(&mut *socket).poll_write(cx, &wire.output[*written..]) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Ok(bytes)) if bytes > 0 => *written += bytes,
            Poll::Ready(Ok(_)) => {
                return Err(CallError::status(UNAVAILABLE, "the connection takes no bytes".to_owned()));
            }
            Poll::Ready(Err(error)) => return Err(lost(&error)),
        }
    }
    wire.output.clear();
    *written = 0;
    match Pin::new(socket).poll_flush(cx) {
        Poll::Ready(Err(error)) => Err(lost(&error)),
        _ => Ok(()),
    }
}

fn lost(error: &std::io::Error) -> CallError {
    CallError::status(UNAVAILABLE, format!("error reading from server: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn a_link_that_is_dropped_closes_its_socket() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let (ours, mut server) = tokio::io::duplex(1 << 16);
            let link = Link::start(Wire::new("localhost:1", "http", None), Box::new(ours));
            // The greeting shows that the task has run, and sleeps.
            assert!(server.read_u8().await.is_ok());
            drop(link);
            let mut rest = Vec::new();
            assert!(server.read_to_end(&mut rest).await.is_ok(), "it ends");
        });
    }
}
