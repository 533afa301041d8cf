//! Compares of transactions in a batch, and reading the values they need before the batch.
//!
//! See [`crate::compare`] for which compares need the bytes of a value.

use std::convert::Infallible;

use api::etcdserverpb as pb;
use api::etcdserverpb::compare::CompareTarget;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;

use super::batch::{BatchApply, PrefetchedValues};
use crate::command::Command;
use crate::compare::{decided_by_checksum, holds_for, holds_for_none};
use crate::index::{KeyIndex, Version};
use crate::range::bounds;
use crate::state::StoreShared;
use crate::values::{Damaged, ValueRef};

/// Reads every value of the present state that a compare of `commands` may need. Values that the batch itself writes
/// are in its payload.
///
/// Some values may turn out not to be needed, because the batch changes the key before it compares.
pub(super) fn prefetch(shared: &StoreShared, commands: &[Command]) -> Result<PrefetchedValues, Damaged> {
    let mut compares = Vec::new();
    for command in commands {
        if let Command::Txn(request) = command {
            collect(request, &mut compares);
        }
    }
    if compares.is_empty() {
        return Ok(PrefetchedValues::default());
    }
    let mut wanted = Vec::new();
    {
        let state = shared.state.read();
        for compare in compares {
            for_each_live(&state.index, compare, |version| {
                if decided_by_checksum(compare, &version.value).is_none() {
                    wanted.push(version.value);
                }
                true
            });
        }
    }
    let bytes = shared.values.read_many(&wanted)?;
    Ok(wanted.iter().map(|value| value.address).zip(bytes).collect())
}

/// The compares of values in `request` and its nested transactions, in both branches.
fn collect<'r>(request: &'r pb::TxnRequest, compares: &mut Vec<&'r pb::Compare>) {
    compares.extend(request.compare.iter().filter(|compare| compare.target == CompareTarget::Value as i32));
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
    for (record, live) in index.walk(&bounds(&compare.key, &compare.range_end)) {
        if live && !visit(&record.newest()) {
            return;
        }
    }
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
        let offset = value.address.wrapping_sub(self.ctx.payload_address);
        let len = u64::from(value.len);
        if offset.checked_add(len).is_some_and(|end| end <= self.ctx.payload.len() as u64) {
            return self.ctx.payload.slice(offset as usize..(offset + len) as usize);
        }
        self.prefetched.get(&value.address).expect("values to compare were read before the batch").clone()
    }
}
