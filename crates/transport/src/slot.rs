//! The place of one incoming stream: a newer connection takes it from an older one.
//!
//! A peer that redials has given up its older connection, but we may not have noticed, and its thread may be in
//! the middle of a delivery. The newer connection shuts the older one's socket and waits for that delivery to
//! end; afterwards the older delivers nothing more.

use std::net::{Shutdown, TcpStream};

use parking_lot::Mutex;

use crate::Error;

#[derive(Default)]
pub(crate) struct Slot {
    holder: Mutex<Holder>,
    /// Held during a delivery.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Holder {
    /// Which claim holds the slot; claims are numbered from 1.
    number: u64,
    socket: Option<TcpStream>,
    closed: bool,
}

/// The right of one connection to deliver, until the next one claims the slot.
pub(crate) struct Claim<'a> {
    slot: &'a Slot,
    number: u64,
}

impl Slot {
    /// Takes the slot for a connection and shuts down the one that held it.
    pub(crate) fn claim(&self, socket: &TcpStream) -> Result<Claim<'_>, Error> {
        let socket = socket.try_clone().map_err(Error::io("duplicate the socket"))?;
        let mut holder = self.holder.lock();
        if holder.closed {
            return Err(Error::Stopped);
        }
        shut(holder.socket.replace(socket));
        holder.number += 1;
        Ok(Claim { slot: self, number: holder.number })
    }

    /// Ends the connection that holds the slot and lets no other in.
    pub(crate) fn close(&self) {
        let mut holder = self.holder.lock();
        holder.closed = true;
        shut(holder.socket.take());
    }
}

impl Claim<'_> {
    /// Calls `delivery` in turn, if the slot is still ours.
    pub(crate) fn deliver<T>(&self, delivery: impl FnOnce() -> T) -> Result<T, Error> {
        let _turn = self.slot.turn.lock();
        self.check()?;
        Ok(delivery())
    }

    fn check(&self) -> Result<(), Error> {
        let holder = self.slot.holder.lock();
        match holder.number == self.number {
            _ if holder.closed => Err(Error::Stopped),
            true => Ok(()),
            false => Err(Error::Replaced),
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut holder = self.slot.holder.lock();
        if holder.number == self.number {
            holder.socket = None;
        }
    }
}

fn shut(socket: Option<TcpStream>) {
    if let Some(socket) = socket {
        // Fails when the connection is gone already, which is what was asked for.
        let _ = socket.shutdown(Shutdown::Both);
    }
}
