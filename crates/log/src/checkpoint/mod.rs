//! Checkpoints: the state machine's small state at an applied index, in files of opaque chunks.
//!
//! A *base* is complete; a *delta* holds what changed since the checkpoint before it. The *manifest* names one base and
//! the deltas after it. Replacing the manifest is the commit point; a checkpoint file that it does not name is
//! unfinished or superseded, and is removed. `docs/internals/checkpoint.md` has the formats to the byte.
//!
//! ```text
//!   MANIFEST  [ base 2a, entry 100 ] -> [ delta 2d, entry 140 ] -> [ delta 31, entry 155 ]
//!
//!   recovery: merge 2a, 2d and 31, then replay the log from entry 156
//!
//!   a new delta 35 at entry 170:
//!     1. write 00000035.delta, sync it, sync the directory         not yet part of the state
//!     2. write MANIFEST.new with 35 appended, sync it
//!     3. rename MANIFEST.new -> MANIFEST, sync the directory       commit point
//!
//!   a merge 36 of 2d, 31 and 35 takes their place: [ base 2a, entry 100 ] -> [ delta 36, entry 170 ]
//!   a new base 37 at entry 180 replaces the whole chain: [ base 37, entry 180 ]; 2a and 36 are removed
//! ```
//!
//! Installing a snapshot is a base checkpoint with values: data segments first, then the steps above.

mod checkpoints;
mod install;
mod manifest;
mod reader;
mod reserve;
mod shorter;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use checkpoints::Checkpoints;
pub(crate) use install::SnapshotInstalls;
pub use install::{InstallDone, InstallWaiting, SnapshotInstaller};
pub use manifest::CheckpointKind;
pub(crate) use manifest::Manifest;
pub use reader::{Checkpoint, CheckpointFile, FileChunks};
pub(crate) use reserve::{ReserveDone, ReserveJob};
pub use shorter::ShorterManifest;
pub use writer::{CheckpointDone, CheckpointWriter, MAX_CHUNK_BYTES};
