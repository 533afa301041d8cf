//! Clusters of members in one thread, over disks in memory.

mod hostile;
mod leading;
mod leases;
mod process_runs;
mod repair;
mod rig;
mod snapshots;
mod space;
