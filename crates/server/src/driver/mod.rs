//! The threads that run a member: one decides, one writes the log, one does what takes long.
//!
//! ```text
//! RPC workers --mailbox--> decide --writes--> log thread ---Written---.
//! transport   --mailbox-->   ^  \--jobs----> background --Background-. |
//!                            '-------------------mailbox-------------'-'
//! ```
//!
//! The deciding thread owns the [`member::Member`]. It drains its mailbox completely, lets the member decide once, and
//! carries out what comes back; it never waits for a disk or a socket. Everything it hears, it hears through the
//! mailbox.

mod bell;
mod clock;
mod decide;
mod desk;
mod mailbox;
mod workers;

pub(crate) use bell::Bell;
pub(crate) use clock::Clock;
pub(crate) use decide::{Decider, Edge};
pub(crate) use desk::Desks;
pub(crate) use mailbox::Mailbox;
