//! Waits for a socket, a deadline, or another thread.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Wakes a thread that waits in `poll`: a byte written to one end of a socket pair makes the other end readable.
pub(crate) struct PollWaker {
    sender: UnixStream,
    receiver: UnixStream,
}

/// What can be done with the socket after a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl PollWaker {
    pub(crate) fn new() -> io::Result<PollWaker> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(PollWaker { sender, receiver })
    }

    /// Wakes the waiting thread, now or at its next wait. Never blocks.
    pub(crate) fn wake(&self) {
        // A pair that is full wakes the thread already.
        let _ = (&self.sender).write(&[0]);
    }

    /// Waits until woken, until `deadline`, or until the socket can be read (or written, when asked).
    pub(crate) fn wait(
        &self,
        socket: Option<(&TcpStream, bool)>,
        deadline: Option<Instant>,
    ) -> io::Result<Readiness> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![PollFd::new(&self.receiver, PollFlags::IN)];
        if let Some((socket, write)) = socket {
            let flags = if write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            fds.push(PollFd::new(socket, flags));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let found = fds.get(1).map_or(PollFlags::empty(), PollFd::revents);
        self.drain();
        let broken = found.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        Ok(Readiness {
            readable: broken || found.contains(PollFlags::IN),
            writable: found.contains(PollFlags::OUT),
        })
    }

    fn drain(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.receiver).read(&mut bytes), Ok(count) if count == bytes.len()) {}
    }
}

/// Whether an operation only has to be repeated.
pub(crate) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
