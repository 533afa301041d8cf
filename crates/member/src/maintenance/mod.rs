//! Periodic work that keeps a member small and quick to restart. Each concern is a component of its own.
//!
//! | file | concern |
//! |---|---|
//! | `activity` | whether the member is idle |
//! | `checkpoints` | when a checkpoint is due, and whether it is a base or a delta |
//! | `purge` | compacted history leaves memory, in small steps |
//! | `seal` | an idle log is sealed, so that recovery need not guess where it ended |
//! | `state_hashes` | state hashes compared with the peers |
//! | `alarms` | alarms this member raises; whether the store may grow |
//! | `backup_reads` | entries that a backup has still to read stay in the log |
//! | `log_room` | who may use how much of the log's room, and what waits for more |
//! | `memory` | what is accounted as memory, and when that is too much |
//! | `cluster_version` | the cluster version, in step with a downgrade |
//! | `publication` | this member's name and client URLs, published through the log |
//!
//! None of it is urgent: each step is short, and long work is a background job.

pub(crate) mod activity;
pub(crate) mod alarms;
pub(crate) mod backup_reads;
pub(crate) mod checkpoints;
pub(crate) mod cluster_version;
pub(crate) mod log_room;
pub(crate) mod memory;
pub mod publication;
pub(crate) mod purge;
pub(crate) mod seal;
pub(crate) mod state_hashes;
