//! The tail: the most recent entries in memory, by place.
//!
//! Whatever was just written is what followers, watchers and replies ask for. Entries that are not durable
//! yet stay here whatever the limit says: the file may not hold them.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::types::Entry;

#[derive(Debug)]
pub(crate) struct Tail {
    /// By ascending payload place.
    items: VecDeque<Item>,
    bytes: u64,
    limit: u64,
}

#[derive(Debug)]
struct Item {
    address: u64,
    entry: Entry,
}

impl Tail {
    pub(crate) fn new(limit: u64) -> Tail {
        Tail { items: VecDeque::new(), bytes: 0, limit }
    }

    pub(crate) fn push(&mut self, address: u64, entry: Entry) {
        assert!(self.items.back().is_none_or(|last| last.address < address), "places only grow");
        self.bytes += entry.payload.len() as u64;
        self.items.push_back(Item { address, entry });
    }

    /// Drops the oldest durable entries until the limit is met.
    pub(crate) fn shrink(&mut self, durable: u64) {
        while self.bytes > self.limit && self.items.front().is_some_and(|item| item.address < durable) {
            let item = self.items.pop_front().expect("there is a front");
            self.bytes -= item.entry.payload.len() as u64;
        }
    }

    /// The bytes at a place, if the entry around them is still here.
    pub(crate) fn value(&self, address: u64, len: u32) -> Option<Bytes> {
        let (payload, start) = self.around(address)?;
        let end = start.checked_add(len as usize)?;
        (end <= payload.len()).then(|| payload.slice(start..end))
    }

    /// Copies the bytes at a place, if the entry around them is still here.
    pub(crate) fn copy(&self, address: u64, into: &mut [u8]) -> bool {
        let Some((payload, start)) = self.around(address) else { return false };
        let found = payload.get(start..).and_then(|rest| rest.get(..into.len()));
        found.is_some_and(|bytes| {
            into.copy_from_slice(bytes);
            true
        })
    }

    /// The payload that begins at a place or last before it, and how far before.
    fn around(&self, address: u64) -> Option<(&Bytes, usize)> {
        // Most of what is asked for is older than all of this: no search for it.
        self.items.front().filter(|oldest| oldest.address <= address)?;
        let after = self.items.partition_point(|item| item.address <= address);
        let item = self.items.get(after.checked_sub(1)?)?;
        Some((&item.entry.payload, usize::try_from(address - item.address).ok()?))
    }

    /// The entry whose payload begins at a place.
    pub(crate) fn entry(&self, address: u64) -> Option<&Entry> {
        let at = self.items.binary_search_by_key(&address, |item| item.address).ok()?;
        Some(&self.items[at].entry)
    }
}
