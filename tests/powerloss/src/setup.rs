//! The member under test: sizes so small that a short run covers everything.

#[path = "../../../crates/member/tests/alone/mod.rs"]
mod alone;

use std::path::PathBuf;

use log::Options;
use member::MemberConfig;

pub(crate) use alone::TICK_NS;

/// Size of a segment: small, so that a short run fills, recycles and empties many.
pub(crate) const SEGMENT_BYTES: u64 = 16 << 10;
/// Commands between checkpoints.
const CHECKPOINT_COMMANDS: u64 = 24;
/// Entries kept before a checkpoint: few, so that segments become free.
const CATCHUP_ENTRIES: u64 = 8;
/// The data directory in images.
pub(crate) const DATA_DIR: &str = "/data";

/// Options of the log, in this directory.
pub(crate) fn options(data_dir: impl Into<PathBuf>) -> Options {
    Options { segment_bytes: SEGMENT_BYTES, tail_bytes: 8 << 10, open_files: 8, ..Options::new(data_dir) }
}

/// The configuration of the member; `process_run` identifies its process.
pub(crate) fn config(process_run: u64) -> MemberConfig {
    MemberConfig {
        seed: process_run,
        checkpoint_commands: CHECKPOINT_COMMANDS,
        catchup_entries: CATCHUP_ENTRIES,
        catchup_bytes: member::MAX_CATCHUP_BYTES,
        ..alone::config(process_run)
    }
}
