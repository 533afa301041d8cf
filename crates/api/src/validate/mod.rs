//! The checks a request must pass before it is served or proposed.
//!
//! They are etcd's: the same errors, in the same order, so that a request with two faults gets the same
//! error. Only the request itself is checked here; what depends on the state (a lease that does not exist, a
//! revision that is compacted) is checked when it is applied. Every function takes a decoded request and
//! never panics, whatever its contents.
//!
//! | request | checked by etcd |
//! |---|---|
//! | range, put, delete, transaction | on arrival, before permissions |
//! | size | when proposed, after the user is known |
//! | lease, user, role, permission | when applied, after permissions; checking on arrival spares the log |
//! | watch | start revision, then permission, then range: hence two functions |

mod auth;
mod kv;
mod lease;
mod overlap;
mod size;
mod watch;

pub use auth::{role_add, role_grant_permission, user_add};
pub use kv::{MAX_TXN_DEPTH, delete_range, put, range, range_stream, txn};
pub use lease::{MAX_LEASE_TTL, lease_grant};
pub use size::{ProposedRequest, RaftField, size};
pub use watch::{watch_key, watch_range, watch_start};

/// Whether the range contains no key. A `range_end` of one zero byte means no end.
fn is_empty_range(key: &[u8], range_end: &[u8]) -> bool {
    const NO_END: &[u8] = &[0];
    !range_end.is_empty() && range_end != NO_END && key >= range_end
}
