//! Applying committed entries: in order, one batch at a time, a batch in one slice or several.
//!
//! Apply is a total function of the log: every member gets the same outcome for every command, refusals included. Only
//! values that a compare needs can hold it up: the batch waits until those on the disk are read, on another thread, and
//! until a damaged one is repaired.
//!
//! ```text
//! committed by consensus: push(41) push(42)        applied: 40   committed: 42   queue: 41 42
//! apply 41: done                                   applied: 41                   queue: 42
//! apply 42: compares a value on disk -> blocked    applied: 41                   queue: 42 (blocked)
//! the value is read: unblock, apply 42             applied: 42                   queue: -
//! ```
//!
//! What waits here is in memory, and does not become less while the first entry waits. So the member looks at
//! [`ApplyQueue::bytes`] before it lets more in: while [`crate::config::MAX_UNAPPLIED_BYTES`] wait, a leader proposes
//! nothing, and a follower takes no entries from its leader unless a quorum needs it ([`backpressure`]).

pub(crate) mod backpressure;
mod batch;
mod commands;

use std::collections::VecDeque;

use consensus::Entry;
use log::LogId;
use store::{BatchContext, Store};

use crate::io::MemberFatal;
use crate::proposals::batch::Origin;
use batch::DecodedCommand;
use commands::{context, decode_batch};

pub(crate) use batch::BatchBeingApplied;
pub(crate) use commands::{ReplayError, applied_id, callers, decode_all, from_log, is_removal_of, replay};

/// What an entry counts for besides its payload.
const ENTRY_OVERHEAD_BYTES: u64 = 64;

/// Committed entries that are not applied yet.
#[derive(Debug, Default)]
pub(crate) struct ApplyQueue {
    queue: VecDeque<Entry>,
    /// What the entries of `queue` count for.
    bytes: u64,
    applied: LogId,
    /// Whether the first entry waits for a value.
    blocked: bool,
    /// Whether the first entry is tried again in the next step only.
    deferred: bool,
}

impl ApplyQueue {
    /// Nothing waits; the state is that of `applied`.
    pub(crate) fn at(applied: LogId) -> ApplyQueue {
        ApplyQueue { applied, ..ApplyQueue::default() }
    }

    /// Adds a committed entry.
    pub(crate) fn push(&mut self, entry: Entry) {
        assert!(entry.index == self.committed() + 1, "entry {} is committed out of order", entry.index);
        self.bytes += weight(&entry);
        self.queue.push_back(entry);
    }

    /// Bytes of the entries that wait, those of one entry counting as its payload and a little more.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next entry to apply, unless it waits for a value.
    pub(crate) fn next(&self) -> Option<Entry> {
        if self.blocked { None } else { self.queue.front().cloned() }
    }

    /// Whether the next step has an entry to apply.
    pub(crate) fn is_ready(&self) -> bool {
        !self.blocked && !self.deferred && !self.queue.is_empty()
    }

    /// The next entry is tried again whenever a step is made for another reason.
    pub(crate) fn defer(&mut self) {
        self.deferred = true;
    }

    /// A step begins.
    pub(crate) fn begin_step(&mut self) {
        self.deferred = false;
    }

    /// The next entry is applied.
    pub(crate) fn advance(&mut self) {
        let entry = self.queue.pop_front().expect("an entry was applied, so it waited");
        self.bytes -= weight(&entry);
        assert!(entry.term >= self.applied.term, "terms never decrease along the log");
        self.applied = LogId { index: entry.index, term: entry.term };
    }

    /// The next entry needs a value that is on disk, or damaged.
    pub(crate) fn block(&mut self) {
        self.blocked = true;
    }

    /// The next entry may be tried again.
    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// The applied entry.
    pub(crate) fn applied_id(&self) -> LogId {
        self.applied
    }

    /// Index of the applied entry.
    pub(crate) fn applied(&self) -> u64 {
        self.applied.index
    }

    /// Index of the highest entry known committed.
    pub(crate) fn committed(&self) -> u64 {
        self.queue.back().map_or(self.applied.index, |entry| entry.index)
    }
}

