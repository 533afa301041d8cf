//! The versions we claim to be, because clients and tools decide by them what they may ask.
//!
//! They are etcd's, whose API this is. Stele's own version is that of its packages.

/// Release of etcd whose behaviour we offer: `Status.version`, and `etcdserver` of `/version`.
pub const ETCD_VERSION: &str = "3.7.3";

/// Version of the cluster once all its members run this release: `etcdcluster` of `/version`.
pub const CLUSTER_VERSION: &str = "3.7.0";

/// `Status.storageVersion`, and `storage` of `/version`.
pub const STORAGE_VERSION: &str = "3.7.0";
