//! Applied entries that are read back from disk for followers that lag.
//!
//! The raft library asks the view for entries through a shared reference and takes "not now" for an answer. So a
//! request that memory cannot serve is noted here as a [`Fetch`], handed to the owner, and its entries are kept as a
//! chunk until the followers that wait have been sent them:
//!
//! ```text
//! library                 view                             owner
//! entries(100..400) -->   ask(100..400)
//!                   <--   "temporarily unavailable"
//!                         take_fetches()  ---------------> reads 100..180, which makes max_bytes
//!                         keep(100, ..)   <--------------- entries_fetched(100, ..)
//! entries(100..400) -->   chunk 100..180
//! ```
//!
//! Fetched entries are applied, hence committed, hence final: they cannot be outdated by the time they arrive.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use raft::eraftpb::Entry;

/// Bytes of payload asked for in one fetch: a few messages' worth, so that a lagging follower waits for the disk once
/// in several messages.
pub const MAX_FETCH_BYTES: u64 = 4 << 20;
/// Fetched chunks kept at a time: one for each of a few followers that lag at different indexes.
const MAX_CHUNKS: usize = 4;

/// Entries `from..to` wanted from the log. The first few that make `max_bytes` are enough, but at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    /// The first index; names the fetch.
    pub from: u64,
    /// One past the last index.
    pub to: u64,
    /// Enough bytes of payload.
    pub max_bytes: u64,
}

/// The fetches wanted, the fetches under way, and the chunks they brought.
#[derive(Default)]
pub(crate) struct FetchedEntries {
    /// Consecutive within a chunk, oldest chunk first; no chunk is empty.
    chunks: VecDeque<Vec<Entry>>,
    /// Behind a cell because the library asks through a shared reference.
    requests: RefCell<FetchRequests>,
}

#[derive(Default)]
struct FetchRequests {
    wanted: Vec<Fetch>,
    /// `from` of all fetches wanted, or handed out and not answered.
    unanswered: BTreeSet<u64>,
}

impl FetchedEntries {
    /// Wants entries `from..to`, unless a fetch from there is wanted or under way already.
    pub(crate) fn ask(&self, from: u64, to: u64) {
        let mut requests = self.requests.borrow_mut();
        if requests.unanswered.insert(from) {
            requests.wanted.push(Fetch { from, to, max_bytes: MAX_FETCH_BYTES });
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        !self.requests.borrow().wanted.is_empty()
    }

    /// The fetches to hand to the owner.
    pub(crate) fn take_wanted(&mut self) -> Vec<Fetch> {
        std::mem::take(&mut self.requests.get_mut().wanted)
    }

    /// The fetch that begins at `from` was answered, with entries or without.
    pub(crate) fn answered(&mut self, from: u64) {
        self.requests.get_mut().unanswered.remove(&from);
    }

    /// Keeps `entries`, which are consecutive and not empty.
    pub(crate) fn keep(&mut self, entries: Vec<Entry>) {
        let from = entries[0].index;
        self.chunks.retain(|chunk| chunk[0].index != from);
        while self.chunks.len() >= MAX_CHUNKS {
            self.chunks.pop_front();
        }
        self.chunks.push_back(entries);
    }

    /// The chunk that holds `index`.
    pub(crate) fn chunk_with(&self, index: u64) -> Option<&[Entry]> {
        let holds =
            |chunk: &&Vec<Entry>| chunk[0].index <= index && index - chunk[0].index < chunk.len() as u64;
        self.chunks.iter().find(holds).map(Vec::as_slice)
    }

    /// One past the last entry of the chunk that begins at `from`.
    pub(crate) fn chunk_end(&self, from: u64) -> Option<u64> {
        self.chunks.iter().find(|chunk| chunk[0].index == from).map(|chunk| from + chunk.len() as u64)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Drops the chunks of which no peer is sent an entry next.
    pub(crate) fn keep_for(&mut self, next_indexes: &[u64]) {
        self.chunks.retain(|chunk| {
            let range = chunk[0].index..chunk[0].index + chunk.len() as u64;
            next_indexes.iter().any(|next| range.contains(next))
        });
    }

    /// Drops the chunks that begin at or before `index`: the log no longer holds these entries.
    pub(crate) fn truncate_to(&mut self, index: u64) {
        self.chunks.retain(|chunk| chunk[0].index > index);
    }

    /// Drops all chunks: the log begins again after a snapshot.
    pub(crate) fn clear_chunks(&mut self) {
        self.chunks.clear();
    }

    /// Drops what only a leader needs. Fetches under way are still answered.
    pub(crate) fn forget_followers(&mut self) {
        self.chunks.clear();
        let requests = self.requests.get_mut();
        for fetch in std::mem::take(&mut requests.wanted) {
            requests.unanswered.remove(&fetch.from);
        }
    }
}
