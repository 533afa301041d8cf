//! Connection takeover: of one incoming stream, a newer connection replaces the older.
//!
//! A peer that redials has given up its older connection, but we may not have noticed, and a thread may be in the
//! middle of a delivery from it:
//!
//! ```text
//! claim 1     deliver m1 | deliver m2 ...... |  deliver m3: Error::Replaced
//! claim 2                      | claims: shuts socket 1; deliver m4 waits | m4 is delivered
//! ```
//!
//! So deliveries never overlap, and once the newer connection delivers, the older never does.

use std::net::{Shutdown, TcpStream};

use parking_lot::Mutex;

use crate::error::Error;

/// The connection that serves one incoming stream.
#[derive(Default)]
pub(crate) struct CurrentConnection {
    current: Mutex<CurrentClaim>,
    /// Held during a delivery.
    delivery: Mutex<()>,
}

#[derive(Default)]
struct CurrentClaim {
    /// The number of the newest claim; claims are numbered from 1.
    number: u64,
    socket: Option<TcpStream>,
    closed: bool,
}

/// The right of one connection to deliver, until the next one claims the stream.
pub(crate) struct Claim<'a> {
    stream: &'a CurrentConnection,
    number: u64,
}

impl CurrentConnection {
    /// Makes `socket` the current connection, and shuts down the one before.
    pub(crate) fn claim(&self, socket: &TcpStream) -> Result<Claim<'_>, Error> {
        let socket = socket.try_clone().map_err(Error::io("duplicate the socket"))?;
        let mut current = self.current.lock();
        if current.closed {
            return Err(Error::Stopped);
        }
        shut(current.socket.replace(socket));
        current.number += 1;
        Ok(Claim { stream: self, number: current.number })
    }

    /// Shuts down the current connection; later claims fail.
    pub(crate) fn close(&self) {
        let mut current = self.current.lock();
        current.closed = true;
        shut(current.socket.take());
    }
}

impl Claim<'_> {
    /// Calls `delivery` if this is still the current connection, after any delivery under way has ended.
    pub(crate) fn deliver<T>(&self, delivery: impl FnOnce() -> T) -> Result<T, Error> {
        let _exclusive = self.stream.delivery.lock();
        self.check()?;
        Ok(delivery())
    }

    fn check(&self) -> Result<(), Error> {
        let current = self.stream.current.lock();
        match current.number == self.number {
            _ if current.closed => Err(Error::Stopped),
            true => Ok(()),
            false => Err(Error::Replaced),
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut current = self.stream.current.lock();
        if current.number == self.number {
            current.socket = None;
        }
    }
}

fn shut(socket: Option<TcpStream>) {
    if let Some(socket) = socket {
        // Fails when the connection is gone already, which is the aim.
        let _ = socket.shutdown(Shutdown::Both);
    }
}
