//! The revision log: which key each change changed, in the order of revisions.
//!
//! It begins at the oldest revision that is not purged, and ends at the newest, without a hole: every revision has at
//! least one entry, and subs count from 0. So an entry needs neither main nor sub. It is a slot (4 bytes) and one bit
//! that tells whether it starts a revision; `(main, sub)` follows from its position:
//!
//! ```text
//! put a @7 | txn { put b, put c, delete d } @8 | put a @9
//!
//! slots    0    1    2    3    0        first entry of the block: 7.0
//! starts   1    1    0    0    1        entry 3 is the third entry of the second start: 8.2
//!          7.0  8.0  8.1  8.2  9.0
//! ```
//!
//! A restored checkpoint may know that a change happened, but not of which key, because its version was purged since.
//! The slot of such an entry is [unknown](RevisionLogEntry::slot).
//!
//! Watchers catch up from the revision log, counts at older revisions are derived from it, and it drives purging.

use std::collections::VecDeque;

use crate::types::Revision;

/// Entries in a block: its bitmap takes two cache lines.
const BLOCK_ENTRIES: usize = 1024;
const WORDS: usize = BLOCK_ENTRIES / 64;

/// The slot of a change whose key is unknown; no valid slot has this number.
const UNKNOWN_SLOT: u32 = u32::MAX;

/// One change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionLogEntry {
    /// The revision of the change.
    pub revision: Revision,
    /// The key's slot, `None` if the key is unknown.
    pub slot: Option<u32>,
}

struct RevisionBlock {
    /// The revision of the first entry.
    first: Revision,
    /// The number of entries.
    len: usize,
    /// Slots of the entries, without the unknown ones at the end: a block of unknown slots takes no memory for them.
    slots: Vec<u32>,
    /// A bit for each entry, set if its sub is 0.
    starts: [u64; WORDS],
}

impl RevisionBlock {
    fn new(first: Revision) -> Box<RevisionBlock> {
        Box::new(RevisionBlock { first, len: 0, slots: Vec::new(), starts: [0; WORDS] })
    }

    fn push(&mut self, slot: u32, starts: bool) {
        let at = self.len;
        if slot != UNKNOWN_SLOT {
            self.slots.reserve_exact(BLOCK_ENTRIES - self.slots.len());
            self.slots.resize(at, UNKNOWN_SLOT);
            self.slots.push(slot);
        }
        self.starts[at / 64] |= u64::from(starts) << (at % 64);
        self.len += 1;
    }

    /// Bytes of memory taken, the place in the list of blocks included.
    fn bytes(&self) -> usize {
        size_of::<Box<RevisionBlock>>()
            + size_of::<RevisionBlock>()
            + self.slots.capacity() * size_of::<u32>()
    }

    fn slot(&self, at: usize) -> u32 {
        self.slots.get(at).copied().unwrap_or(UNKNOWN_SLOT)
    }

    fn starts_at(&self, at: usize) -> bool {
        self.starts[at / 64] >> (at % 64) & 1 == 1
    }

    /// The position of the first entry with `main`, or the length when it lies past this block.
    fn position_of(&self, main: i64) -> usize {
        if main <= self.first.main {
            return 0;
        }
        // Entry 0 belongs to `first.main` whether its own bit is set or not, so the wanted start is this many
        // starts after position 0.
        let mut wanted = (main - self.first.main) as u64;
        for (word, bits) in self.starts.iter().enumerate() {
            let mut bits = if word == 0 { bits & !1 } else { *bits };
            let ones = u64::from(bits.count_ones());
            if wanted > ones {
                wanted -= ones;
                continue;
            }
            for _ in 1..wanted {
                bits &= bits - 1;
            }
            return word * 64 + bits.trailing_zeros() as usize;
        }
        self.len
    }
}

/// Blocks of entries; the oldest are popped, new ones are pushed.
#[derive(Default)]
pub(crate) struct RevisionLog {
    blocks: VecDeque<Box<RevisionBlock>>,
    /// Entries of the first block that were popped.
    skipped: usize,
    /// The revision of the oldest entry.
    front: Revision,
    last: Revision,
    len: usize,
    /// Sum of [`RevisionBlock::bytes`].
    bytes: usize,
}

