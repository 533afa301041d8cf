//! Whether a compare of a transaction holds for one version of a key.
//!
//! The index answers all compares but those of values. For a value, length and CRC-32C often decide that two values are
//! not equal. Otherwise the bytes are needed, and the caller passes a function that reads them.

use std::cmp::Ordering;

use api::etcdserverpb::Compare;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use bytes::Bytes;

use crate::index::Version;
use crate::values::ValueRef;

/// Whether a compare holds for a version. `read` returns the bytes of its value, and is called only if they are needed.
pub(crate) fn holds_for<E>(
    compare: &Compare,
    version: &Version,
    read: impl FnOnce(&ValueRef) -> Result<Bytes, E>,
) -> Result<bool, E> {
    let wanted = compare.target_union.as_ref();
    let ordering = match (CompareTarget::try_from(compare.target), wanted) {
        (Ok(CompareTarget::Value), _) => match decided_by_checksum(compare, &version.value) {
            Some(holds) => return Ok(holds),
            None => read(&version.value)?.as_ref().cmp(wanted_value(compare)),
        },
        (Ok(CompareTarget::Version), Some(TargetUnion::Version(wanted))) => version.version.cmp(wanted),
        (Ok(CompareTarget::Version), _) => version.version.cmp(&0),
        (Ok(CompareTarget::Create), Some(TargetUnion::CreateRevision(wanted))) => version.create.cmp(wanted),
        (Ok(CompareTarget::Create), _) => version.create.cmp(&0),
        (Ok(CompareTarget::Mod), Some(TargetUnion::ModRevision(wanted))) => version.revision.main.cmp(wanted),
        (Ok(CompareTarget::Mod), _) => version.revision.main.cmp(&0),
        (Ok(CompareTarget::Lease), Some(TargetUnion::Lease(wanted))) => version.lease.cmp(wanted),
        (Ok(CompareTarget::Lease), _) => version.lease.cmp(&0),
        (Err(_), _) => Ordering::Equal,
    };
    Ok(passes(compare, ordering))
}

/// Whether a compare holds for an absent key: all numbers are 0, and a compare of values does not hold.
pub(crate) fn holds_for_none(compare: &Compare) -> bool {
    let no_value = |_: &ValueRef| Err(());
    compare.target != CompareTarget::Value as i32
        && holds_for(compare, &Version::default(), no_value).is_ok_and(|holds| holds)
}

/// The value that a compare of values names.
fn wanted_value(compare: &Compare) -> &[u8] {
    match &compare.target_union {
        Some(TargetUnion::Value(value)) => value,
        _ => &[],
    }
}

/// The outcome of a compare of values if it needs no bytes: values of different length or checksum are not equal, and
/// an empty value is at hand.
pub(crate) fn decided_by_checksum(compare: &Compare, value: &ValueRef) -> Option<bool> {
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

/// Whether an ordering is the one that the compare names. As in etcd, an unknown result always holds.
fn passes(compare: &Compare, ordering: Ordering) -> bool {
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => ordering.is_eq(),
        Ok(CompareResult::NotEqual) => ordering.is_ne(),
        Ok(CompareResult::Greater) => ordering.is_gt(),
        Ok(CompareResult::Less) => ordering.is_lt(),
        Err(_) => true,
    }
}
