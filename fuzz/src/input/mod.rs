//! From the bytes of an input to what the targets feed: scripts, disk images, members, checkpoints with valid hashes.

mod bounded;
pub mod fixture;
pub mod image;
pub mod script;
pub mod state_hash;
