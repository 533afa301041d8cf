//! etcd's v3 API as Rust types: requests, responses, errors, and the checks of requests.
//!
//! - [`etcdserverpb`], [`mvccpb`], [`authpb`], [`membershippb`], [`v3electionpb`], [`v3lockpb`]:
//!   the messages, generated from `proto/` by `cargo xtask codegen` and committed. Names, numbers
//!   and types are contract: `tests/contract/messages.tsv` lists them and `tests/messages.rs`
//!   checks.
//! - [`stelepb`]: the same for what etcd does not have, which is ours to change.
//! - [`methods`]: the path of every rpc; [`routes`]: the paths of the JSON gateway; [`DESCRIPTORS`]: what the
//!   messages look like, for code that learns it at run time.
//! - [`Error`]: every error that a client can receive, with gRPC code and exact text.
//! - [`prefix_end`]: the end of a range of keys with one beginning.
//! - [`validate`]: the checks a request must pass before it is proposed or served.
//! - [`version`]: the versions of etcd that this release claims to be.
//!
//! All `bytes` fields are [`bytes::Bytes`]. A message decoded from a `Bytes` shares its memory, so a value
//! is not copied between the connection and the log:
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
//! Enum fields are `i32`, as in prost: a number that this version does not know is preserved, and
//! interpreted where it is used.
//!
//! This crate knows no storage, consensus, threads or servers, and no gRPC library, so the deterministic
//! crates can use it.

mod error;
mod key_range;
pub mod validate;
pub mod version;

pub use error::{Code, Error};
pub use key_range::{TO_THE_END, prefix_end};

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
    /// What etcd has no method for: the Admin service.
    stelepb
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

/// The paths of the JSON gateway.
pub mod routes {
    include!("generated/routes.rs");
}

/// The descriptors of all services and of the messages they use: an encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
