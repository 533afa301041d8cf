//! Recovery: creates a log, and opens one after a clean stop, a crash, or damage.
//!
//! An entry whose record's head is intact and whose body is damaged can be repaired: a peer has the entry, and the head
//! has its length and checksum ([`Recovered::damaged`], RFC 0022).
//!
//! Everything durable is recovered, and perhaps a prefix of what was written after it. Bytes that something proves
//! durable are never taken for a torn write: if they must be replayed and are damaged, the log refuses to open;
//! otherwise there is a warning.
//!
//! ```text
//!   MANIFEST: checkpoint at entry 118              segments are numbered in hexadecimal: 2b, 2c, 2d
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
//! The steps, in order ([`mod@open`]): lock the directory; make the names durable; read the manifest; remove unfinished
//! files; take an inventory ([`inventory`]); index the records from the last segment that begins at or before the
//! checkpoint ([`index_records`]); sync the last segment and cut it behind its last record; return the parts of a log.
//! To *replay* committed entries into the store comes later, and is not the log's part. A log never continues in the
//! segment where it ended, so that leftovers of a crash after its end can never become valid.

mod create;
mod index_records;
mod inventory;
mod open;
mod scan;
mod warning;

pub(crate) use create::{create, exists, has_checkpoint};
pub use open::Recovered;
pub(crate) use open::{LogParts, open};
pub use warning::Warning;
