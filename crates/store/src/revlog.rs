//! The revision log: which key each change changed, in the order of revisions.
//!
//! It reaches from its *floor*, the oldest revision that has not been purged, to now, without a hole: every
//! revision has at least one entry and subs count from 0. So an entry is only a slot of the index (4 bytes)
//! and one bit that says where a revision starts; `(main, sub)` follows from the position. Where a restored
//! checkpoint knows that a change happened but not to which key (its version has been purged since), there is
//! a [gap](Entry::slot).
//!
//! Watchers catch up from it, counts at older revisions correct the present count with it, purging is driven
//! by it.

use std::collections::VecDeque;

use crate::types::Revision;

#[cfg(test)]
mod tests;

/// Entries in a block: the bitmap of one takes two cache lines.
const BLOCK_ENTRIES: usize = 1024;
const WORDS: usize = BLOCK_ENTRIES / 64;

/// Stands for a change of unknown key; no slot has this number.
const GAP: u32 = u32::MAX;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When.
    pub revision: Revision,
    /// The key's slot in the index, `None` in a gap.
    pub slot: Option<u32>,
}

struct Block {
    /// The revision of the first entry.
    first: Revision,
    /// Entries.
    len: usize,
    /// Their slots, without the gaps at the end: a block of nothing but gaps takes no memory for them.
    slots: Vec<u32>,
    /// A set bit for each entry with sub 0.
    starts: [u64; WORDS],
}

impl Block {
    fn new(first: Revision) -> Box<Block> {
        Box::new(Block { first, len: 0, slots: Vec::new(), starts: [0; WORDS] })
    }

    fn push(&mut self, slot: u32, starts: bool) {
        let at = self.len;
        if slot != GAP {
            self.slots.reserve_exact(BLOCK_ENTRIES - self.slots.len());
            self.slots.resize(at, GAP);
            self.slots.push(slot);
        }
        self.starts[at / 64] |= u64::from(starts) << (at % 64);
        self.len += 1;
    }

    fn slot(&self, at: usize) -> u32 {
        self.slots.get(at).copied().unwrap_or(GAP)
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

/// See the module.
#[derive(Default)]
pub(crate) struct RevisionLog {
    blocks: VecDeque<Box<Block>>,
    /// Entries of the first block that are gone.
    skipped: usize,
    /// The revision of the first entry that is left.
    front: Revision,
    last: Revision,
    len: usize,
}

impl RevisionLog {
    /// Adds the newest change.
    pub(crate) fn push(&mut self, revision: Revision, slot: u32) {
        assert!(slot != GAP, "the number of gaps is nobody's slot");
        self.append(revision, slot);
    }

    /// Adds the newest change, with gaps before it for changes that are not known. Restoring needs it.
    pub(crate) fn push_after_gaps(&mut self, revision: Revision, slot: u32) {
        while self.len > 0 && self.last.main + 1 < revision.main {
            self.append(Revision { main: self.last.main + 1, sub: 0 }, GAP);
        }
        let next_sub = if self.len > 0 && self.last.main == revision.main { self.last.sub + 1 } else { 0 };
        for sub in next_sub..revision.sub {
            self.append(Revision { main: revision.main, sub }, GAP);
        }
        self.append(revision, slot);
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
            self.blocks.push_back(Block::new(revision));
        }
        let block = self.blocks.back_mut().expect("a block was pushed if there was none");
        block.push(slot, revision.sub == 0);
        self.last = revision;
        self.len += 1;
    }

    /// The oldest entry.
    pub(crate) fn front(&self) -> Option<Entry> {
        self.iter_from(i64::MIN).next()
    }

    /// Takes the oldest entry out.
    pub(crate) fn pop_front(&mut self) {
        let Some(block) = self.blocks.front() else { return };
        self.skipped += 1;
        self.len -= 1;
        let exhausted = self.skipped == block.len;
        if !exhausted {
            self.front = follow(self.front, block.starts_at(self.skipped));
            return;
        }
        self.blocks.pop_front();
        self.skipped = 0;
        if let Some(block) = self.blocks.front() {
            self.front = block.first;
        }
    }

    /// Entries with `main` or later, oldest first.
    pub(crate) fn iter_from(&self, main: i64) -> Entries<'_> {
        let nothing = Entries { log: self, block: self.blocks.len(), at: 0, revision: Revision::default() };
        if self.len == 0 || main > self.last.main {
            return nothing;
        }
        if main <= self.front.main {
            return Entries { log: self, block: 0, at: self.skipped, revision: self.front };
        }
        // The last block that starts below `main` holds its first entry, or the block after it does at
        // position 0.
        let block =
            self.blocks.partition_point(|block| block.first < Revision { main, sub: 0 }).saturating_sub(1);
        let at = self.blocks[block].position_of(main);
        Entries { log: self, block, at, revision: Revision { main, sub: 0 } }
    }

    /// Entries from `revision` on, which must be one that an iterator of this log gave: walks go on here in
    /// one step, however many changes the revision has.
    pub(crate) fn iter_at(&self, revision: Revision) -> Entries<'_> {
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

    /// How many entries have `main` or later.
    pub(crate) fn len_from(&self, main: i64) -> usize {
        if self.len == 0 || main > self.last.main {
            return 0;
        }
        let from = self.iter_from(main);
        self.skipped + self.len - (from.block * BLOCK_ENTRIES + from.at)
    }

    /// Entries in all.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory taken.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        let slots = self.blocks.iter().map(|block| block.slots.capacity() * size_of::<u32>());
        slots.sum::<usize>() + self.blocks.len() * (size_of::<Block>() + size_of::<usize>())
    }
}

/// The revision after `revision`, given whether the next entry starts one.
fn follow(revision: Revision, starts: bool) -> Revision {
    if starts {
        Revision { main: revision.main + 1, sub: 0 }
    } else {
        Revision { main: revision.main, sub: revision.sub + 1 }
    }
}

/// Entries from some revision on.
pub(crate) struct Entries<'a> {
    log: &'a RevisionLog,
    block: usize,
    at: usize,
    /// Of the entry at the current position.
    revision: Revision,
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let mut block = self.log.blocks.get(self.block)?;
        if self.at >= block.len {
            self.block += 1;
            self.at = 0;
            block = self.log.blocks.get(self.block)?;
            self.revision = block.first;
        }
        let slot = block.slot(self.at);
        let entry = Entry { revision: self.revision, slot: (slot != GAP).then_some(slot) };
        self.at += 1;
        if self.at < block.len {
            self.revision = follow(self.revision, block.starts_at(self.at));
        }
        Some(entry)
    }
}