impl RevisionLog {
    /// Adds the newest change.
    pub(crate) fn push(&mut self, revision: Revision, slot: u32) {
        assert!(slot != UNKNOWN_SLOT, "a change that is applied has a key");
        self.append(revision, slot);
    }

    /// Adds the newest change of a restored log, after entries of unknown keys for the changes that are missing.
    pub(crate) fn push_after_unknown(&mut self, revision: Revision, slot: u32) {
        while self.len > 0 && self.last.main + 1 < revision.main {
            self.append(Revision { main: self.last.main + 1, sub: 0 }, UNKNOWN_SLOT);
        }
        let next_sub = if self.len > 0 && self.last.main == revision.main { self.last.sub + 1 } else { 0 };
        for sub in next_sub..revision.sub {
            self.append(Revision { main: revision.main, sub }, UNKNOWN_SLOT);
        }
        self.append(revision, slot);
    }

    /// Adds the newest revision, of which no change is known: all of them are purged.
    pub(crate) fn push_unknown(&mut self, main: i64) {
        self.append(Revision { main, sub: 0 }, UNKNOWN_SLOT);
    }

    fn append(&mut self, revision: Revision, slot: u32) {
        if self.len > 0 {
            let next_sub = Revision { main: self.last.main, sub: self.last.sub + 1 };
            let next_main = Revision { main: self.last.main + 1, sub: 0 };
            assert!(
                revision == next_sub || revision == next_main,
                "revisions follow each other without a hole"
            );
        } else {
            assert!(revision.sub == 0, "a log starts with a whole revision");
            self.front = revision;
        }
        if self.blocks.back().is_none_or(|block| block.len == BLOCK_ENTRIES) {
            let block = RevisionBlock::new(revision);
            self.bytes += block.bytes();
            self.blocks.push_back(block);
        }
        let block = self.blocks.back_mut().expect("a block was pushed if there was none");
        let before = block.bytes();
        block.push(slot, revision.sub == 0);
        self.bytes += block.bytes() - before;
        self.last = revision;
        self.len += 1;
    }

    /// The oldest entry.
    pub(crate) fn front(&self) -> Option<RevisionLogEntry> {
        self.iter_from(i64::MIN).next()
    }

    /// Removes the oldest entry.
    pub(crate) fn pop_front(&mut self) {
        let Some(block) = self.blocks.front() else { return };
        self.skipped += 1;
        self.len -= 1;
        let exhausted = self.skipped == block.len;
        if !exhausted {
            self.front = follow(self.front, block.starts_at(self.skipped));
            return;
        }
        self.bytes -= self.blocks.pop_front().map_or(0, |block| block.bytes());
        self.skipped = 0;
        if let Some(block) = self.blocks.front() {
            self.front = block.first;
        }
    }

    /// The entries at `main` and later, oldest first.
    pub(crate) fn iter_from(&self, main: i64) -> RevisionLogIter<'_> {
        let nothing =
            RevisionLogIter { log: self, block: self.blocks.len(), at: 0, revision: Revision::default() };
        if self.len == 0 || main > self.last.main {
            return nothing;
        }
        if main <= self.front.main {
            return RevisionLogIter { log: self, block: 0, at: self.skipped, revision: self.front };
        }
        // The last block that starts below `main` holds its first entry, or the block after it does at
        // position 0.
        let block =
            self.blocks.partition_point(|block| block.first < Revision { main, sub: 0 }).saturating_sub(1);
        let at = self.blocks[block].position_of(main);
        RevisionLogIter { log: self, block, at, revision: Revision { main, sub: 0 } }
    }

    /// The entries from `revision` on, which must be the revision of an entry. A walk continues here in constant time,
    /// however many changes the revision has.
    pub(crate) fn iter_at(&self, revision: Revision) -> RevisionLogIter<'_> {
        let mut entries = self.iter_from(revision.main);
        if entries.revision.main != revision.main || entries.revision >= revision {
            return entries;
        }
        let ahead = (revision.sub - entries.revision.sub) as usize;
        let position = entries.block * BLOCK_ENTRIES + entries.at + ahead;
        (entries.block, entries.at) = (position / BLOCK_ENTRIES, position % BLOCK_ENTRIES);
        entries.revision = revision;
        entries
    }

    /// The number of entries at `main` and later.
    pub(crate) fn len_from(&self, main: i64) -> usize {
        if self.len == 0 || main > self.last.main {
            return 0;
        }
        let from = self.iter_from(main);
        self.skipped + self.len - (from.block * BLOCK_ENTRIES + from.at)
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The newest revision of an entry, `None` if there is no entry.
    pub(crate) fn newest(&self) -> Option<Revision> {
        (self.len > 0).then_some(self.last)
    }

    /// Bytes of memory taken.
    pub(crate) fn accounted_bytes(&self) -> usize {
        self.bytes
    }

    /// The same by a walk over the blocks.
    pub(crate) fn walk_accounted_bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes()).sum()
    }
}

