//! How a request is carried out: which way to walk, when to stop, what to sort and cut afterwards.

use api::etcdserverpb::RangeRequest;
use api::etcdserverpb::range_request::{SortOrder, SortTarget};

use super::reply::{RangeReply, ReplyOrder};
use crate::types::KvRef;

/// Bounds on mod and create revisions, inclusive; 0 leaves a side open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RevisionFilters {
    min_mod: i64,
    max_mod: i64,
    min_create: i64,
    max_create: i64,
}

impl RevisionFilters {
    fn is_none(&self) -> bool {
        self.min_mod == 0 && self.max_mod == 0 && self.min_create == 0 && self.max_create == 0
    }

    pub(super) fn pass(&self, modified: i64, create: i64) -> bool {
        let within = |value, min, max| (min == 0 || value >= min) && (max == 0 || value <= max);
        within(modified, self.min_mod, self.max_mod) && within(create, self.min_create, self.max_create)
    }
}

/// Derived from a request before the walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangePlan {
    pub(super) filters: RevisionFilters,
    /// Keys after which the walk may stop: one more than the limit, to learn whether there are more.
    pub(super) fetch: usize,
    /// Most keys in the answer; `usize::MAX` without a limit.
    limit: usize,
    /// Whether to walk from the end of the range.
    pub(super) backwards: bool,
    /// What to sort by after the walk, and whether descending.
    sort: Option<(SortTarget, bool)>,
    pub(crate) keys_only: bool,
    pub(crate) count_only: bool,
}

impl RangePlan {
    /// The plan for `request`. Unknown numbers of sort options mean the default.
    pub(crate) fn of(request: &RangeRequest) -> RangePlan {
        let filters = RevisionFilters {
            min_mod: request.min_mod_revision,
            max_mod: request.max_mod_revision,
            min_create: request.min_create_revision,
            max_create: request.max_create_revision,
        };
        let target = SortTarget::try_from(request.sort_target).unwrap_or(SortTarget::Key);
        let order = SortOrder::try_from(request.sort_order).unwrap_or(SortOrder::None);
        let descending = order == SortOrder::Descend;
        let limit = usize::try_from(request.limit).unwrap_or(0);
        let by_key = target == SortTarget::Key;
        let cut_in_key_order = by_key || (order == SortOrder::None && filters.is_none());
        RangePlan {
            filters,
            fetch: if limit == 0 || !cut_in_key_order { usize::MAX } else { limit.saturating_add(1) },
            limit: if limit == 0 { usize::MAX } else { limit },
            backwards: by_key && descending,
            sort: (!by_key).then_some((target, descending)),
            keys_only: request.keys_only,
            count_only: request.count_only,
        }
    }

    /// Whether the walk finds keys in the order of the answer.
    pub(crate) fn is_in_key_order(&self) -> bool {
        self.sort.is_none()
    }

    /// Whether the walk finds each key that exists, up to the limit.
    pub(super) fn finds_all(&self) -> bool {
        self.filters.is_none() && !self.count_only
    }

    /// Most keys that the walk finds; `u64::MAX` if it examines the whole range.
    pub(crate) fn visits(&self) -> u64 {
        if self.filters.is_none() { self.fetch as u64 } else { u64::MAX }
    }

    /// Most keys in the answer; `usize::MAX` without a limit.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether the leases of keys are left out of the answer.
    pub(crate) fn hides_leases(&self) -> bool {
        self.keys_only && !matches!(self.sort, Some((SortTarget::Value, _)))
    }

    /// The answer with the keys that the walk found. Sorts them by a number and cuts them at the limit; those that are
    /// sorted by value stay as they are.
    pub(crate) fn finish(&self, mut kvs: Vec<KvRef>, revision: i64, count: u64) -> RangeReply {
        if self.hides_leases() {
            kvs.iter_mut().for_each(|kv| kv.lease = 0);
        }
        let mut reply = self.finish_unsorted(kvs, revision, count);
        reply.sort_by_number();
        reply
    }

    /// The answer with the keys that the walk found, which are sorted later: takes the same short time however many
    /// there are. The caller has left the leases out, where they [are](Self::hides_leases).
    pub(crate) fn finish_unsorted(&self, mut kvs: Vec<KvRef>, revision: i64, count: u64) -> RangeReply {
        let more = kvs.len() > self.limit;
        let order = self.sort.map(|(by, descending)| {
            let limit = if self.limit == usize::MAX { 0 } else { self.limit };
            ReplyOrder { by, descending, limit }
        });
        if order.is_none() {
            kvs.truncate(self.limit);
        }
        let keys_only = self.keys_only;
        RangeReply { revision, kvs, more, count: count as i64, keys_only, order }
    }
}
