//! Reading many values to where they are wanted.
//!
//! A caller that knows how long its answer will be lays it out first, with a slot for each value; this fills the slots.
//! Each value is copied once, from the tail or the page cache. Reading is what costs, not copying: values that lie
//! close together in a file are read with one call, and what may be asked for again is [kept](crate::cache).

use crate::cache::Access;
use crate::error::ReadError;
use crate::reader::{OpenFile, SharedFiles};
use crate::types::{StoredValue, file_of};

/// Values this close together are read at once: reading a gap of a page costs less than another system call.
const COALESCE_GAP_BYTES: u64 = 4096;
/// Most bytes read at once, slots included: what is copied out of them is then still in the cache.
const MAX_COALESCE_BYTES: u64 = 256 << 10;

/// Most values, and about the most bytes, that are copied in one hold of the tail's lock, which writers need too.
const TAIL_HOLD_VALUES: usize = 64;
const TAIL_HOLD_BYTES: usize = 64 << 10;

/// A value that is wanted, and the room its bytes are to fill exactly.
#[derive(Debug)]
pub struct ReadSlot<'a> {
    /// The value.
    pub value: StoredValue,
    /// As many bytes as the value has.
    pub into: &'a mut [u8],
}

impl ReadSlot<'_> {
    fn end(&self) -> u64 {
        self.value.address + u64::from(self.value.len)
    }
}

impl SharedFiles {
    /// Fills all slots: from the tail or the cache where they have the value.
    pub(crate) fn fill(&self, slots: &mut [ReadSlot<'_>], access: Access) -> Result<(), ReadError> {
        assert!(
            slots.iter().all(|slot| slot.into.len() == slot.value.len as usize),
            "a slot is as long as its value"
        );
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
            self.cache.keep(rest);
        }
        Ok(())
    }

    /// Fills what the tail has, moves the others to the front and returns how many they are.
    fn fill_from_tail(&self, slots: &mut [ReadSlot<'_>]) -> usize {
        let (mut unfilled, mut next) = (0, 0);
        while next < slots.len() {
            let tail = self.tail.read();
            let (first, mut bytes) = (next, 0);
            while next < slots.len() && next - first < TAIL_HOLD_VALUES && bytes < TAIL_HOLD_BYTES {
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

    /// Fills slots from files and tells `failed` of those it could not fill. The order of the slots changes.
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

    /// The file of a place; the one that was used last if it is the same.
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

    /// Reads a run of values, and what lies between them, with one call. When that fails, or anything does not check,
    /// nothing is said of the values: each is to be read alone.
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

/// How many of the slots, sorted by place, are worth reading at once from the first on.
fn neighbours(sorted: &[ReadSlot<'_>]) -> usize {
    let start = sorted[0].value.address;
    let mut end = sorted[0].end();
    let is_near = |slot: &&ReadSlot<'_>| {
        let reach = slot.end().max(end);
        let near = slot.value.address <= end + COALESCE_GAP_BYTES && reach - start <= MAX_COALESCE_BYTES;
        end = reach;
        near && file_of(slot.value.address) == file_of(start)
    };
    1 + sorted[1..].iter().take_while(is_near).count()
}
