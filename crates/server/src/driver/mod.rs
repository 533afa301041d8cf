//! The threads that run a member: one decides, one writes the log, one does what takes long.
//!
//! ```text
//! RPC workers --mailbox--> decide --writes--> log thread ---Written---.
//! transport   --mailbox-->   ^  \--jobs----> background --Background-. |
//!                            '-------------------mailbox-------------'-'
//! ```
//!
//! The [`member::Member`] is decided for in turns: the mailbox is drained completely, the member decides once, and what
//! comes back is carried out; no turn waits for a disk or a socket. The deciding thread takes the turns while there is
//! much to do. When it sleeps, whoever brings news (an RPC worker, a thread that reads a peer, the log thread) takes
//! one in its place, which saves a wake-up at each step of a lone request; a thread that reads a bulk stream may write
//! to the log in the same way ([`writes`]). Everything that is heard goes through the mailbox.

mod bell;
mod clock;
mod decide;
mod desk;
mod mailbox;
mod workers;
mod writes;

pub(crate) use bell::Bell;
pub(crate) use clock::Clock;
pub(crate) use decide::{Decider, Edge};
pub(crate) use desk::Desks;
pub(crate) use mailbox::Mailbox;
pub(crate) use workers::LogDesk;
