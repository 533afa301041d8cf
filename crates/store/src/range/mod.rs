//! Ranges: which keys a request selects, in which order, and the encoded answer.
//!
//! etcd collects all keys of the range, then filters, sorts, and cuts at the limit. The same answer needs less work
//! here: a walk in key order, from either end, stops at the limit, and only sorting by something else needs the whole
//! range. [`RangePlan`] makes that decision:
//!
//! ```text
//! range [a, z), limit 2, sort by KEY descending
//!   plan: walk from the end, stop after 3 keys (one more, to know `more`), no sort
//! range [a, z), limit 2, sort by MOD descending
//!   plan: walk all keys, sort by mod revision, cut at 2
//! ```
//!
//! Two habits of etcd are kept because clients can observe them:
//!
//! - A sort target without a sort order sorts ascending, but *after* the limit has cut the keys in key order.
//! - With `keys_only`, leases are omitted unless the target is VALUE.
//!
//! Sorting by value needs the values, which are not here: the reply says what is left to do, and
//! [`resolve`](crate::resolve()) does it. So does it for a range of a transaction, which is found under the write lock.
//!
//! | file | does |
//! |---|---|
//! | `request` | resolves and checks the range and revision of a request |
//! | `plan` | decides on direction, stop, sort |
//! | `select` | walks the index in chunks, into a `sink` |
//! | `sink` | keeps the versions that a walk finds, or only their lengths |
//! | `count` | counts the keys of a range at any revision |
//! | `known_counts` | counts that the pages of a list have in common |
//! | `reply` | the answer, with references in place of values |
//! | `encode` | the answer as the bytes of a `RangeResponse` |

mod count;
pub(crate) mod encode;
mod known_counts;
mod plan;
mod reply;
mod request;
mod select;
mod sink;

#[cfg(test)]
mod tests;

pub(crate) use count::RangeCount;
pub use encode::{ChunkSink, NextChunk};
pub(crate) use known_counts::KnownCounts;
pub(crate) use plan::RangePlan;
pub use reply::{RangeReply, ReplyOrder};
pub(crate) use request::{bounds, check_revision, check_revision_in_txn};
pub(crate) use select::{RangeSelection, select_key};
pub(crate) use sink::{RangeSink, kv_ref};
