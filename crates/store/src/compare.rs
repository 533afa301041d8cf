//! Whether a compare of a transaction holds for one version of a key.
//!
//! The index answers all compares but those of values. For a value, length and CRC-32C often decide that two values are
//! not equal. Otherwise the bytes are needed, and the caller passes a function that reads them.
//!
//! A compare of a range is evaluated for each of its keys, so what it needs of its own value is computed once, when it
//! is prepared.

use std::cmp::Ordering;

use api::etcdserverpb::Compare;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use bytes::Bytes;

use crate::index::Version;
use crate::values::ValueRef;

/// A compare, with the CRC-32C of its value.
#[derive(Clone, Copy)]
pub(crate) struct PreparedCompare<'r> {
    compare: &'r Compare,
    /// 0 if the compare does not ask whether values are equal.
    checksum: u32,
}

impl<'r> PreparedCompare<'r> {
    /// Prepares a compare.
    pub(crate) fn new(compare: &'r Compare) -> PreparedCompare<'r> {
        let is_equality =
            compare.result == CompareResult::Equal as i32 || compare.result == CompareResult::NotEqual as i32;
        let checksum = match &compare.target_union {
            Some(TargetUnion::Value(value)) if is_of_value(compare) && is_equality => {
                #[cfg(test)]
                tests::count_checksum();
                crc32c::crc32c(value)
            }
            _ => 0,
        };
        PreparedCompare { compare, checksum }
    }

    /// The same compare, prepared before.
    pub(crate) fn with_checksum(compare: &'r Compare, checksum: u32) -> PreparedCompare<'r> {
        PreparedCompare { compare, checksum }
    }

    /// What [`with_checksum`](Self::with_checksum) needs.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Whether it compares values.
    pub(crate) fn is_of_value(&self) -> bool {
        is_of_value(self.compare)
    }

    /// Whether the compare holds for a version. `read` returns the bytes of its value, and is called only if they are
    /// needed.
    pub(crate) fn holds_for<E>(
        &self,
        version: &Version,
        read: impl FnOnce(&ValueRef) -> Result<Bytes, E>,
    ) -> Result<bool, E> {
        let wanted = self.compare.target_union.as_ref();
        let ordering = match (CompareTarget::try_from(self.compare.target), wanted) {
            (Ok(CompareTarget::Value), _) => match self.decided_by_checksum(&version.value) {
                Some(holds) => return Ok(holds),
                None => read(&version.value)?.as_ref().cmp(self.wanted_value()),
            },
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
        Ok(self.passes(ordering))
    }

    /// Whether the compare holds for an absent key: all numbers are 0, and a compare of values does not hold.
    pub(crate) fn holds_for_none(&self) -> bool {
        let no_value = |_: &ValueRef| Err(());
        !self.is_of_value() && self.holds_for(&Version::default(), no_value).is_ok_and(|holds| holds)
    }

    /// The value that a compare of values names.
    fn wanted_value(&self) -> &'r [u8] {
        match &self.compare.target_union {
            Some(TargetUnion::Value(value)) => value,
            _ => &[],
        }
    }

    /// The outcome of a compare of values if it needs no bytes: values of different length or checksum are not equal,
    /// and an empty value is at hand.
    pub(crate) fn decided_by_checksum(&self, value: &ValueRef) -> Option<bool> {
        let wanted = self.wanted_value();
        if value.len == 0 {
            return Some(self.passes([].as_slice().cmp(wanted)));
        }
        let same = value.len as usize == wanted.len() && value.checksum == self.checksum;
        match CompareResult::try_from(self.compare.result) {
            Ok(CompareResult::Equal) if !same => Some(false),
            Ok(CompareResult::NotEqual) if !same => Some(true),
            Err(_) => Some(true),
            _ => None,
        }
    }

    /// Whether an ordering is the one that the compare names. As in etcd, an unknown result always holds.
    fn passes(&self, ordering: Ordering) -> bool {
        match CompareResult::try_from(self.compare.result) {
            Ok(CompareResult::Equal) => ordering.is_eq(),
            Ok(CompareResult::NotEqual) => ordering.is_ne(),
            Ok(CompareResult::Greater) => ordering.is_gt(),
            Ok(CompareResult::Less) => ordering.is_lt(),
            Err(_) => true,
        }
    }
}

fn is_of_value(compare: &Compare) -> bool {
    compare.target == CompareTarget::Value as i32
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        static CHECKSUMS: Cell<usize> = const { Cell::new(0) };
    }

    /// The checksum of a compare's value is computed.
    pub(super) fn count_checksum() {
        CHECKSUMS.set(CHECKSUMS.get() + 1);
    }

    /// How many were computed on this thread.
    pub(crate) fn checksums() -> usize {
        CHECKSUMS.get()
    }
}
