//! Clusters of members in one thread, over disks in memory.

mod healing;
mod leading;
mod rig;
mod snapshots;
mod space;
