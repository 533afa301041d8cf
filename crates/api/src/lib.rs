//! etcd's v3 API as Rust types: what clients say, what they are answered, and when they are told
//! that they asked wrongly.
//!
//! - [`etcdserverpb`], [`mvccpb`], [`authpb`], [`membershippb`], [`v3electionpb`], [`v3lockpb`]:
//!   the messages, generated from `proto/` by `cargo xtask codegen` and committed. Names, numbers
//!   and types are contract: `tests/contract/messages.tsv` lists them and `tests/messages.rs`
//!   checks.
//! - [`methods`]: the path of every rpc.
//! - [`Error`]: every error a client can meet, by gRPC code and exact text.
//! - [`validate`]: the checks a request must pass before it is proposed or served.
//! - [`version`]: the versions we claim to be.
//!
//! All `bytes` fields are [`bytes::Bytes`]. A message decoded from a `Bytes` shares its memory, so
//! a value is copied neither on the way in nor on the way to the log:
//!
//! ```
//! use prost::Message;
//!
//! let put = api::etcdserverpb::PutRequest { key: "k".into(), value: "v".into(), ..Default::default() };
//! api::validate::put(&put)?;
//! let wire = bytes::Bytes::from(put.encode_to_vec());
//! assert_eq!(api::etcdserverpb::PutRequest::decode(wire).as_ref(), Ok(&put));
//! # Ok::<(), api::Error>(())
//! ```
//!
//! Enum fields are `i32`, as prost has them: a number this version does not know must survive, and
//! what it means is decided where it is used.
//!
//! This crate knows nothing of storage, consensus, threads or servers, nor of any gRPC library,
//! which is what lets the deterministic crates use it.

mod error;
pub mod validate;

pub use error::{Code, Error};

/// Declares the module of one protobuf package.
macro_rules! package {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[allow(missing_docs, unreachable_pub, clippy::all, clippy::too_many_lines, rustdoc::all)]
        pub mod $name {
            include!(concat!("generated/", stringify!($name), ".rs"));
        }
    };
}

package!(
    /// Users, roles and permissions.
    authpb
);
package!(
    /// Key-value pairs and events.
    mvccpb
);
package!(
    /// Members and versions of the cluster.
    membershippb
);
package!(
    /// The six services of the v3 API: KV, Watch, Lease, Cluster, Maintenance and Auth.
    etcdserverpb
);
package!(
    /// The election service.
    v3electionpb
);
package!(
    /// The lock service.
    v3lockpb
);

/// The path of every rpc, as HTTP/2 and metrics name it.
pub mod methods {
    include!("generated/methods.rs");
}

/// The versions that this release claims to be. Clients and tools decide by them which requests to send.
///
/// They are etcd's, whose API this is. Stele's own version is that of its packages.
pub mod version {
    /// Release of etcd whose behaviour we offer: `Status.version`, and `etcdserver` of `/version`.
    pub const ETCD_VERSION: &str = "3.7.3";

    /// Version of the cluster once all its members run this release: `etcdcluster` of `/version`.
    pub const CLUSTER_VERSION: &str = "3.7.0";

    /// `Status.storageVersion`, and `storage` of `/version`.
    pub const STORAGE_VERSION: &str = "3.7.0";
}
