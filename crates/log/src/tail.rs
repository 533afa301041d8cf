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
    place: u64,
    entry: Entry,
}

impl Tail {
    pub(crate) fn new(limit: u64) -> Tail {
        Tail { items: VecDeque::new(), bytes: 0, limit }
    }

    pub(crate) fn push(&mut self, place: u64, entry: Entry) {
        assert!(self.items.back().is_none_or(|last| last.place < place), "places only grow");
        self.bytes += entry.payload.len() as u64;
        self.items.push_back(Item { place, entry });
    }

    /// Drops the oldest durable entries until the limit is met.
    pub(crate) fn shrink(&mut self, durable: u64) {
        while self.bytes > self.limit && self.items.front().is_some_and(|item| item.place < durable) {
            let item = self.items.pop_front().expect("there is a front");
            self.bytes -= item.entry.payload.len() as u64;
        }
    }

    /// The bytes at a place, if the entry around them is still here.
    pub(crate) fn value(&self, place: u64, len: u32) -> Option<Bytes> {
        let after = self.items.partition_point(|item| item.place <= place);
        let item = self.items.get(after.checked_sub(1)?)?;
        let start = (place - item.place) as usize;
        let end = start.checked_add(len as usize)?;
        (end <= item.entry.payload.len()).then(|| item.entry.payload.slice(start..end))
    }

    /// The entry whose payload begins at a place.
    pub(crate) fn entry(&self, place: u64) -> Option<&Entry> {
        let at = self.items.binary_search_by_key(&place, |item| item.place).ok()?;
        Some(&self.items[at].entry)
    }
}
