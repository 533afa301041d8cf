//! Clusters of members in one thread, over disks in memory.

mod rig;
mod snapshots;
