//! Reading values: from the tail, the value cache, or a file, with a check of every byte that comes from a file.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::cache::Access;
use super::read_slots::{ReadSlot, neighbours};
use super::shared_files::{OpenFile, SharedFiles};
use crate::error::ReadError;
use crate::types::{StoredValue, file_of};

/// Most values, and about the most bytes, that are copied while the tail's lock is held; writers need it too.
const MAX_TAIL_HOLD_VALUES: usize = 64;
const MAX_TAIL_HOLD_BYTES: usize = 64 << 10;

impl SharedFiles {
    /// Reads one value.
    pub(crate) fn read(&self, value: StoredValue) -> Result<Bytes, ReadError> {
        if let Some(bytes) = self.recent(value) {
            return Ok(bytes);
        }
        let bytes = self.read_range(value.address, u64::from(value.len))?;
        self.check(value, &bytes)?;
        Ok(bytes)
    }

    /// A value from the tail, whose bytes were checked when they arrived and are not checked again.
    pub(crate) fn recent(&self, value: StoredValue) -> Option<Bytes> {
        if value.len == 0 { Some(Bytes::new()) } else { self.tail.read().value(value.address, value.len) }
    }

    /// Reads many values; the answers are in the order of `values`.
    pub(crate) fn read_many(&self, values: &[StoredValue]) -> Vec<Result<Bytes, ReadError>> {
        let answers: Vec<_> = values.iter().map(|value| self.recent(*value)).collect();
        let rest =
            || values.iter().zip(&answers).filter(|(_, answer)| answer.is_none()).map(|(value, _)| *value);
        let mut buffer = BytesMut::zeroed(rest().map(|value| value.len as usize).sum());
        let mut room = &mut buffer[..];
        let mut slots = Vec::new();
        for value in rest() {
            let (into, left) = std::mem::take(&mut room).split_at_mut(value.len as usize);
            room = left;
            slots.push(ReadSlot { value, into });
        }
        // Sorted, because all values of a file fail when it has gone.
        let mut failed = BTreeMap::new();
        let name = |value: StoredValue| (value.address, value.len, value.checksum);
        self.fill_from_files(&mut slots, &mut |value, error| _ = failed.insert(name(value), error));
        let mut read = buffer.freeze();
        let answer = |(value, answer): (&StoredValue, Option<Bytes>)| {
            let bytes = answer.unwrap_or_else(|| read.split_to(value.len as usize));
            match failed.get(&name(*value)) {
                Some(error) => Err(error.clone()),
                None => Ok(bytes),
            }
        };
        values.iter().zip(answers).map(answer).collect()
    }

    /// Fills all slots: from the tail, then from the cache, then from files.
    pub(crate) fn fill(&self, slots: &mut [ReadSlot<'_>], access: Access) -> Result<(), ReadError> {
        let fits = |slot: &ReadSlot<'_>| slot.into.len() == slot.value.len as usize;
        assert!(slots.iter().all(fits), "a slot is as long as its value");
        let mut unfilled = self.fill_from_tail(slots);
        if access == Access::Query {
            unfilled = self.cache.fill(&mut slots[..unfilled]);
        }
        let rest = &mut slots[..unfilled];
        let mut failed = None;
        self.fill_from_files(rest, &mut |_, error| failed = Some(error));
        if let Some(error) = failed {
            return Err(error);
        }
        if access == Access::Query {
            self.cache.insert(rest);
        }
        Ok(())
    }

    /// Fills the slots whose values are in the tail, moves the others to the front and returns how many these are.
    fn fill_from_tail(&self, slots: &mut [ReadSlot<'_>]) -> usize {
        let (mut unfilled, mut next) = (0, 0);
        while next < slots.len() {
            let tail = self.tail.read();
            let (first, mut bytes) = (next, 0);
            while next < slots.len() && next - first < MAX_TAIL_HOLD_VALUES && bytes < MAX_TAIL_HOLD_BYTES {
                let slot = &mut slots[next];
                bytes += slot.into.len();
                if !slot.into.is_empty() && !tail.copy(slot.value.address, slot.into) {
                    slots.swap(unfilled, next);
                    unfilled += 1;
                }
                next += 1;
            }
        }
        unfilled
    }

    /// Fills slots from files and calls `failed` for those it could not fill. The order of the slots changes.
    pub(crate) fn fill_from_files(
        &self,
        slots: &mut [ReadSlot<'_>],
        failed: &mut impl FnMut(StoredValue, ReadError),
    ) {
        slots.sort_unstable_by_key(|slot| slot.value.address);
        let mut rest = slots;
        let mut open = None;
        let mut together = Vec::new();
        while !rest.is_empty() {
            let (run, after) = rest.split_at_mut(neighbours(rest));
            rest = after;
            if run.len() > 1 && self.fill_together(run, &mut open, &mut together).is_ok() {
                continue;
            }
            for slot in run {
                if let Err(error) = self.fill_one(slot, &mut open) {
                    failed(slot.value, error);
                }
            }
        }
    }

    /// The file of an address; the one that was used last if it is the same.
    fn opened<'s, 'o>(
        &'s self,
        address: u64,
        open: &'o mut Option<OpenFile<'s>>,
    ) -> Result<&'o OpenFile<'s>, ReadError> {
        match open {
            Some(file) if file.number() == file_of(address) => {}
            _ => *open = Some(self.open(address)?),
        }
        Ok(open.as_ref().expect("it was just opened"))
    }

    fn fill_one<'s>(
        &'s self,
        slot: &mut ReadSlot<'_>,
        open: &mut Option<OpenFile<'s>>,
    ) -> Result<(), ReadError> {
        self.opened(slot.value.address, open)?.read(slot.value.address, slot.into)?;
        self.check(slot.value, slot.into)
    }

    /// Reads a run of values, and the bytes between them, with one call. An error says nothing about the single values:
    /// the caller reads each of them alone.
    fn fill_together<'s>(
        &'s self,
        run: &mut [ReadSlot<'_>],
        open: &mut Option<OpenFile<'s>>,
        together: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let start = run[0].value.address;
        let end = run.iter().map(ReadSlot::end).max().expect("a run is not empty");
        let len = (end - start) as usize;
        if together.len() < len {
            together.resize(len, 0);
        }
        let together = &mut together[..len];
        self.opened(start, open)?.read(start, together)?;
        for slot in run {
            let from = (slot.value.address - start) as usize;
            slot.into.copy_from_slice(&together[from..from + slot.into.len()]);
            self.check(slot.value, slot.into)?;
        }
        Ok(())
    }
}
