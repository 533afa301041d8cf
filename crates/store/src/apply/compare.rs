//! Compares of transactions.
//!
//! All but compares of values are answered by the index. For values, length and checksum often decide alone
//! that two are not equal; else the bytes are needed, and [`prefetch`] has read them.

use std::convert::Infallible;

use api::etcdserverpb as pb;
use api::etcdserverpb::compare::CompareTarget;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;

use super::{Batch, Prefetched};
use crate::command::Command;
use crate::compare::{decided_by_checksum, holds_for, holds_for_none};
use crate::index::{Index, Version};
use crate::range::bounds;
use crate::state::Shared;
use crate::types::{Damaged, ValueRef};

/// Reads every value that a compare of `commands` may need and that is there now. Values that the batch
/// itself writes need no reading: they lie in its payload.
///
/// It may read more than turns out to be needed, since the batch's own writes can make a compare moot.
pub(super) fn prefetch(shared: &Shared, commands: &[Command]) -> Result<Prefetched, Damaged> {
    let mut compares = Vec::new();
    for command in commands {
        if let Command::Txn(request) = command {
            collect(request, &mut compares);
        }
    }
    if compares.is_empty() {
        return Ok(Prefetched::default());
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

/// The compares of values in `request` and below, whichever branches will be taken.
fn collect<'r>(request: &'r pb::TxnRequest, compares: &mut Vec<&'r pb::Compare>) {
    compares.extend(request.compare.iter().filter(|compare| compare.target == CompareTarget::Value as i32));
    for op in request.success.iter().chain(&request.failure) {
        if let Some(Request::RequestTxn(nested)) = &op.request {
            collect(nested, compares);
        }
    }
}

/// Calls `visit` with the newest version of each live key the compare names, until it returns false.
fn for_each_live(index: &Index, compare: &pb::Compare, mut visit: impl FnMut(&Version) -> bool) {
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

impl Batch<'_> {
    /// Whether a compare holds for all keys it names.
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

    /// The bytes of a value: of this batch, or read before it.
    fn value_bytes(&self, value: &ValueRef) -> Bytes {
        let offset = value.address.wrapping_sub(self.ctx.payload_address);
        let len = u64::from(value.len);
        if offset.checked_add(len).is_some_and(|end| end <= self.ctx.payload.len() as u64) {
            return self.ctx.payload.slice(offset as usize..(offset + len) as usize);
        }
        self.prefetched.get(&value.address).expect("values to compare were read before the batch").clone()
    }
}
