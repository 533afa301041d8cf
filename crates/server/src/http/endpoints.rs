//! What the handlers share, and what they read from a member.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use api::etcdserverpb::{AlarmType, Member};

use crate::auth::Credentials;
use crate::metrics::{GaugeSource, Metrics};

/// A future of a trait object.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the endpoints read from a member. Errors are texts for people, etcd's where they exist.
pub(crate) trait Health: Send + Sync + 'static {
    /// Waits until a linearizable read would be served; bounded by the request timeout.
    fn linearizable_read(&self) -> BoxFuture<'_, Result<(), String>>;
    /// Waits until a serializable read would be served.
    fn serializable_read(&self) -> BoxFuture<'_, Result<(), String>>;
    /// Whether a leader is known.
    fn has_leader(&self) -> bool;
    /// Whether this member is a learner.
    fn is_learner(&self) -> bool;
    /// Kinds of the active alarms, of all members.
    fn alarms(&self) -> Vec<AlarmType>;
    /// All members, by id.
    fn members(&self) -> Vec<Member>;
    /// Makes a learner a voter, if the caller may; returns all members then.
    fn promote(&self, id: u64, credentials: Credentials) -> BoxFuture<'_, Result<Vec<Member>, api::Error>>;
    /// Id of the cluster.
    fn cluster_id(&self) -> u64;
    /// Lineage of the cluster; 0 if it was never forced.
    fn lineage(&self) -> u64;
    /// Version of the cluster, `3.7.0`; none before it is decided.
    fn cluster_version(&self) -> Option<String>;
    /// Version of the storage, `3.7.0`; none before it is known.
    fn storage_version(&self) -> Option<String>;
    /// Whether a downgrade is under way.
    fn is_downgrading(&self) -> bool;
    /// etcd's hash of everything up to a revision (0: the newest).
    fn hash_kv(&self, revision: i64) -> BoxFuture<'_, Result<HashKvResult, String>>;
}

/// The result of [`Health::hash_kv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashKvResult {
    /// The hash.
    pub hash: u32,
    /// Revision below which history was gone.
    pub compact_revision: i64,
    /// Revision that was hashed.
    pub hash_revision: i64,
    /// Newest revision.
    pub revision: i64,
}

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Endpoints {
    /// The member.
    pub health: Arc<dyn Health>,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    /// The states among its metrics.
    pub source: Arc<dyn GaugeSource>,
}
