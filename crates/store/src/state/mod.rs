//! The replicated state, and what the writer and the readers share around it.
//!
//! ```text
//! StoreShared ── RwLock<StoreState> ─┬─ KeyIndex       all retained versions of all keys
//!    │                               ├─ Lessor         leases and their keys
//!    ├─ Arc<dyn Values>              ├─ Members        members and cluster version
//!    ├─ pins: revisions in use       ├─ Alarms
//!    ├─ copies of the revisions      ├─ ChangeTracker  what the next delta checkpoint must hold
//!    └─ counters for metrics         └─ revision, compacted, purged, applied id, key hash
//! ```
//!
//! Three revisions bound what a read can see: `purged <= compacted <= revision`. Compaction raises `compacted` at once;
//! purging raises `purged` towards it in small steps, and not beyond a pinned revision.

mod alarms;
mod attached;
mod changes;
mod check;
mod compaction_hash;
mod data_state;
mod members;
mod shared;
mod store_state;

#[cfg(doc)]
pub(crate) use changes::ChangeTracker;
pub(crate) use changes::{ChangesTaken, CheckpointBaseline, TrackedChanges};
pub(crate) use compaction_hash::CompactionHash;
pub use compaction_hash::{KeptHash, MAX_KEPT_HASHES};
pub use data_state::DataState;
pub use members::{ClusterMember, DOWNGRADE_COMMAND_SET, FIRST_COMMAND_SET, MemberChange};
pub use shared::{DEFAULT_SLICE_KEYS, Limits};
pub(crate) use shared::{RevisionPin, StoreCounters, StoreShared};
pub use store_state::StateReplaced;
pub(crate) use store_state::{NEVER_COMPACTED, StoreState};
