//! Power loss below the file system, at every point of a run that really happened.
//!
//! A member runs as the server runs it, its log thread and its background thread on a real directory, under a
//! workload that meets everything a disk holds: segments, recycled ones, checkpoints, deltas, relocated values,
//! restarts and kills. A [`Recorder`] between the member and the disk writes down every operation in the order in
//! which the disk saw them; a [`Ledger`] writes down what the member showed and acknowledged, and at which operation.
//!
//! Then, for every prefix of the operations, the directory is built again in memory as a machine may find it that lost
//! power there: with all of what was not synced, with none of it, torn, out of order. From each such image a member is
//! opened and held against the ledger: it opens; everything acknowledged by then is there, exactly, and nothing is half
//! there; the state at an index has the hash it had; a term is not forgotten; it takes a new write and keeps it.
//!
//! The same with deliberate [`Mistake`]s proves that the checks can fail.

#[path = "../../../crates/member/tests/alone/mod.rs"]
mod alone;
mod campaign;
mod ledger;
mod live;
mod recorder;
mod recording;
mod recovery;
mod replay;
mod survival;
mod workload;

use std::path::PathBuf;

use log::Options;
use member::Config;

use alone::TICK_NS;

pub use campaign::{Failure, Figures, Plan, cut_everywhere};
pub use ledger::Ledger;
pub use recorder::{Operation, Recorder};
pub use recording::Recording;
pub use replay::Mistake;
pub use workload::record;

/// Bytes of a segment: small, so that a short run fills, recycles and empties many.
const SEGMENT_BYTES: u64 = 16 << 10;
/// Commands between checkpoints.
const CHECKPOINT_COMMANDS: u64 = 24;
/// Entries kept behind a checkpoint: few, so that segments become free.
const CATCHUP_ENTRIES: u64 = 8;
/// Where the images have the data directory.
const DATA_DIR: &str = "/data";

fn options(data_dir: impl Into<PathBuf>) -> Options {
    Options { segment_bytes: SEGMENT_BYTES, tail_bytes: 8 << 10, open_files: 8, ..Options::new(data_dir) }
}

/// The member in its `start`th life.
fn config(start: u64) -> Config {
    Config {
        seed: start,
        checkpoint_commands: CHECKPOINT_COMMANDS,
        catchup_entries: CATCHUP_ENTRIES,
        ..alone::config(start)
    }
}
