//! What records of etcd's write-ahead log hold.
//!
//! Fields of numbers are written also if they are 0, and lists number by number, as etcd does. A field that is missing
//! is read as 0.

use bytes::Bytes;
use dbfile::records::ConfStateRecord;
use prost::Message;

/// An entry: `raftpb.Entry`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::etcd) struct WalEntry {
    /// 0 a request, 1 and 2 conf changes.
    #[prost(int32, tag = "1")]
    pub(in crate::etcd) kind: i32,
    #[prost(uint64, tag = "2")]
    pub(in crate::etcd) term: u64,
    #[prost(uint64, tag = "3")]
    pub(in crate::etcd) index: u64,
    #[prost(bytes = "bytes", tag = "4")]
    pub(in crate::etcd) data: Bytes,
}

/// Whose log it is: `etcdserverpb.Metadata`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(in crate::etcd) struct WalMetadata {
    #[prost(uint64, required, tag = "1")]
    pub(in crate::etcd) member_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub(in crate::etcd) cluster_id: u64,
}

/// Who votes: `raftpb.ConfState`, without what etcd does not use.
#[derive(Clone, PartialEq, Eq, Message)]
pub(in crate::etcd) struct WalConfState {
    #[prost(uint64, repeated, packed = "false", tag = "1")]
    pub(in crate::etcd) voters: Vec<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(in crate::etcd) learners: Vec<u64>,
    #[prost(bool, required, tag = "5")]
    pub(in crate::etcd) auto_leave: bool,
}

impl From<&ConfStateRecord> for WalConfState {
    fn from(conf: &ConfStateRecord) -> WalConfState {
        WalConfState { voters: conf.voters.clone(), learners: conf.learners.clone(), auto_leave: false }
    }
}

/// A snapshot that the log mentions: `walpb.Snapshot`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(in crate::etcd) struct WalSnapshot {
    #[prost(uint64, required, tag = "1")]
    pub(in crate::etcd) index: u64,
    #[prost(uint64, required, tag = "2")]
    pub(in crate::etcd) term: u64,
    /// Since etcd 3.5.
    #[prost(message, optional, tag = "3")]
    pub(in crate::etcd) conf_state: Option<WalConfState>,
}

/// A hard state: `raftpb.HardState`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(in crate::etcd) struct WalHardState {
    #[prost(uint64, required, tag = "1")]
    pub(in crate::etcd) term: u64,
    #[prost(uint64, required, tag = "2")]
    pub(in crate::etcd) vote: u64,
    #[prost(uint64, required, tag = "3")]
    pub(in crate::etcd) commit: u64,
}
