//! The raft library's view of the log, all of it in memory.
//!
//! The view knows the term of every entry ([`Terms`]) and holds the recent entries: always all that are not applied,
//! and before those as many as [`MAX_RECENT_BYTES`] allows. Older entries are only wanted to send them to a follower
//! that lags; then the view asks the owner to read them from disk ([`FetchedEntries`]).
//!
//! ```text
//!          truncated |  on disk only      | recent, in memory                |
//! index    1 ... 900 | 901 ......... 4000 | 4001 ....... 4200 | 4201 ... 4210 |
//!                    ^ first              ^ recent_first      ^ applied       ^ last
//! terms    900: 2    | 901-2500: 2 | 2501-4210: 5 |                           (runs, for every index)
//!
//! a follower at 4100   is sent 4100.. from memory
//! a follower at 3000   is sent 3000.. once the owner has fetched them
//! a follower at 500    needs a snapshot: the entries are gone
//! ```
//!
//! A snapshot is only named here. When a follower needs one, the view notes that a snapshot is wanted, and the owner
//! offers one when it has pinned its state.
//!
//! Invariants ([`LogView::check`]): `recent` is consecutive and ends at `last`; every entry after `applied` is in
//! `recent`; an applied entry is never replaced.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raft::eraftpb::{Entry, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Result, Storage, StorageError};

use crate::log_view::fetched::{Fetch, FetchedEntries};
use crate::log_view::terms::Terms;
use crate::message::{SnapshotMeta, snapshot_to_raft};

/// Bytes of applied entries kept for followers a little behind, so that a hiccup does not read disk.
pub const MAX_RECENT_BYTES: usize = 16 << 20;
/// What an entry counts for in these limits besides its payload.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// The log of this member, without what is only on disk.
pub(crate) struct LogView {
    initial: RaftState,
    terms: Terms,
    /// Consecutive, ending at the last entry of the log.
    recent: VecDeque<Entry>,
    recent_bytes: usize,
    applied: u64,
    fetched: FetchedEntries,
    /// The snapshots that owner and library may send now, by peer.
    offers: BTreeMap<u64, Snapshot>,
    /// Peers that need a snapshot. Behind a cell because the library asks through a shared reference.
    snapshots_wanted: RefCell<BTreeSet<u64>>,
}

fn weight(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + ENTRY_OVERHEAD_BYTES
}

impl LogView {
    pub(crate) fn new(initial: RaftState, terms: Terms, recent: Vec<Entry>, applied: u64) -> LogView {
        let recent_bytes = recent.iter().map(weight).sum();
        LogView {
            initial,
            terms,
            recent: recent.into(),
            recent_bytes,
            applied,
            fetched: FetchedEntries::default(),
            offers: BTreeMap::new(),
            snapshots_wanted: RefCell::default(),
        }
    }

    /// Bytes of the entries in memory.
    pub(crate) fn recent_bytes(&self) -> usize {
        self.recent_bytes
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

    /// Appends entries, after dropping those they replace.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.applied, "an applied entry is never replaced");
        assert!(first.index <= self.last() + 1, "the log has no hole");
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
        self.fetched.clear_chunks();
    }

    /// Entries up to `index` are applied and may leave memory.
    pub(crate) fn applied(&mut self, index: u64) {
        self.applied = index;
        self.evict();
    }

    /// Keeps at most `max_bytes` of entries that are applied, and frees what held the others.
    pub(crate) fn release(&mut self, max_bytes: usize) {
        self.evict_to(max_bytes);
        self.recent.shrink_to_fit();
    }

    fn evict(&mut self) {
        self.evict_to(MAX_RECENT_BYTES);
    }

    fn evict_to(&mut self, max_bytes: usize) {
        while self.recent_bytes > max_bytes
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
        self.fetched.truncate_to(index);
    }

    /// Takes what is newly wanted: entries, and peers in need of a snapshot.
    pub(crate) fn take_wanted(&mut self) -> (Vec<Fetch>, Vec<u64>) {
        let snapshots = std::mem::take(self.snapshots_wanted.get_mut());
        (self.fetched.take_wanted(), snapshots.into_iter().collect())
    }

    pub(crate) fn wants_something(&self) -> bool {
        self.fetched.is_wanted() || !self.snapshots_wanted.borrow().is_empty()
    }

    /// The fetch that begins at `from` was answered, with entries or without.
    pub(crate) fn fetch_answered(&mut self, from: u64) {
        self.fetched.answered(from);
    }

    /// Keeps fetched entries. False if they are not what the log holds from `from` on.
    pub(crate) fn keep_fetched(&mut self, from: u64, entries: Vec<Entry>) -> bool {
        let fits = |(entry, index): (&Entry, u64)| {
            entry.index == index && self.terms.at(index) == Some(entry.term) && index <= self.applied
        };
        if entries.is_empty() || from < self.first() || !entries.iter().zip(from..).all(fits) {
            return false;
        }
        self.fetched.keep(entries);
        true
    }

    /// One past the last entry of the fetched chunk that begins at `from`.
    pub(crate) fn fetched_end(&self, from: u64) -> Option<u64> {
        self.fetched.chunk_end(from)
    }

    /// Whether fetched entries are in memory.
    pub(crate) fn has_fetched(&self) -> bool {
        !self.fetched.is_empty()
    }

    /// Keeps only the fetched chunks from which a peer is sent an entry next.
    pub(crate) fn keep_fetched_for(&mut self, next_indexes: &[u64]) {
        self.fetched.keep_for(next_indexes);
    }

    /// The snapshot to send `peer` when the library asks next.
    pub(crate) fn offer(&mut self, peer: u64, snapshot: &SnapshotMeta) {
        self.offers.insert(peer, snapshot_to_raft(snapshot));
    }

    pub(crate) fn withdraw_offer(&mut self, peer: u64) {
        self.offers.remove(&peer);
    }

    /// Drops what only a leader needs.
    pub(crate) fn forget_followers(&mut self) {
        self.offers.clear();
        self.fetched.forget_followers();
        self.snapshots_wanted.get_mut().clear();
    }

    /// Asserts the invariants of the module head, at constant cost.
    pub(crate) fn check(&self) {
        // While a snapshot is installed, the log begins beyond what is applied.
        let unapplied_first = self.first().max(self.applied + 1);
        assert!(self.recent_first() <= unapplied_first, "entries not applied are in memory");
        assert!(self.applied <= self.last(), "an applied entry is in the log");
        let ends = [self.recent.front(), self.recent.back()];
        let expected = [self.recent_first(), self.last()];
        for (entry, index) in ends.into_iter().flatten().zip(expected) {
            assert_eq!(entry.index, index, "recent entries are the last of the log");
            assert_eq!(self.terms.at(index), Some(entry.term), "a recent entry has the term of its index");
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

impl Storage for LogView {
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
        if let Some(chunk) = self.fetched.chunk_with(low) {
            let wanted = chunk.iter().filter(|entry| entry.index >= low && entry.index < high);
            return Ok(take_some(wanted, max_bytes));
        }
        self.fetched.ask(low, high.min(recent_first));
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
        self.snapshots_wanted.borrow_mut().insert(to);
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
