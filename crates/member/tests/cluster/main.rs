//! Clusters of members in one thread, over disks in memory.

mod leading;
mod leases;
mod process_runs;
mod repair;
mod rig;
mod snapshots;
mod space;
