//! Reading, from any thread.
//!
//! Every read holds the index lock for a bounded number of keys. A read that needs more pins its revision, releases the
//! lock between chunks and continues: a pinned revision is not purged, so the chunks fit together. A read of the newest
//! revision that fits into one chunk, as nearly all do, takes no pin. `pinned` says what happens when a snapshot
//! replaces the state between two chunks.
//!
//! | file | answers |
//! |---|---|
//! | `handle` | what a single hold of the lock answers: status, leases, members, alarms, counts |
//! | `range` | `Range` with references, and counts |
//! | `encode_range` | `Range` as encoded bytes, in chunks |
//! | `stream` | `RangeStream` |
//! | `txn` | transactions that only read |
//! | `events` | the events of the past ([`History`](crate::watch::History)) |
//! | `lease_keys` | the keys of a lease |
//! | `lease_access` | whether a caller may renew or list leases |
//! | `versions`, `hash_kv` | all retained versions in order, for HashKV and backups, and their hash |
//! | `auth` | who a caller is, and what it may do |
//! | `pinned` | a revision that is read in several holds |
//! | `references` | the references to values, for relocation and repair |

mod auth;
mod encode_range;
mod events;
mod handle;
mod hash_kv;
mod lease_access;
mod lease_keys;
mod pinned;
mod range;
mod references;
mod stream;
mod txn;
mod versions;

#[cfg(test)]
mod tests;

pub use handle::{Reader, StoreCounts};
pub use hash_kv::{CompactionHashScan, HashKvReply, HashKvScan};
pub use lease_access::LeaseAccess;
pub use lease_keys::LeaseKeyScan;
pub use references::{Reference, VersionPosition};
pub use stream::{RangeStream, StreamChunk};
pub use txn::ReadTxn;
pub use versions::{CapturedState, RetainedVersion, VersionWalk};
