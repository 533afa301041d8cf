//! Values that transactions compare and that were read ahead: see [`look_ahead`](super::look_ahead), which
//! chooses them.

use std::collections::HashMap;

use bytes::Bytes;

use crate::command::BatchContext;
use crate::values::{ValueRef, Values};

/// Values that were read ahead.
#[derive(Default)]
pub(super) struct FetchedValues {
    by_address: HashMap<u64, Bytes>,
    /// How many commands of the batch have begun before the first that they are not for.
    for_begun: usize,
}

impl FetchedValues {
    /// The bytes of a value.
    pub(super) fn get(&self, value: &ValueRef) -> Option<Bytes> {
        self.by_address.get(&value.address).cloned()
    }

    /// Adds values.
    pub(super) fn extend(&mut self, values: impl Iterator<Item = (ValueRef, Bytes)>) {
        self.by_address.extend(values.map(|(value, bytes)| (value.address, bytes)));
    }

    /// Drops the values if they are for none of the commands that are left.
    pub(super) fn drop_passed(&mut self, begun: usize) {
        if begun >= self.for_begun {
            self.by_address.clear();
        }
    }

    /// Drops all values, for those that are read next: for the commands until so many have begun. Takes those of
    /// `needed` that are in memory; returns the others.
    pub(super) fn replace(
        &mut self,
        needed: Vec<ValueRef>,
        for_begun: usize,
        values: &dyn Values,
    ) -> Vec<ValueRef> {
        *self = FetchedValues { by_address: HashMap::new(), for_begun };
        let mut take = |value: &ValueRef| {
            let bytes = values.read_in_memory(value);
            bytes.map(|bytes| self.by_address.insert(value.address, bytes)).is_some()
        };
        needed.into_iter().filter(|value| !take(value)).collect()
    }

    /// Bytes that are in memory.
    #[cfg(test)]
    #[expect(clippy::disallowed_methods, reason = "a sum does not depend on the order")]
    pub(super) fn bytes(&self) -> u64 {
        self.by_address.values().map(|bytes| bytes.len() as u64).sum()
    }
}

/// Where the bytes of a value lie in the payload of the batch, if they do.
pub(super) fn payload_offset(ctx: &BatchContext, value: &ValueRef) -> Option<usize> {
    let offset = value.address.wrapping_sub(ctx.payload_address);
    let end = offset.checked_add(u64::from(value.len))?;
    (end <= ctx.payload.len() as u64).then_some(offset as usize)
}
