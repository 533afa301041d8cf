//! Clusters of members in one thread, over disks in memory.

mod compares;
mod full_disk;
mod hostile;
mod leading;
mod leases;
mod membership;
mod memory;
mod merges;
mod process_runs;
mod recovery;
mod repair;
mod rig;
mod slices;
mod snapshots;
mod space;
