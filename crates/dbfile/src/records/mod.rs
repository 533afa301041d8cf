//! What etcd 3.7 puts into the buckets.
//!
//! | bucket | key | value |
//! |---|---|---|
//! | `alarm` | `AlarmMember`, encoded | empty |
//! | `auth` | `authEnabled`, `authRevision` | a byte, 0 or 1; a number |
//! | `authRoles`, `authUsers` | the name | `authpb.Role`, `authpb.User`, encoded |
//! | `cluster` | `clusterVersion`, `downgrade` | `3.7.0`; JSON |
//! | `key` | the [revision](RevisionKey) | `mvccpb.KeyValue`, encoded; of a tombstone with its key alone |
//! | `lease` | the id | `leasepb.Lease`, encoded |
//! | `members` | the id, in hexadecimal | JSON |
//! | `members_removed` | the id, in hexadecimal | `removed` |
//! | `meta` | `consistent_index`, `term` | numbers |
//! | | `confState`, `storageVersion` | JSON; `3.7.0` |
//! | | `scheduledCompactRev`, `finishedCompactRev` | revisions |
//!
//! Numbers take 8 bytes and are big-endian, so that their order is that of the bytes. A negative id follows the
//! positive ones.
//!
//! Versions come one by one, because there may be millions: [`VersionRecord`] writes one, [`Versions`] reads them. All
//! else is a [`SmallRecords`].

mod cluster_json;
mod small;
mod small_read;
mod version;

pub use cluster_json::{ConfStateRecord, DowngradeRecord, MemberRecord};
pub use small::{AppliedEntry, LeaseRecord, SmallRecords};
pub use version::{RevisionKey, VersionRecord, Versions};

/// Names of the buckets, in the order in which a file has them.
pub const BUCKETS: [&str; 10] = [
    "alarm",
    "auth",
    "authRoles",
    "authUsers",
    "cluster",
    KEY_BUCKET,
    "lease",
    "members",
    "members_removed",
    "meta",
];

/// The bucket of versions.
pub const KEY_BUCKET: &str = "key";
