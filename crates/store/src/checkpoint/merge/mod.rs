//! Merging: checkpoints that follow each other, as one sequence of keys. A restart builds the index from it, and one
//! checkpoint takes the place of several.
//!
//! | file | does |
//! |---|---|
//! | `contents` | opens a checkpoint, and reads its sections side by side |
//! | `decoded_keys` | the keys of a frame, decoded |
//! | `key_merge` | merges what several say about each key |
//! | `merged_checkpoint` | writes the result as a checkpoint |

mod contents;
mod decoded_keys;
mod key_merge;
mod merged_checkpoint;

pub(super) use contents::{CheckpointContents, LeaseEntry, read_leases};
pub(super) use decoded_keys::{DecodedKeys, OUT_OF_ORDER};
pub(super) use key_merge::{Merge, MergedKey};
pub use merged_checkpoint::MergedCheckpoint;
