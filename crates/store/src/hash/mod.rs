//! Two hashes over versions of keys.
//!
//! - The [state hash](state_hash) covers the newest version of every live key and the small state. It is Stele's own,
//!   is maintained with each change, and is compared between members continuously.
//! - The [version hash](version_hash) covers versions as etcd's database encodes them. It is the checksum that HashKV
//!   answers with, computed on request.

mod state_hash;
mod version_hash;

pub(crate) use state_hash::{PartHasher, PartKind, key_hash};
pub(crate) use version_hash::VersionHash;
