//! Replication: what waits for this member's disk, and what a leader sends to each peer.

mod inflight;
mod lagging;
mod lost_appends;
mod progress;
mod stalled_disk;
mod unsynced_writes;

pub(crate) use inflight::InflightWindows;
pub use inflight::{MAX_INFLIGHT_BYTES, MAX_INFLIGHT_MESSAGES};
pub(crate) use lagging::{offer_snapshot, send_fetched};
pub(crate) use lost_appends::{probe_after_heartbeat, resume_after_probe};
pub(crate) use progress::peers;
pub use progress::{PeerState, PeerStatus};
pub use stalled_disk::StalledWrite;
pub(crate) use stalled_disk::{StalledDisk, StalledDiskAction, stalled_write, transfer_target};
pub(crate) use unsynced_writes::UnsyncedWrites;
pub use unsynced_writes::Write;
