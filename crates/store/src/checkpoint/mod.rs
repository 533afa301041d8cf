//! Checkpoints: the whole state as bytes, or what changed since the checkpoint before.
//!
//! A *base* holds everything, a *delta* what changed since the checkpoint before it began. A chain of one base and any
//! number of deltas restores the state:
//!
//! ```text
//!          applied 100               applied 200                       applied 300
//! base     put a@5 b@6 c@7    delta  a@120 (newer), removed b    delta  d@250, c@7 relocated to a new address
//!          purged up to 3            leases 4 granted                   small state (always whole)
//!
//! restore: base and deltas merged key by key: a@5 a@120, c@7 at its new address, d@250, each purged up to what
//!          the last header says; then compare the state hash with that of the last header
//! ```
//!
//! A checkpoint is consistent at the applied entry where it began, although it is written while commands are
//! applied. Versions written since have a higher revision and are left out, and nothing is purged meanwhile. Only
//! small things are copied at the beginning: what [changed](crate::state::ChangeTracker), members, alarms, and the
//! leases of a base.
//!
//! `docs/internals/store-checkpoint.md` describes the format to the byte.
//!
//! | file | does |
//! |---|---|
//! | `source`, `keys` | write a checkpoint of the state, chunk by chunk |
//! | `merge` | merges checkpoints that follow each other, key by key |
//! | `restore` | reads a chain, or the base of a snapshot, back |
//! | `header` | writes and reads the header |
//! | `small_state` | writes and reads members, alarms, users and roles |
//! | `addresses` | reads and replaces the log addresses in the chunks of a snapshot |
//! | `frame`, `codec` | frames with checksums, and the fields in them |
//! | `error` | why a checkpoint cannot be restored |

mod addresses;
mod codec;
mod error;
mod frame;
mod header;
mod keys;
mod merge;
mod restore;
mod small_state;
mod source;

#[cfg(test)]
mod tests;

pub use addresses::{chunk_key, chunk_values, with_addresses};
pub use error::RestoreError;
pub use header::CheckpointKind;
pub use merge::MergedCheckpoint;
pub(crate) use restore::restore;
pub use restore::{Restoration, Restored};
pub use source::CheckpointSource;
pub(crate) use source::{begin, begin_detached};
