//! The answer to a range, before its values are read.
//!
//! It is made while the lock is held or a revision is pinned, and its references are resolved after.

use crate::types::KvRef;

/// The answer to a range, with references in place of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeReply {
    /// The revision for the header: that of the store, not the requested one.
    pub revision: i64,
    /// The keys; in the order of the answer, unless [`by_value`](Self::by_value) is set.
    pub kvs: Vec<KvRef>,
    /// Whether the limit cut keys off.
    pub more: bool,
    /// The number of keys in the range at the requested revision, regardless of limit and filters.
    pub count: i64,
    /// Whether the answer omits values.
    pub keys_only: bool,
    /// If set, `kvs` must still be sorted by value and then cut.
    pub by_value: Option<ByValue>,
}

/// Sorting by value, which the caller does once it has read the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByValue {
    /// Whether from the greatest down.
    pub descending: bool,
    /// Keys to keep; 0 for all.
    pub limit: usize,
}
