//! The answer to a range, before its values are read.
//!
//! It is made while the lock is held or a revision is pinned, and its references are resolved after.

use api::etcdserverpb::range_request::SortTarget;

use crate::types::KvRef;

/// The answer to a range, with references in place of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeReply {
    /// The revision for the header: that of the store, not the requested one.
    pub revision: i64,
    /// The keys; in the order of the answer, unless [`order`](Self::order) is set.
    pub kvs: Vec<KvRef>,
    /// Whether the limit cut keys off.
    pub more: bool,
    /// The number of keys in the range at the requested revision, regardless of limit and filters.
    pub count: i64,
    /// Whether the answer omits values.
    pub keys_only: bool,
    /// If set, `kvs` must still be sorted, and then cut.
    pub order: Option<ReplyOrder>,
}

/// The order of an answer, made without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyOrder {
    /// What to sort by. By value, once the values are read.
    pub by: SortTarget,
    /// Whether from the greatest down.
    pub descending: bool,
    /// Keys to keep; 0 for all.
    pub limit: usize,
}

impl RangeReply {
    /// Whether the keys must still be sorted by their values.
    pub fn is_sorted_by_value(&self) -> bool {
        self.order.is_some_and(|order| order.by == SortTarget::Value)
    }

    /// Sorts the keys by a number and cuts them, if they must still be. Keys with equal numbers stay in key order.
    pub fn sort_by_number(&mut self) {
        let Some(order) = self.order.filter(|order| order.by != SortTarget::Value) else { return };
        let number = |kv: &KvRef| match order.by {
            SortTarget::Version => kv.version,
            SortTarget::Create => kv.create_revision,
            _ => kv.mod_revision.main,
        };
        self.kvs.sort_by(|a, b| {
            let ascending = number(a).cmp(&number(b));
            if order.descending { ascending.reverse() } else { ascending }
        });
        if order.limit > 0 {
            self.kvs.truncate(order.limit);
        }
        self.order = None;
    }
}
