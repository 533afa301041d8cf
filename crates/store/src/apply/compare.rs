//! Compares of transactions in a batch, and which values they need.
//!
//! See [`crate::compare`] for which compares need the bytes of a value.

use std::convert::Infallible;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::compare::CompareTarget;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;

use super::batch::{BatchApply, PrefetchedValues};
use super::cost::{MAX_COMPARED_BYTES, TxnCost, live_keys};
use crate::command::{BatchContext, Command};
use crate::compare::{decided_by_checksum, holds_for, holds_for_none};
use crate::index::{KeyIndex, Version};
use crate::range::bounds;
use crate::state::StoreState;
use crate::values::ValueRef;

/// So many compares of single keys are far below the limits.
const MAX_SIMPLE_COMPARES: usize = 1_000;

/// The values of the present state that compares of `commands` may need and that were not read yet. Values that the
/// batch itself writes are in its payload.
///
/// Some values may turn out not to be needed, because the batch changes the key before it compares.
pub(super) fn missing_values(
    state: &StoreState,
    ctx: &BatchContext,
    prefetched: &PrefetchedValues,
    commands: &[Command],
) -> Vec<ValueRef> {
    let mut missing = Vec::new();
    for command in commands {
        if let Command::Txn(request) = command
            && let Ok(values) = compared_values(&state.index, request)
        {
            let is_missing = |value: &ValueRef| {
                payload_offset(ctx, value).is_none() && !prefetched.contains_key(&value.address)
            };
            missing.extend(values.into_iter().filter(is_missing));
        }
    }
    missing
}

/// The values that the compares of a transaction may need, in all branches.
///
/// # Errors
/// [`Error::TooManyOps`] if the compares visit too many keys, or need too many bytes.
pub(super) fn compared_values(index: &KeyIndex, request: &pb::TxnRequest) -> Result<Vec<ValueRef>, Error> {
    if needs_no_look(request) {
        return Ok(Vec::new());
    }
    let mut compares = Vec::new();
    collect(request, &mut compares);
    let mut cost = TxnCost::of_compares();
    for compare in &compares {
        cost.add(live_keys(index, &compare.key, &compare.range_end))?;
    }
    let mut values = Vec::new();
    let mut bytes = 0;
    for compare in compares.into_iter().filter(|compare| compare.target == CompareTarget::Value as i32) {
        for_each_live(index, compare, |version| {
            if decided_by_checksum(compare, &version.value).is_none() {
                bytes += u64::from(version.value.len);
                values.push(version.value);
            }
            true
        });
    }
    if bytes > MAX_COMPARED_BYTES { Err(Error::TooManyOps) } else { Ok(values) }
}

/// Whether the request alone tells that its compares are within the limits and need no value, as nearly all do.
fn needs_no_look(request: &pb::TxnRequest) -> bool {
    let is_simple =
        |compare: &pb::Compare| compare.range_end.is_empty() && compare.target != CompareTarget::Value as i32;
    let mut ops = request.success.iter().chain(&request.failure);
    request.compare.len() <= MAX_SIMPLE_COMPARES
        && request.compare.iter().all(is_simple)
        && !ops.any(|op| matches!(op.request, Some(Request::RequestTxn(_))))
}

/// The compares of `request` and its nested transactions, in both branches.
fn collect<'r>(request: &'r pb::TxnRequest, compares: &mut Vec<&'r pb::Compare>) {
    compares.extend(&request.compare);
    for op in request.success.iter().chain(&request.failure) {
        if let Some(Request::RequestTxn(nested)) = &op.request {
            collect(nested, compares);
        }
    }
}

/// Calls `visit` with the newest version of each live key that the compare names, until it returns false.
fn for_each_live(index: &KeyIndex, compare: &pb::Compare, mut visit: impl FnMut(&Version) -> bool) {
    if compare.range_end.is_empty() {
        let newest =
            index.record(&compare.key).filter(|record| record.is_live()).map(|record| record.newest());
        if let Some(version) = newest {
            visit(&version);
        }
        return;
    }
    for record in index.walk_live(&bounds(&compare.key, &compare.range_end)) {
        if !visit(&record.newest()) {
            return;
        }
    }
}

/// Where the bytes of a value lie in the payload of the batch, if they do.
fn payload_offset(ctx: &BatchContext, value: &ValueRef) -> Option<usize> {
    let offset = value.address.wrapping_sub(ctx.payload_address);
    let end = offset.checked_add(u64::from(value.len))?;
    (end <= ctx.payload.len() as u64).then_some(offset as usize)
}

impl BatchApply<'_> {
    /// Whether a compare holds for all keys that it names.
    pub(super) fn holds(&self, compare: &pb::Compare) -> bool {
        let (mut any, mut all) = (false, true);
        for_each_live(&self.state.index, compare, |version| {
            any = true;
            let Ok(holds) = holds_for::<Infallible>(compare, version, |value| Ok(self.value_bytes(value)));
            all = holds;
            all
        });
        if any { all } else { holds_for_none(compare) }
    }

    /// The bytes of a value: from this batch's payload, or prefetched.
    fn value_bytes(&self, value: &ValueRef) -> Bytes {
        if let Some(offset) = payload_offset(self.ctx, value) {
            return self.ctx.payload.slice(offset..offset + value.len as usize);
        }
        self.prefetched.get(&value.address).expect("values to compare were read before the command").clone()
    }
}
