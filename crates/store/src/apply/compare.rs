//! Compares of transactions.
//!
//! All but compares of values are answered by the index. For values, length and checksum often decide alone
//! that two are not equal; else the bytes are needed, and [`prefetch`] has read them.

use std::cmp::Ordering;

use api::etcdserverpb as pb;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;

use super::{Batch, Prefetched};
use crate::command::Command;
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
    Ok(wanted.iter().map(|value| value.place).zip(bytes).collect())
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

/// The value a compare of values compares with.
fn wanted_value(compare: &pb::Compare) -> &[u8] {
    match &compare.target_union {
        Some(TargetUnion::Value(value)) => value,
        _ => &[],
    }
}

/// The outcome, where it takes no bytes: values of another length or checksum are not equal, empty ones are
/// at hand.
fn decided_by_checksum(compare: &pb::Compare, value: &ValueRef) -> Option<bool> {
    let wanted = wanted_value(compare);
    if value.len == 0 {
        return Some(passes(compare, [].as_slice().cmp(wanted)));
    }
    let same = value.len as usize == wanted.len() && value.checksum == crc32c::crc32c(wanted);
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) if !same => Some(false),
        Ok(CompareResult::NotEqual) if !same => Some(true),
        Err(_) => Some(true),
        _ => None,
    }
}

/// Whether an ordering is what the compare asks for. A result nobody defined always is, as in etcd.
fn passes(compare: &pb::Compare, ordering: Ordering) -> bool {
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => ordering.is_eq(),
        Ok(CompareResult::NotEqual) => ordering.is_ne(),
        Ok(CompareResult::Greater) => ordering.is_gt(),
        Ok(CompareResult::Less) => ordering.is_lt(),
        Err(_) => true,
    }
}

impl Batch<'_> {
    /// Whether a compare holds for all keys it names. Where there is none, all numbers are 0, and no value
    /// compares.
    pub(super) fn holds(&self, compare: &pb::Compare) -> bool {
        let (mut any, mut all) = (false, true);
        for_each_live(&self.state.index, compare, |version| {
            any = true;
            all = self.holds_for(compare, version);
            all
        });
        if any {
            return all;
        }
        compare.target != CompareTarget::Value as i32 && self.holds_for(compare, &Version::default())
    }

    fn holds_for(&self, compare: &pb::Compare, version: &Version) -> bool {
        let wanted = compare.target_union.as_ref();
        let ordering = match (CompareTarget::try_from(compare.target), wanted) {
            (Ok(CompareTarget::Value), _) => return self.value_holds(compare, &version.value),
            (Ok(CompareTarget::Version), Some(TargetUnion::Version(wanted))) => version.version.cmp(wanted),
            (Ok(CompareTarget::Version), _) => version.version.cmp(&0),
            (Ok(CompareTarget::Create), Some(TargetUnion::CreateRevision(wanted))) => {
                version.create.cmp(wanted)
            }
            (Ok(CompareTarget::Create), _) => version.create.cmp(&0),
            (Ok(CompareTarget::Mod), Some(TargetUnion::ModRevision(wanted))) => {
                version.revision.main.cmp(wanted)
            }
            (Ok(CompareTarget::Mod), _) => version.revision.main.cmp(&0),
            (Ok(CompareTarget::Lease), Some(TargetUnion::Lease(wanted))) => version.lease.cmp(wanted),
            (Ok(CompareTarget::Lease), _) => version.lease.cmp(&0),
            (Err(_), _) => Ordering::Equal,
        };
        passes(compare, ordering)
    }

    fn value_holds(&self, compare: &pb::Compare, value: &ValueRef) -> bool {
        if let Some(holds) = decided_by_checksum(compare, value) {
            return holds;
        }
        let bytes = self.value_bytes(value);
        passes(compare, bytes.as_ref().cmp(wanted_value(compare)))
    }

    /// The bytes of a value: of this batch, or read before it.
    fn value_bytes(&self, value: &ValueRef) -> Bytes {
        let offset = value.place.wrapping_sub(self.ctx.payload_place);
        let len = u64::from(value.len);
        if offset.checked_add(len).is_some_and(|end| end <= self.ctx.payload.len() as u64) {
            return self.ctx.payload.slice(offset as usize..(offset + len) as usize);
        }
        self.prefetched.get(&value.place).expect("values to compare were read before the batch").clone()
    }
}
