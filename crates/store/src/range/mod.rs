//! Ranges: what a request selects, and in which order.
//!
//! etcd gets all keys, then filters, then sorts, then cuts at the limit. Here the same result is had with
//! less work: a walk in key order, from either end, stops at the limit, and only sorting by something else
//! needs all of the range. [`Shape`] is that decision. Two of etcd's habits are kept because clients can see
//! them:
//!
//! - A sort target without an order sorts ascending, but *after* the limit has cut the list in key order.
//! - With `keys_only`, leases are left out unless the target is VALUE.
//!
//! Sorting by value needs the values, which are not here: the reply says what is left to do, and
//! [`resolve`](crate::resolve()) does it.

pub(crate) mod count;
mod select;

#[cfg(test)]
mod tests;

use api::Error;
use api::etcdserverpb::RangeRequest;
use api::etcdserverpb::range_request::{SortOrder, SortTarget};

pub(crate) use select::{Findings, Selection, kv_ref, lone};

use crate::index::tree::Bounds;
use crate::types::{KeyRange, KvRef};

/// The answer to a range, without values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeReply {
    /// The revision of the header: that of the store, not the one asked for.
    pub revision: i64,
    /// The keys, in the order of the answer unless [`by_value`](Self::by_value) says otherwise.
    pub kvs: Vec<KvRef>,
    /// Whether the limit cut some off.
    pub more: bool,
    /// Keys in the range at the asked revision, whatever limit and filters say.
    pub count: i64,
    /// Whether values are left out.
    pub keys_only: bool,
    /// When set, `kvs` is still to be sorted by value, then cut.
    pub by_value: Option<ByValue>,
}

/// Sorting by value, left to whoever reads the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByValue {
    /// From the greatest down.
    pub descending: bool,
    /// Keys to keep; 0 for all.
    pub limit: usize,
}

impl KeyRange {
    /// The range as request fields name it.
    pub(crate) fn bounds(&self) -> Bounds<'_> {
        bounds(&self.start, &self.end)
    }
}

/// Resolves the special end `\0`. A range with an empty end is a single key, which is [looked up](lone)
/// instead.
pub(crate) fn bounds<'a>(start: &'a [u8], end: &'a [u8]) -> Bounds<'a> {
    debug_assert!(!end.is_empty(), "a single key is looked up, not walked to");
    Bounds { start, end: (end != [0]).then_some(end) }
}

/// Which versions pass by their revisions; 0 leaves a side open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filters {
    min_mod: i64,
    max_mod: i64,
    min_create: i64,
    max_create: i64,
}

impl Filters {
    fn is_none(&self) -> bool {
        self.min_mod == 0 && self.max_mod == 0 && self.min_create == 0 && self.max_create == 0
    }

    fn pass(&self, modified: i64, create: i64) -> bool {
        let within = |value, min, max| (min == 0 || value >= min) && (max == 0 || value <= max);
        within(modified, self.min_mod, self.max_mod) && within(create, self.min_create, self.max_create)
    }
}

/// How a request is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    filters: Filters,
    /// Keys after which the walk may stop: one more than the limit, to know whether there are more.
    fetch: usize,
    /// Keys in the answer.
    limit: usize,
    /// Walk from the end of the range.
    backwards: bool,
    /// What to sort by after the walk, and whether descending.
    sort: Option<(SortTarget, bool)>,
    pub(crate) keys_only: bool,
    pub(crate) count_only: bool,
}

impl Shape {
    /// The shape of `request`. Numbers of sort options that nobody defined mean the default.
    pub(crate) fn of(request: &RangeRequest) -> Shape {
        let filters = Filters {
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
        Shape {
            filters,
            fetch: if limit == 0 || !cut_in_key_order { usize::MAX } else { limit.saturating_add(1) },
            limit: if limit == 0 { usize::MAX } else { limit },
            backwards: by_key && descending,
            sort: (!by_key).then_some((target, descending)),
            keys_only: request.keys_only,
            count_only: request.count_only,
        }
    }

    /// Whether the order of the answer is that of the walk.
    pub(crate) fn is_in_key_order(&self) -> bool {
        self.sort.is_none()
    }

    /// Keys the answer may have.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Sorts and cuts what the walk found.
    pub(crate) fn finish(&self, mut kvs: Vec<KvRef>, revision: i64, count: u64) -> RangeReply {
        let mut by_value = None;
        match self.sort {
            Some((SortTarget::Value, descending)) => {
                let limit = if self.limit == usize::MAX { 0 } else { self.limit };
                by_value = Some(ByValue { descending, limit });
            }
            Some((target, descending)) => sort(&mut kvs, target, descending),
            None => {}
        }
        let more = kvs.len() > self.limit;
        if by_value.is_none() {
            kvs.truncate(self.limit);
        }
        if self.keys_only && by_value.is_none() {
            kvs.iter_mut().for_each(|kv| kv.lease = 0);
        }
        let keys_only = self.keys_only;
        RangeReply { revision, kvs, more, count: count as i64, keys_only, by_value }
    }
}

/// Sorts by a number; keys that have the same stay in key order.
fn sort(kvs: &mut [KvRef], target: SortTarget, descending: bool) {
    let number = |kv: &KvRef| match target {
        SortTarget::Version => kv.version,
        SortTarget::Create => kv.create_revision,
        _ => kv.mod_revision.main,
    };
    kvs.sort_by(|a, b| {
        let order = number(a).cmp(&number(b));
        if descending { order.reverse() } else { order }
    });
}

/// Checks the revision a range asks for, outside of a transaction, and resolves "now".
///
/// # Errors
/// [`Error::FutureRevision`], [`Error::Compacted`]
pub(crate) fn check_revision(asked: i64, current: i64, compacted: i64) -> Result<i64, Error> {
    if asked > current {
        return Err(Error::FutureRevision);
    }
    let revision = if asked <= 0 { current } else { asked };
    if revision < compacted {
        return Err(Error::Compacted);
    }
    Ok(revision)
}

/// Checks the revision a range in a transaction asks for. Unlike outside of one, a negative revision is one
/// that has been compacted, save that -1 is allowed where nothing has been: etcd compares it with its mark
/// for "never". What is allowed and not positive means "now".
///
/// # Errors
/// [`Error::FutureRevision`], [`Error::Compacted`]
pub(crate) fn check_revision_in_txn(asked: i64, current: i64, compacted: i64) -> Result<(), Error> {
    if asked > current {
        return Err(Error::FutureRevision);
    }
    if asked != 0 && asked < compacted {
        return Err(Error::Compacted);
    }
    Ok(())
}
