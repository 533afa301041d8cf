//! The library's view of the log, all of it in memory.
//!
//! It knows the term of every entry and holds the recent entries themselves: always all that are not applied, and
//! before those as many as [`MAX_RECENT_BYTES`] allows. Older entries are only ever wanted to send them to a
//! follower that lags; the view then asks for them (a [`Fetch`]), the owner reads them from disk in its own time
//! and feeds them back. What is fetched is applied, hence committed, hence final: it cannot be outdated by the time it
//! arrives.
//!
//! Likewise a snapshot is only named here. When a follower needs what the log no longer has, the view asks
//! for a snapshot, and the owner offers one when it has pinned its state.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raft::eraftpb::{Entry, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Result, Storage, StorageError};

use crate::convert::{entry_from_raft, snapshot_to_raft};
use crate::terms::Terms;
use crate::{Fetch, SnapshotMeta};

/// Bytes of applied entries kept for followers a little behind, so that a hiccup does not read disk.
pub const MAX_RECENT_BYTES: usize = 16 << 20;
/// Bytes asked for in one fetch: a few messages' worth, so that a lagging follower does not wait for the disk once a
/// message.
pub const MAX_FETCH_BYTES: u64 = 4 << 20;
/// Fetched chunks kept at a time: one for each of a few followers that lag at different places.
const MAX_CHUNKS: usize = 4;
/// What an entry weighs besides its payload, in these limits.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// See the module.
pub(crate) struct View {
    initial: RaftState,
    terms: Terms,
    /// Consecutive, ending at the last entry of the log.
    recent: VecDeque<Entry>,
    recent_bytes: usize,
    applied: u64,
    /// Entries read back from disk, consecutive within a chunk, oldest chunk first.
    chunks: VecDeque<Vec<Entry>>,
    offers: BTreeMap<u64, Snapshot>,
    /// Behind a cell because the library asks through a shared reference.
    wanted: RefCell<Wanted>,
}

/// What the library asked for and did not get.
#[derive(Default)]
struct Wanted {
    fetches: Vec<Fetch>,
    /// `from` of the fetches handed out and not answered.
    under_way: BTreeSet<u64>,
    snapshots: BTreeSet<u64>,
}

fn weight(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + ENTRY_OVERHEAD_BYTES
}

impl View {
    pub(crate) fn new(initial: RaftState, terms: Terms, recent: Vec<Entry>, applied: u64) -> View {
        let recent_bytes = recent.iter().map(weight).sum();
        View {
            initial,
            terms,
            recent: recent.into(),
            recent_bytes,
            applied,
            chunks: VecDeque::new(),
            offers: BTreeMap::new(),
            wanted: RefCell::default(),
        }
    }

    pub(crate) fn first(&self) -> u64 {
        self.terms.first()
    }

    pub(crate) fn last(&self) -> u64 {
        self.terms.last()
    }

    fn recent_first(&self) -> u64 {
        self.terms.last() + 1 - self.recent.len() as u64
    }

