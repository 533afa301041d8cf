//! Power loss below the file system, at every point of a run that really happened.
//!
//! ```text
//! record     member on a real directory, with its threads, under a workload   -> operations of the disk, in order
//!            ledger: state hashes, revisions, acknowledgements, and after how many operations each was given
//! cut        for each prefix of the operations:
//!              rebuild the disk in memory; keep, drop or tear what was not synced    (survival)
//!              open a member from it, and compare it with the ledger                 (recovery)
//! ```
//!
//! The workload covers everything that a disk can hold: segments, recycled segments, base and delta checkpoints,
//! relocated values, graceful stops and kills. A recovered member must open; have everything that was acknowledged
//! before the cut, exactly, and no half of a transaction; have the state hash that belongs to its index; not be in an
//! earlier term; and take a new write and keep it.
//!
//! Deliberate [`Defect`]s show that the checks can fail.

mod campaign;
mod ledger;
mod live;
mod recorder;
mod recording;
mod recovery;
mod replay;
mod setup;
mod survival;
mod workload;

pub use campaign::{CutFigures, CutPlan, RecoveryFailure, cut_everywhere};
pub use ledger::Ledger;
pub use recorder::{DiskOperation, Recorder};
pub use recording::Recording;
pub use replay::Defect;
pub use workload::record;
