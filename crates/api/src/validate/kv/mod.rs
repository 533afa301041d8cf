//! Requests of the KV service.

use super::overlap;
use crate::Error;
use crate::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::etcdserverpb::request_op::Request;
use crate::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};

#[cfg(test)]
mod tests;

/// How many transactions may lie inside one another, not counting the outermost.
///
/// prost stops decoding at 100 nested messages. A nested transaction costs two levels, in the
/// request (operation, transaction) as in the response, where the pairs read by the innermost one
/// lie three levels below it. 48 is the most whose answer a client built on prost can decode too,
/// and it leaves a level for an envelope around the request. So whatever passes here can be
/// decoded again by every reader of the log. etcd bounds the depth only by `--max-txn-ops`, and
/// gives the same error.
pub const MAX_TXN_DEPTH: usize = 48;

/// Checks a read.
///
/// # Errors
/// [`Error::EmptyKey`], [`Error::InvalidSortOption`]
pub fn range(request: &RangeRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if !SortOrder::is_valid(request.sort_order) || !SortTarget::is_valid(request.sort_target) {
        return Err(Error::InvalidSortOption);
    }
    Ok(())
}

/// Checks a streamed read, which must come in the order of the keys and without filters.
///
/// # Errors
/// As [`range`]; [`Error::StreamSortUnsupported`], [`Error::StreamFilterUnsupported`]
pub fn range_stream(request: &RangeRequest) -> Result<(), Error> {
    range(request)?;
    let by_key = request.sort_target() == SortTarget::Key && request.sort_order() == SortOrder::Ascend;
    if request.sort_order() != SortOrder::None && !by_key {
        return Err(Error::StreamSortUnsupported);
    }
    let bounds = [
        request.min_mod_revision,
        request.max_mod_revision,
        request.min_create_revision,
        request.max_create_revision,
    ];
    if bounds.iter().any(|&bound| bound != 0) {
        return Err(Error::StreamFilterUnsupported);
    }
    Ok(())
}

/// Checks a write.
///
/// # Errors
/// [`Error::EmptyKey`], [`Error::ValueProvided`], [`Error::LeaseProvided`]
pub fn put(request: &PutRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Error::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Error::LeaseProvided);
    }
    Ok(())
}

/// Checks a deletion.
///
/// # Errors
/// [`Error::EmptyKey`]
pub fn delete_range(request: &DeleteRangeRequest) -> Result<(), Error> {
    if request.key.is_empty() { Err(Error::EmptyKey) } else { Ok(()) }
}

/// Checks a transaction: first its size and every operation, nested ones included, then that no
/// key is changed twice: not by two puts, nor by a put and a deletion, unless they stand in
/// branches that exclude each other.
///
/// The longest of the three lists of a transaction counts against `max_txn_ops`, and what is left
/// over is what its nested transactions may use.
///
/// # Errors
/// [`Error::TooManyOps`], [`Error::EmptyKey`], [`Error::KeyNotFound`] for an operation that holds
/// none, [`Error::DuplicateKey`], and what the operations themselves give
pub fn txn(request: &TxnRequest, max_txn_ops: usize) -> Result<(), Error> {
    operations(request, max_txn_ops, MAX_TXN_DEPTH)?;
    overlap::check(&request.success)?;
    overlap::check(&request.failure)
}

fn operations(request: &TxnRequest, max_ops: usize, max_depth: usize) -> Result<(), Error> {
    let longest = request.compare.len().max(request.success.len()).max(request.failure.len());
    let ops_left = max_ops.checked_sub(longest).ok_or(Error::TooManyOps)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Error::EmptyKey);
    }
    let mut both = request.success.iter().chain(&request.failure);
    both.try_for_each(|op| operation(op, ops_left, max_depth))
}

fn operation(op: &RequestOp, max_ops: usize, max_depth: usize) -> Result<(), Error> {
    match &op.request {
        Some(Request::RequestRange(request)) => range(request),
        Some(Request::RequestPut(request)) => put(request),
        Some(Request::RequestDeleteRange(request)) => delete_range(request),
        Some(Request::RequestTxn(request)) => {
            let depth_left = max_depth.checked_sub(1).ok_or(Error::TooManyOps)?;
            operations(request, max_ops, depth_left)
        }
        None => Err(Error::KeyNotFound),
    }
}