    /// Adds entries, first dropping what they replace.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.applied, "an applied entry is never replaced");
        assert!(first.index <= self.last() + 1, "the log has no gap");
        while self.last() >= first.index {
            self.terms.cut_from(self.last());
            let dropped = self.recent.pop_back().expect("entries not applied are in memory");
            self.recent_bytes -= weight(&dropped);
        }
        for entry in entries {
            self.terms.extend_to(entry.index, entry.term);
            self.recent_bytes += weight(entry);
            self.recent.push_back(entry.clone());
        }
        self.evict();
    }

    /// The log now begins after a snapshot.
    pub(crate) fn restart_after(&mut self, snapshot: &SnapshotMeta) {
        self.terms = Terms::starting_after((snapshot.index, snapshot.term));
        self.recent.clear();
        self.recent_bytes = 0;
        self.chunks.clear();
    }

    /// Entries up to `index` are applied and may leave memory.
    pub(crate) fn applied(&mut self, index: u64) {
        self.applied = index;
        self.evict();
    }

    fn evict(&mut self) {
        while self.recent_bytes > MAX_RECENT_BYTES
            && self.recent.front().is_some_and(|entry| entry.index <= self.applied)
        {
            self.recent_bytes -= self.recent.pop_front().map_or(0, |entry| weight(&entry));
        }
    }

    /// The owner's log no longer holds `index` and what is before it.
    pub(crate) fn truncate_to(&mut self, index: u64) {
        assert!(index <= self.applied, "only applied entries leave the log");
        self.terms.truncate_to(index);
        let gone = self.recent.iter().take_while(|entry| entry.index <= index).count();
        self.recent_bytes -= self.recent.drain(..gone).map(|entry| weight(&entry)).sum::<usize>();
        self.chunks.retain(|chunk| chunk.first().is_some_and(|entry| entry.index > index));
    }

    /// Takes what is newly wanted: entries, and peers in need of a snapshot.
    pub(crate) fn take_wanted(&mut self) -> (Vec<Fetch>, Vec<u64>) {
        let wanted = self.wanted.get_mut();
        let fetches = std::mem::take(&mut wanted.fetches);
        (fetches, std::mem::take(&mut wanted.snapshots).into_iter().collect())
    }

    pub(crate) fn wants_something(&self) -> bool {
        let wanted = self.wanted.borrow();
        !wanted.fetches.is_empty() || !wanted.snapshots.is_empty()
    }

    /// A fetch ended, with or without entries.
    pub(crate) fn fetch_ended(&mut self, from: u64) {
        self.wanted.get_mut().under_way.remove(&from);
    }

    /// Keeps fetched entries; says whether they are what the log holds from `from` on.
    pub(crate) fn keep_chunk(&mut self, from: u64, entries: Vec<Entry>) -> bool {
        let fits = |(entry, index): (&Entry, u64)| {
            entry.index == index && self.terms.at(index) == Some(entry.term) && index <= self.applied
        };
        if entries.is_empty() || from < self.first() || !entries.iter().zip(from..).all(fits) {
            return false;
        }
        self.chunks.retain(|chunk| chunk[0].index != from);
        while self.chunks.len() >= MAX_CHUNKS {
            self.chunks.pop_front();
        }
        self.chunks.push_back(entries);
        true
    }

    /// One past the last entry of the chunk that begins at `from`.
    pub(crate) fn chunk_end(&self, from: u64) -> Option<u64> {
        self.chunks.iter().find(|chunk| chunk[0].index == from).map(|chunk| from + chunk.len() as u64)
    }

    /// Drops the chunks that nobody reads: no peer is at one of their entries.
    pub(crate) fn keep_chunks_for(&mut self, peers_at: &[u64]) {
        self.chunks.retain(|chunk| {
            let range = chunk[0].index..chunk[0].index + chunk.len() as u64;
            peers_at.iter().any(|next| range.contains(next))
        });
    }

    pub(crate) fn has_chunks(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// The snapshot to send `peer` when the library asks next.
    pub(crate) fn offer(&mut self, peer: u64, snapshot: &SnapshotMeta) {
        self.offers.insert(peer, snapshot_to_raft(snapshot));
    }

    pub(crate) fn withdraw_offer(&mut self, peer: u64) {
        self.offers.remove(&peer);
    }

    /// What only a leader needs goes with the leadership.
    pub(crate) fn forget_followers(&mut self) {
        self.offers.clear();
        self.chunks.clear();
        let wanted = self.wanted.get_mut();
        wanted.snapshots.clear();
        // Fetches already handed out are still answered; the rest need not be.
        for fetch in std::mem::take(&mut wanted.fetches) {
            wanted.under_way.remove(&fetch.from);
        }
    }

    fn ask_for(&self, from: u64, to: u64) {
        let mut wanted = self.wanted.borrow_mut();
        if wanted.under_way.insert(from) {
            wanted.fetches.push(Fetch { from, to, max_bytes: MAX_FETCH_BYTES });
        }
    }
}

/// Up to `max_bytes` of `entries`, but at least one.
fn take_some<'a>(entries: impl Iterator<Item = &'a Entry>, max_bytes: Option<u64>) -> Vec<Entry> {
    let max_bytes = max_bytes.unwrap_or(u64::MAX);
    let mut bytes = 0;
    let fits = |entry: &&Entry| {
        let first = bytes == 0;
        bytes += weight(entry) as u64;
        first || bytes <= max_bytes
    };
    entries.take_while(fits).cloned().collect()
}

impl Storage for View {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(self.initial.clone())
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        if low < self.first() {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last() + 1, "entries up to {high} of a log that ends at {}", self.last());
        let max_bytes = max_size.into();
        let recent_first = self.recent_first();
        if low >= recent_first {
            let range = (low - recent_first) as usize..(high - recent_first) as usize;
            return Ok(take_some(self.recent.range(range), max_bytes));
        }
        assert!(context.can_async(), "entries not applied are in memory");
        let in_chunk =
            |chunk: &&Vec<Entry>| chunk[0].index <= low && low - chunk[0].index < chunk.len() as u64;
        if let Some(chunk) = self.chunks.iter().find(in_chunk) {
            let wanted = chunk.iter().filter(|entry| entry.index >= low && entry.index < high);
            return Ok(take_some(wanted, max_bytes));
        }
        self.ask_for(low, high.min(recent_first));
        Err(Error::Store(StorageError::LogTemporarilyUnavailable))
    }

    fn term(&self, index: u64) -> Result<u64> {
        let missing = if index < self.first() { StorageError::Compacted } else { StorageError::Unavailable };
        self.terms.at(index).ok_or(Error::Store(missing))
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, _request_index: u64, to: u64) -> Result<Snapshot> {
        if let Some(snapshot) = self.offers.get(&to) {
            return Ok(snapshot.clone());
        }
        self.wanted.borrow_mut().snapshots.insert(to);
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}

/// Turns the library's entries into ours, moving the payloads.
pub(crate) fn ours(entries: Vec<Entry>) -> Vec<crate::Entry> {
    entries.into_iter().map(entry_from_raft).collect()
}
