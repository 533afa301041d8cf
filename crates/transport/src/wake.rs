//! Waiting for a socket, a time, or somebody who wants us awake.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A doorbell that can be waited for together with a socket.
pub(crate) struct Wake {
    ring: UnixStream,
    hear: UnixStream,
}

/// What a wait found about the socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Wake> {
        let (ring, hear) = UnixStream::pair()?;
        ring.set_nonblocking(true)?;
        hear.set_nonblocking(true)?;
        Ok(Wake { ring, hear })
    }

    /// Wakes the waiting thread, now or at its next wait. Never blocks.
    pub(crate) fn wake(&self) {
        // A pair that is full has rung already.
        let _ = (&self.ring).write(&[0]);
    }

    /// Waits until woken, until `deadline`, or until the socket can be read (or written, when asked).
    pub(crate) fn wait(
        &self,
        socket: Option<(&TcpStream, bool)>,
        deadline: Option<Instant>,
    ) -> io::Result<Ready> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![PollFd::new(&self.hear, PollFlags::IN)];
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
        Ok(Ready {
            readable: broken || found.contains(PollFlags::IN),
            writable: found.contains(PollFlags::OUT),
        })
    }

    fn drain(&self) {
        let mut rings = [0; 64];
        while matches!((&self.hear).read(&mut rings), Ok(count) if count == rings.len()) {}
    }
}
