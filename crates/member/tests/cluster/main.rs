//! Clusters of members in one thread, over disks in memory.

mod background;
mod compares;
mod contents;
mod departures;
mod divergence;
mod downgrade;
mod failover;
mod first_starts;
mod forced;
mod full_disk;
mod hostile;
mod introductions;
mod leading;
mod leases;
mod membership;
mod memory;
mod merges;
mod process_runs;
mod recovery;
mod repair;
mod requests;
mod rig;
mod scrub;
mod slices;
mod snapshots;
mod space;
