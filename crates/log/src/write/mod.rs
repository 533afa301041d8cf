//! Writing: planning on the owner's thread, writing and syncing on another.
//!
//! ```text
//!   owner                               flusher                        owner
//!   WritePlanner::append  --WriteJob--> WriteJob::run_all --WriteDone--> WritePlanner::complete
//!     index, tail, position               write, one sync                  durable
//!     change at once
//! ```
//!
//! - [`WritePlanner`] turns entries and hard states into records at log addresses.
//! - [`WriteJob`] writes them; jobs that run together share one sync of each file (a flush).
//! - [`EntryRepairJob`] writes one damaged record again.
//! - [`BulkFile`] writes checkpoints and data segments, which are not part of the log.

mod bulk_file;
mod entry_repair;
mod job;
mod planner;
#[cfg(test)]
mod tests;

pub(crate) use bulk_file::{BulkFile, read_full};
pub use entry_repair::EntryRepairJob;
pub use job::{WriteDone, WriteJob};
pub(crate) use planner::WritePlanner;
pub use planner::{Append, Completed, SEAL_AFTER};
