//! The disk as the log sees it: a handful of synchronous file operations behind two traits.
//!
//! The caller passes a [`Disk`] to the log. The product passes [`RealDisk`]; tests and the simulator pass [`MemDisk`],
//! which distinguishes synced from unsynced changes and can lose, tear or flip bytes, run full, or fail an operation.
//!
//! What an implementation guarantees:
//! - a write is durable only after `sync_data` of its file returned;
//! - a name (created, renamed, removed) is durable only after `sync_dir` of its directory returned;
//! - a rename replaces its target atomically; an open file stays readable after its name is removed.
//!
//! ```text
//!   create_new("7.new")  write_at  sync_data          contents durable; the name may still be lost
//!   rename("7.new" -> "7.seg")                        both names are possible after a power loss
//!   sync_dir(".")                                     "7.seg" is durable, and it is whole
//! ```

mod interface;
mod mem_disk;
mod mem_inode;
mod mem_state;
mod real;

pub use interface::{Disk, File, LockError, LockGuard};
pub use mem_disk::MemDisk;
pub use mem_inode::Unsynced;
pub use mem_state::{Fault, Operation};
pub use real::RealDisk;
