//! The tail: the most recent entries in memory, by log address.
//!
//! Followers, watchers and replies ask for what was written last. Entries that are not durable yet stay here whatever
//! the limit says, because their file may not hold them.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::types::Entry;

#[derive(Debug)]
pub(crate) struct Tail {
    /// By ascending address.
    entries: VecDeque<TailEntry>,
    /// Bytes of all payloads.
    bytes: u64,
    limit: u64,
}

#[derive(Debug)]
struct TailEntry {
    /// Log address of the payload.
    address: u64,
    entry: Entry,
}

impl Tail {
    pub(crate) fn new(limit: u64) -> Tail {
        Tail { entries: VecDeque::new(), bytes: 0, limit }
    }

    pub(crate) fn push(&mut self, address: u64, entry: Entry) {
        assert!(self.entries.back().is_none_or(|last| last.address < address), "log addresses ascend");
        self.bytes += entry.payload.len() as u64;
        self.entries.push_back(TailEntry { address, entry });
    }

    /// Drops the oldest durable entries until the limit is met.
    pub(crate) fn shrink(&mut self, durable: u64) {
        self.shrink_to(self.limit, durable);
    }

    /// Drops the oldest durable entries until at most `max_bytes` are left, and frees what held them.
    pub(crate) fn release(&mut self, max_bytes: u64, durable: u64) {
        self.shrink_to(max_bytes, durable);
        self.entries.shrink_to_fit();
    }

    fn shrink_to(&mut self, max_bytes: u64, durable: u64) {
        while self.bytes > max_bytes && self.entries.front().is_some_and(|oldest| oldest.address < durable) {
            let oldest = self.entries.pop_front().expect("there is a front");
            self.bytes -= oldest.entry.payload.len() as u64;
        }
    }

    /// Bytes of all payloads.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes at an address, if the entry around them is still here.
    pub(crate) fn value(&self, address: u64, len: u32) -> Option<Bytes> {
        let (payload, start) = self.around(address)?;
        let end = start.checked_add(len as usize)?;
        (end <= payload.len()).then(|| payload.slice(start..end))
    }

    /// Copies the bytes at an address, if the entry around them is still here.
    pub(crate) fn copy(&self, address: u64, into: &mut [u8]) -> bool {
        let Some((payload, start)) = self.around(address) else { return false };
        let found = payload.get(start..).and_then(|rest| rest.get(..into.len()));
        found.is_some_and(|bytes| {
            into.copy_from_slice(bytes);
            true
        })
    }

    /// The last payload that begins at or before an address, and the offset of the address in it.
    fn around(&self, address: u64) -> Option<(&Bytes, usize)> {
        // Most addresses are older than the whole tail: skip the search for them.
        self.entries.front().filter(|oldest| oldest.address <= address)?;
        let after = self.entries.partition_point(|entry| entry.address <= address);
        let found = self.entries.get(after.checked_sub(1)?)?;
        Some((&found.entry.payload, usize::try_from(address - found.address).ok()?))
    }

    /// The entry whose payload begins at an address.
    pub(crate) fn entry(&self, address: u64) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(&address, |entry| entry.address).ok()?;
        Some(&self.entries[at].entry)
    }

    /// Walks the tail: addresses ascend, and the sum of bytes is right.
    pub(crate) fn check_all(&self) {
        assert!(self.entries.iter().is_sorted_by(|one, next| one.address < next.address));
        let bytes: u64 = self.entries.iter().map(|entry| entry.entry.payload.len() as u64).sum();
        assert!(self.bytes == bytes, "the tail counts {} bytes and holds {bytes}", self.bytes);
    }
}

#[cfg(test)]
mod tests {
    //! Which bytes the tail still has.
    use super::*;

    /// Entries of six bytes at 100, 200 and 300.
    fn tail(limit: u64) -> Tail {
        let mut tail = Tail::new(limit);
        for (index, payload) in (1..).zip(["first.", "second", "third."]) {
            tail.push(index * 100, Entry { term: 1, index, kind: 0, payload: payload.into() });
        }
        tail
    }

    fn indexes(tail: &Tail) -> Vec<u64> {
        let held = [100, 200, 300].into_iter().filter_map(|address| tail.entry(address));
        held.map(|entry| entry.index).collect()
    }

    #[test]
    fn what_is_released_is_durable() {
        let mut held = tail(1_000);
        held.release(6, 300);
        assert_eq!(indexes(&held), [3]);
        held.release(0, 300);
        assert_eq!(indexes(&held), [3], "its file may not hold it yet");
        held.release(0, 400);
        assert_eq!((indexes(&held), held.bytes()), (Vec::new(), 0));
    }

    #[test]
    fn bytes_are_found_within_one_payload_only() {
        let tail = tail(1_000);
        assert_eq!(tail.value(100, 6).as_deref(), Some(&b"first."[..]));
        assert_eq!(tail.value(202, 3).as_deref(), Some(&b"con"[..]));
        for (address, len) in [(99, 1), (106, 1), (203, 4), (199, 1), (301, u32::MAX), (1_000, 1)] {
            assert_eq!(tail.value(address, len), None, "{len} bytes at {address}");
        }
    }

    #[test]
    fn a_copy_is_the_value_or_nothing() {
        let tail = tail(1_000);
        let mut into = *b"...";
        assert!(tail.copy(202, &mut into));
        assert_eq!(&into, b"con");
        for address in [99, 107, 204] {
            assert!(!tail.copy(address, &mut into), "three bytes at {address}");
        }
        assert_eq!(&into, b"con", "nothing is copied in part");
    }

    #[test]
    fn an_entry_is_found_by_the_start_of_its_payload() {
        let tail = tail(1_000);
        assert_eq!(tail.entry(200).map(|entry| entry.index), Some(2));
        assert_eq!(tail.entry(201), None);
    }

    #[test]
    fn the_oldest_durable_entries_make_room() {
        let mut tail = tail(12);
        assert_eq!(indexes(&tail), [1, 2, 3], "entries are dropped by shrinking only");
        assert_eq!(tail.bytes(), 18);
        tail.shrink(400);
        assert_eq!((indexes(&tail), tail.bytes()), (vec![2, 3], 12));
        assert_eq!(tail.value(100, 6), None);
        tail.shrink(400);
        assert_eq!(indexes(&tail), [2, 3], "twelve bytes are within the limit");
        tail.check_all();
    }

    #[test]
    fn entries_that_are_not_durable_stay_beyond_the_limit() {
        let mut tail = tail(0);
        tail.shrink(100);
        assert_eq!(indexes(&tail), [1, 2, 3]);
        tail.shrink(200);
        assert_eq!(indexes(&tail), [2, 3]);
        tail.check_all();
    }
}
