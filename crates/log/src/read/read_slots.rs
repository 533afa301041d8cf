//! Read slots: values to be read, each with the buffer that it fills, and which of them one call reads.
//!
//! A caller that knows the length of its response lays it out first, with a slot for each value. Each value is then
//! copied once, from memory or the page cache, to where the response wants it. A system call costs more than copying,
//! so slots whose values are close together in a file are read with one call:
//!
//! ```text
//!   slots by address    [100..356] [400..656]            [9000..9256]
//!   reads               |------ one call ------|         |--- one ---|
//! ```

use crate::types::{StoredValue, file_of};

/// Values this close together are read at once: reading a page too much costs less than another system call.
const MAX_COALESCE_DISTANCE_BYTES: u64 = 4096;
/// Most bytes read at once, slots included: what is copied out of them is then still in the cache.
const MAX_COALESCE_BYTES: u64 = 256 << 10;

/// A value to be read, and the buffer for its bytes.
#[derive(Debug)]
pub struct ReadSlot<'a> {
    /// The value.
    pub value: StoredValue,
    /// Exactly as long as the value.
    pub into: &'a mut [u8],
}

impl ReadSlot<'_> {
    /// Address of the byte after the value.
    pub(super) fn end(&self) -> u64 {
        self.value.address + u64::from(self.value.len)
    }
}

/// How many of the slots, sorted by address, to read with one call, from the first on.
pub(super) fn neighbours(sorted: &[ReadSlot<'_>]) -> usize {
    let start = sorted[0].value.address;
    let mut end = sorted[0].end();
    let is_near = |slot: &&ReadSlot<'_>| {
        let reach = slot.end().max(end);
        let near =
            slot.value.address <= end + MAX_COALESCE_DISTANCE_BYTES && reach - start <= MAX_COALESCE_BYTES;
        end = reach;
        near && file_of(slot.value.address) == file_of(start)
    };
    1 + sorted[1..].iter().take_while(is_near).count()
}
