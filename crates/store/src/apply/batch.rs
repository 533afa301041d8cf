//! A slice of a batch that is being applied: the state under its write lock, and what the batch has produced so far.

use bytes::Bytes;

use super::fetch::FetchedValues;
use crate::auth::Caller;
use crate::command::{BatchContext, LeaseChange, Outcome};
use crate::state::{StoreCounters, StoreState};
use crate::types::{Event, Revision};
use crate::values::{ValueRef, Values};

/// Counts of this batch, added to the shared counters at its end.
#[derive(Default)]
pub(super) struct BatchCounts {
    pub(super) puts: u64,
    pub(super) deletes: u64,
    pub(super) txns: u64,
    pub(super) ranges: u64,
    pub(super) events: u64,
    pub(super) put_bytes: u64,
}

impl BatchCounts {
    /// Adds the counts to those shared with readers, unless the batch is replayed.
    pub(super) fn add_to(&self, counters: &StoreCounters) {
        if !counters.counts_applied() {
            return;
        }
        StoreCounters::add(&counters.puts, self.puts);
        StoreCounters::add(&counters.deletes, self.deletes);
        StoreCounters::add(&counters.txns, self.txns);
        StoreCounters::add(&counters.ranges, self.ranges);
        StoreCounters::add(&counters.events, self.events);
        StoreCounters::add(&counters.put_bytes, self.put_bytes);
    }
}

/// What a batch has produced so far.
#[derive(Default)]
pub(super) struct BatchResults {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) counts: BatchCounts,
    /// Changes of keys in this slice; their revisions rise strictly.
    pub(super) events: Vec<Event>,
    pub(super) leases: Vec<LeaseChange>,
    pub(super) alarms_changed: bool,
    pub(super) cluster_changed: bool,
    pub(super) auth_changed: bool,
}

/// A slice of a batch being applied.
pub(super) struct BatchApply<'a> {
    pub(super) state: &'a mut StoreState,
    pub(super) values: &'a dyn Values,
    pub(super) ctx: &'a BatchContext,
    pub(super) fetched: &'a mut FetchedValues,
    pub(super) results: &'a mut BatchResults,
    /// Who asks for the present command.
    pub(super) caller: &'a Caller,
    /// Whether that caller waits in this process.
    pub(super) has_caller: bool,
    /// Keys that this slice may still change or read.
    pub(super) left: usize,
}

/// The revision that the present command writes, and the sub of its next change.
pub(super) struct RevisionCursor {
    main: i64,
    sub: u32,
}

impl RevisionCursor {
    /// The revision of the next change.
    pub(super) fn next(&mut self) -> Revision {
        let revision = Revision { main: self.main, sub: self.sub };
        self.sub += 1;
        revision
    }

    /// The revision that a read sees after the changes so far.
    pub(super) fn visible(&self) -> i64 {
        if self.sub > 0 { self.main } else { self.main - 1 }
    }
}

impl BatchApply<'_> {
    /// Takes `keys` off what the slice may still do.
    pub(super) fn spend(&mut self, keys: usize) {
        self.left = self.left.saturating_sub(keys);
    }

    /// Begins the changes of a command.
    pub(super) fn begin(&self) -> RevisionCursor {
        RevisionCursor { main: self.state.revision + 1, sub: 0 }
    }

    /// Ends the changes of a command. If there were any, they are the new revision.
    pub(super) fn end(&mut self, changes: &RevisionCursor) -> i64 {
        self.state.revision = changes.visible();
        self.state.revision
    }

    /// Counts a change, and adds its event if anyone watches. It must follow the others in the order of revisions.
    pub(super) fn push_event(&mut self, event: impl FnOnce(&StoreState) -> Event) {
        self.results.counts.events += 1;
        if !self.ctx.is_watched {
            return;
        }
        let event = event(self.state);
        let last = self.results.events.last().map(|last| last.kv.mod_revision);
        assert!(last < Some(event.kv.mod_revision), "changes are made in the order of revisions");
        self.results.events.push(event);
    }

    /// The reference to a value, which must be a slice of the payload.
    pub(super) fn value_ref(&self, value: &Bytes) -> ValueRef {
        if value.is_empty() {
            return ValueRef::default();
        }
        let payload = self.ctx.payload.as_ptr_range();
        let slice = value.as_ptr_range();
        assert!(payload.start <= slice.start && slice.end <= payload.end, "values are slices of the payload");
        let offset = slice.start as usize - payload.start as usize;
        ValueRef {
            address: self.ctx.payload_address + offset as u64,
            len: u32::try_from(value.len()).expect("a payload is far below 4 GiB"),
            checksum: crc32c::crc32c(value),
        }
    }
}
