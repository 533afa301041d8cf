//! The key index: all retained versions of all keys, ordered by key, in memory.
//!
//! Three structures refer to each other by *slots*, small integers that number the keys:
//!
//! - [`RecordSlab`] stores a 32-byte [`KeyRecord`] for each key: its newest version inline and, only if needed, a box
//!   with its [older versions](older_versions). The number of a record in the slab is its slot.
//! - [`KeyTree`] is a counted B+ tree of slots in key order. Its leaves have the keys, without the beginning that all
//!   keys of a leaf share. It knows which keys are live, so counting the live keys of any range costs one descent for
//!   each end; and it knows the leaf of each slot, which is the way from a slot back to its key.
//! - [`RevisionLog`] stores the slot of each change, in the order of revisions.
//!
//! After `put a @2`, `put b @3`, `put a @4`, `delete b @5`:
//!
//! ```text
//! KeyTree (key order)       RecordSlab (by slot)                         RevisionLog (by revision)
//! leaf: a -> 0, live        0: newest 4 {version 2}  older [2]           2 -> 0
//!       b -> 1, dead        1: newest 5 {tombstone}  older [3]           3 -> 1
//! leaf of 0, of 1                                                        4 -> 0
//!                                                                        5 -> 1
//! get a at revision 3: tree -> slot 0 -> newest version <= 3 -> version 2
//! events since 4: log entries 4, 5 -> slots 0, 1 -> the versions made at 4 and 5, and from the leaves the keys a, b
//! ```
//!
//! What a key takes that was written once (`tests.rs` holds these to account):
//!
//! ```text
//!                             8 bytes, in order    8 bytes, any order    70 bytes with few beginnings
//! record                                    32                    32                              32
//! place in a leaf                           10                 10-15                           10-15
//! bytes of the key                           1                     1                           12-20
//! leaf of the slot, inner nodes              5                     5                               5
//! entry of the revision log                  4                     4                               4
//! ```
//!
//! Nothing here grows by moving what it has: lists are in chunks, and a split moves half a leaf. So no change holds the
//! lock for long, however many keys there are.
//!
//! A slot is valid as long as its key has any version, thus as long as the revision log names it. No other code keeps a
//! slot across a release of the lock: a walk in steps remembers the *key* at which it stopped ([`walk_chunk`]).
//!
//! The index does not know leases, requests or values: only references to values pass through it.

mod builder;
mod key;
mod key_bytes;
mod key_index;
mod older_versions;
mod packed_version;
mod record;
mod revision_log;
mod slab;
pub(crate) mod steps;
mod tree;
mod version;

#[cfg(test)]
mod tests;

pub(crate) use builder::{BuiltRecords, IndexBuilder};
pub(crate) use key::IndexKey;
pub(crate) use key_bytes::KeyBytes;
#[cfg(doc)]
use key_index::RecordSlab;
pub use key_index::VERSION_OVERHEAD_BYTES;
pub(crate) use key_index::{KeyIndex, walk_chunk, walk_slots};
pub(crate) use record::KeyRecord;
#[cfg(doc)]
use revision_log::RevisionLog;
pub(crate) use revision_log::RevisionLogEntry;
#[cfg(doc)]
use tree::KeyTree;
pub(crate) use tree::{KeyBounds, TreePath};
pub(crate) use version::Version;
