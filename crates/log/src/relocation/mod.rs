//! Relocation: copies live values out of files that hold little else, so that these files can be freed.
//!
//! A value is written once, in the entry of its put. When most values of a segment have been deleted or replaced, the
//! segment still cannot be freed because of the rest. Relocation copies the rest into a *data segment*:
//!
//! ```text
//!   segment 2a   64 MiB, of which 3 MiB live          data segment 31
//!   | v1 | dead | dead | v2 | dead ... |     ---->    | v1 | v2 | ...      3 MiB
//!
//!   1. copy      v1 and v2 are read, checked, written, synced; the file gets its name
//!   2. switch    the store replaces the addresses (2a, ..) by (31, ..): it retains the new and releases the old ones
//!   3. commit    a checkpoint that began after the switch becomes durable: no checkpoint refers to 2a any more
//!   4. wait      readers that pinned before the switch may still hold addresses into 2a; their pins are released
//!   5. free      2a is recycled or removed
//! ```
//!
//! A crash before step 3 leaves the old addresses valid; recovery finds that nothing refers to 31 and removes it.
//! The data segment ends with a footer that names its values, so that it can be relocated itself without a search for
//! what refers to it. Repair uses the same steps for values that a peer sent in place of damaged ones.

mod contents;
mod data_segment;
mod footer;
mod job;
mod relocations;

pub use contents::{Content, FileContents};
pub(crate) use data_segment::{DataSegment, DataSegmentSeries};
pub(crate) use footer::{FooterLocation, TRAILER_BYTES};
pub use job::{Relocation, RelocationDone, RelocationWriter};
pub(crate) use relocations::Relocations;
pub use relocations::{Candidate, Relocated};
