//! A transaction must not change a key twice.
//!
//! A transaction is one revision, and a key has one version per revision. So the puts and deletions of a
//! branch, including nested transactions, must not touch the same key, except that the two branches of a
//! nested transaction exclude each other. The order of the checks is etcd's, and so are two exceptions that
//! clients may rely on:
//!
//! - Deletions may overlap each other, and a nested put may be followed by a deletion of its key in
//!   a *later* nested transaction; the other way round it is refused.
//! - A deletion of all keys from one on (`range_end` of one zero byte) is compared as the range it
//!   literally is, which is empty, and so never collides.
//!
//! The store must therefore be able to apply a transaction that changes a key twice.
//!
//! The caller bounds the recursion: it has checked the depth. Time is O(n log n) for each level, for any
//! ranges.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::etcdserverpb::request_op::Request;
use crate::etcdserverpb::{DeleteRangeRequest, RequestOp};

#[cfg(test)]
mod tests;

/// Checks one branch of a transaction. The operations must have passed their own checks.
///
/// # Errors
/// [`Error::DuplicateKey`]
pub(super) fn check(branch: &[RequestOp]) -> Result<(), Error> {
    match branch {
        // By far the most common case. It cannot collide, so no sets are built.
        [] => Ok(()),
        [single] if !matches!(single.request, Some(Request::RequestTxn(_))) => Ok(()),
        _ => Changes::of(branch).map(|_| ()),
    }
}

/// The keys and ranges that a branch changes.
#[derive(Default)]
struct Changes<'a> {
    puts: BTreeSet<&'a [u8]>,
    deletions: Deletions<'a>,
}

impl<'a> Changes<'a> {
    fn of(branch: &'a [RequestOp]) -> Result<Self, Error> {
        let mut changes = Changes::default();
        for op in branch {
            if let Some(Request::RequestDeleteRange(request)) = &op.request {
                changes.deletions.insert(request);
            }
        }
        for op in branch {
            if let Some(Request::RequestTxn(nested)) = &op.request {
                let mut either = Changes::of(&nested.success)?;
                either.merge(Changes::of(&nested.failure)?);
                changes.add_nested(either)?;
            }
        }
        for op in branch {
            if let Some(Request::RequestPut(request)) = &op.request {
                changes.refuse(&request.key)?;
                changes.puts.insert(&request.key);
            }
        }
        Ok(changes)
    }

    fn add_nested(&mut self, nested: Changes<'a>) -> Result<(), Error> {
        nested.puts.iter().try_for_each(|key| self.refuse(key))?;
        self.merge(nested);
        Ok(())
    }

    fn refuse(&self, key: &[u8]) -> Result<(), Error> {
        if self.puts.contains(key) || self.deletions.cover(key) { Err(Error::DuplicateKey) } else { Ok(()) }
    }

    /// Merges the smaller set into the larger, so that deep nesting does not move every key at each level.
    fn merge(&mut self, mut other: Changes<'a>) {
        if self.puts.len() < other.puts.len() {
            std::mem::swap(&mut self.puts, &mut other.puts);
        }
        self.puts.extend(other.puts);
        if self.deletions.len() < other.deletions.len() {
            std::mem::swap(&mut self.deletions, &mut other.deletions);
        }
        self.deletions.merge(other.deletions);
    }
}

/// A set of deleted keys and ranges.
#[derive(Default)]
struct Deletions<'a> {
    keys: BTreeSet<&'a [u8]>,
    /// Begin to end; not empty, and disjoint: overlapping ranges are joined on insertion.
    ranges: BTreeMap<&'a [u8], &'a [u8]>,
}

impl<'a> Deletions<'a> {
    fn insert(&mut self, request: &'a DeleteRangeRequest) {
        if request.range_end.is_empty() {
            self.keys.insert(&request.key);
        } else if request.key < request.range_end {
            self.insert_range(&request.key, &request.range_end);
        }
    }

    fn insert_range(&mut self, begin: &'a [u8], end: &'a [u8]) {
        let (mut begin, mut end) = (begin, end);
        // From the right: each range that begins at or before `end` and reaches `begin`.
        while let Some((&other_begin, &other_end)) = self.ranges.range(..=end).next_back() {
            if other_end < begin {
                break;
            }
            self.ranges.remove(other_begin);
            begin = begin.min(other_begin);
            end = end.max(other_end);
        }
        self.ranges.insert(begin, end);
    }

    fn cover(&self, key: &[u8]) -> bool {
        self.keys.contains(key) || self.ranges.range(..=key).next_back().is_some_and(|(_, &end)| key < end)
    }

    fn len(&self) -> usize {
        self.keys.len() + self.ranges.len()
    }

    fn merge(&mut self, other: Deletions<'a>) {
        self.keys.extend(other.keys);
        for (begin, end) in other.ranges {
            self.insert_range(begin, end);
        }
    }
}