fn weight(entry: &Entry) -> u64 {
    entry.payload.len() as u64 + ENTRY_OVERHEAD_BYTES
}

/// Begins to apply the batch of an entry whose payload lies at `address`. Callers of commands from `origin` wait in
/// this process.
///
/// # Errors
/// The batch cannot be applied by this release.
pub(crate) fn begin_batch(
    store: &mut Store,
    entry: &Entry,
    address: u64,
    origin: Origin,
    is_watched: bool,
) -> Result<BatchBeingApplied, MemberFatal> {
    let batch = decode_batch(entry)
        .map_err(|error| MemberFatal::Entry { index: entry.index, reason: error.to_string() })?;
    let (decoded, store_commands) = decode_all(batch.commands);
    let context = BatchContext {
        callers: callers(&decoded),
        ..context(entry, address, batch.clock_ms, has_caller(&decoded, origin), is_watched)
    };
    store.begin_batch(context, store_commands);
    Ok(BatchBeingApplied { decoded, is_watched })
}

/// For each store command, whether its caller waits in this process.
fn has_caller(decoded: &[DecodedCommand], origin: Origin) -> Vec<bool> {
    let own = decoded.iter().map(|one| (one.command.origin == origin, one.store_commands));
    own.flat_map(|(own, count)| std::iter::repeat_n(own, count)).collect()
}

#[cfg(test)]
mod tests {
    //! The order of entries, what blocking holds up, and entries that do not decode.
    use consensus::{ConfState, EntryKind};

    use super::*;
    use crate::proposals::batch;
    use crate::tests::LogAndStore;

    fn entry(index: u64) -> Entry {
        Entry { term: 2, index, kind: EntryKind::Empty, payload: Default::default() }
    }

    #[test]
    fn a_blocked_entry_holds_up_those_after_it() {
        let mut queue = ApplyQueue::at(LogId { index: 40, term: 1 });
        queue.push(entry(41));
        queue.push(entry(42));
        assert_eq!((queue.applied(), queue.committed()), (40, 42));
        queue.block();
        assert_eq!(queue.next(), None);
        queue.unblock();
        assert_eq!(queue.next(), Some(entry(41)));
        queue.advance();
        assert_eq!(queue.applied_id(), LogId { index: 41, term: 2 });
        assert_eq!(queue.next(), Some(entry(42)));
    }

    #[test]
    fn only_an_unknown_version_stops_a_member() {
        let mut state = LogAndStore::new(&[1]);
        let before = state.reader.applied().index;
        let mut payload = |bytes: Vec<u8>| {
            let index = state.reader.applied().index + 1;
            let entry = Entry { term: 1, index, kind: EntryKind::Batch, payload: bytes.into() };
            replay(&mut state.store, &mut ConfState::of_voters([1]), &entry, 0)
        };
        let good = batch::encode(7, &[]).to_vec();
        assert!(payload(good[..good.len() - 1].to_vec()).is_ok());
        assert!(payload([&good[..], &[0]].concat()).is_ok());
        assert!(payload([&[99], &good[1..]].concat()).is_err());
        assert_eq!(state.reader.applied().index, before + 2, "the entries count as applied");
        let unknown = [&[99], &good[1..]].concat().into();
        let entry = Entry { term: 1, index: before + 3, kind: EntryKind::Batch, payload: unknown };
        let origin = Origin { member: 1, run: 1 };
        let stopped =
            begin_batch(&mut state.store, &entry, 0, origin, false).err().map(|fatal| fatal.to_string());
        assert!(stopped.is_some_and(|text| text.contains("run a release that knows it")));
        assert_eq!(state.reader.applied().index, before + 2, "nothing of it was applied");
    }

    #[test]
    #[should_panic(expected = "committed out of order")]
    fn entries_are_committed_in_order() {
        let mut queue = ApplyQueue::at(LogId { index: 40, term: 1 });
        queue.push(entry(42));
    }
}
