//! Recovery: creates a log, and opens one after a clean stop, a crash, or damage.
//!
//! Everything durable is recovered; of what was not acknowledged, a prefix may be. Bytes that something proves durable
//! are never taken for a torn write: if they must be replayed and are damaged, the log refuses to open; otherwise there
//! is a warning.
//!
//! ```text
//!   MANIFEST: checkpoint at entry 118
//!
//!   2b  opening(previous 90)  | ... 118
//!   2c  opening(previous 118) | 119 | 120 | 121     starts here: the last opening at or before 118
//!   2d  opening(previous 121) | 122 | 123 | ???     the last segment: the first non-record is the end of the log
//!
//!   ??? = zeros, or a record of another segment     clean end
//!   ??? = a record with a wrong checksum            torn write: cut off, warning
//!   the same, and a later record of 2d says that    corruption: error with file and offset
//!       this offset was durable (synced)
//! ```
//!
//! The steps, in order: make the names durable, remove unfinished files, read the manifest, take an inventory of the
//! files ([`inventory`]), replay the records after the checkpoint ([`replay`]), and return the parts of a log
//! ([`mod@open`]). A log never continues in the segment where it ended, so that leftovers of a crash after its end can
//! never become valid.

mod create;
mod inventory;
mod open;
mod replay;
mod scan;
mod warning;

pub(crate) use create::{create, exists};
pub use open::Recovered;
pub(crate) use open::{LogParts, open};
pub use warning::Warning;
