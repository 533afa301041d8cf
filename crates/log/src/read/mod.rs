//! Reading: values by log address, entries by index, and the files that both come from.
//!
//! ```text
//!   Pin::read(address, len, checksum)            ReadJob, Entries (entries)
//!            |                                         |
//!            v                                         v
//!        SharedFiles ----------------------------- EntryCursor
//!            |
//!            +-- Tail         newest entries, in memory, durable or not
//!            +-- ValueCache   small values that earlier reads fetched from files
//!            +-- ValueFiles   segments and data segments by number, with the bytes referenced in each
//!            +-- Pins         which readers may still hold an address into a retired file
//! ```
//!
//! All bytes that come from a file are checked before they are returned. Readers run on any thread; the owner of the
//! log shares [`SharedFiles`] with them and never waits for them.

mod cache;
mod entry_cursor;
mod open_handles;
mod pins;
mod read_slots;
mod read_values;
mod reader;
mod shared_files;
mod tail;
mod value_files;

pub use cache::Access;
pub(crate) use cache::ValueCache;
pub use entry_cursor::{Entries, ReadJob};
pub(crate) use entry_cursor::{EntryCursor, EntryRef, entry_of};
pub(crate) use pins::Pins;
pub use read_slots::ReadSlot;
pub use reader::{Damage, Pin, Reader};
pub(crate) use shared_files::SharedFiles;
pub(crate) use tail::Tail;
pub use value_files::ReferenceCounts;
pub(crate) use value_files::{ValueFile, ValueFiles};
