//! The life of a segment file: preallocated, part of the log, retired, recycled or removed.
//!
//! ```text
//!                PreallocatedSegments              SegmentChain             FileRetirement
//!   SegmentFactory --> ready -----------take------> active, sealed --retire--> retired
//!         ^                                            |                         |  all pins of its epoch
//!         |                                            | WalDirMoves             v  are released
//!         |                                            v                      recycled or removed
//!         |                                      the data directory              |
//!         +-------------------------------- an old file ------------------------+
//! ```
//!
//! - [`SegmentFactory`] makes a segment file ready, from an old file if there is one.
//! - [`PreallocatedSegments`] keeps the next segment and a reserve ready.
//! - [`RecordSizes`] and `room` say whether records fit into what is ready.
//! - [`SegmentChain`] knows the segments of the log in order, and which of them recovery still needs.
//! - [`WalDirMoves`] moves sealed segments out of a separate WAL directory.
//! - [`FileRetirement`] frees files that hold nothing of use, when no reader can hold an address into them.

mod chain;
mod factory;
mod file_numbers;
mod preallocated;
mod retirement;
mod room;
#[cfg(test)]
mod tests;
mod wal_dir;

pub(crate) use chain::{LogSegment, SegmentChain};
pub(crate) use factory::{SegmentFactory, UsedFile};
pub(crate) use file_numbers::FileNumbers;
pub use preallocated::Space;
pub(crate) use preallocated::{PreallocatedSegments, PreparationDone, PreparationJob, ReadySegment};
pub(crate) use retirement::FileRetirement;
pub use room::RecordSizes;
pub(crate) use room::{SEAL_ROOM_BYTES, SEGMENT_OVERHEAD_BYTES};
pub(crate) use wal_dir::{WalDirMove, WalDirMoveDone, WalDirMoves};