/// The revision of the entry after that of `revision`; `starts` tells whether its sub is 0.
fn follow(revision: Revision, starts: bool) -> Revision {
    if starts {
        Revision { main: revision.main + 1, sub: 0 }
    } else {
        Revision { main: revision.main, sub: revision.sub + 1 }
    }
}

/// The entries from some revision on.
pub(crate) struct RevisionLogIter<'a> {
    log: &'a RevisionLog,
    block: usize,
    at: usize,
    /// The revision of the entry at the current position.
    revision: Revision,
}

impl Iterator for RevisionLogIter<'_> {
    type Item = RevisionLogEntry;

    fn next(&mut self) -> Option<RevisionLogEntry> {
        let mut block = self.log.blocks.get(self.block)?;
        if self.at >= block.len {
            self.block += 1;
            self.at = 0;
            block = self.log.blocks.get(self.block)?;
            self.revision = block.first;
        }
        #[cfg(test)]
        crate::index::steps::count();
        let slot = block.slot(self.at);
        let entry =
            RevisionLogEntry { revision: self.revision, slot: (slot != UNKNOWN_SLOT).then_some(slot) };
        self.at += 1;
        if self.at < block.len {
            self.revision = follow(self.revision, block.starts_at(self.at));
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(main: i64, sub: u32, slot: u32) -> RevisionLogEntry {
        RevisionLogEntry { revision: Revision { main, sub }, slot: Some(slot) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn behaves_as_a_list(sizes in prop::collection::vec(prop_oneof![9 => 1..4u32, 1 => 1..3000u32], 1..800),
                             popped in 0..4000usize, froms in prop::collection::vec(0..1000i64, 8)) {
            let mut log = RevisionLog::default();
            let mut model = Vec::new();
            for (main, size) in sizes.iter().enumerate() {
                for sub in 0..*size {
                    let slot = model.len() as u32;
                    log.push(Revision { main: main as i64 + 2, sub }, slot);
                    model.push(entry(main as i64 + 2, sub, slot));
                }
            }
            let popped = popped.min(model.len());
            for _ in 0..popped {
                log.pop_front();
            }
            model.drain(..popped);
            prop_assert_eq!(log.len(), model.len());
            prop_assert_eq!(log.front(), model.first().copied());
            for from in froms {
                let want: Vec<_> = model.iter().filter(|entry| entry.revision.main >= from).copied().collect();
                prop_assert_eq!(log.len_from(from), want.len());
                prop_assert_eq!(log.iter_from(from).collect::<Vec<_>>(), want.clone());
                for at in [want.len() / 2, want.len() / 7] {
                    if let Some(entry) = want.get(at) {
                        prop_assert_eq!(log.iter_at(entry.revision).collect::<Vec<_>>(), want[at..].to_vec());
                    }
                }
            }
            let last = model.last().map_or(2 + sizes.len() as i64 - 1, |entry| entry.revision.main);
            log.push(Revision { main: last + 1, sub: 0 }, 7);
            prop_assert_eq!(log.iter_from(last + 1).collect::<Vec<_>>(), [entry(last + 1, 0, 7)]);
        }
    }

    #[test]
    fn unknown_changes_leave_gaps() {
        let mut log = RevisionLog::default();
        log.push_after_unknown(Revision { main: 5, sub: 1 }, 1);
        log.push_after_unknown(Revision { main: 8, sub: 0 }, 2);
        let got: Vec<_> =
            log.iter_from(0).map(|entry| (entry.revision.main, entry.revision.sub, entry.slot)).collect();
        assert_eq!(got, [(5, 0, None), (5, 1, Some(1)), (6, 0, None), (7, 0, None), (8, 0, Some(2))]);
    }
}
