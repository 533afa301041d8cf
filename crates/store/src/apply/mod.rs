//! Applying a batch: one write section, in which every command has its defined outcome.
//!
//! Apply is a function of the state and the batch. The one thing it needs from outside are the bytes of
//! values that a transaction compares, and those can be damaged on this member alone. So they are read
//! *first*, by [`compare::prefetch`], while nothing has changed; if one is damaged the caller hears which,
//! repairs it and calls again. From then on nothing can fail.

mod compare;
mod kv;
mod lease;
mod txn;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use api::Error;
use bytes::Bytes;

use crate::command::{Applied, BatchContext, Command, LeaseChange, Outcome, Reply};
use crate::purge::CompactionHash;
use crate::state::{Counters, Position, Shared, State};
use crate::types::{Damaged, Event, Revision, ValueRef, Values};

/// Values read before the write section, by place.
pub(super) type Prefetched = HashMap<u64, Bytes>;

/// Applies one batch. See [`Store::apply_batch`](crate::Store::apply_batch).
pub(crate) fn batch(
    shared: &Shared,
    ctx: &BatchContext<'_>,
    commands: &[Command],
) -> Result<Applied, Damaged> {
    let prefetched = compare::prefetch(shared, commands)?;
    let mut state = shared.state.write();
    assert!(ctx.index > state.applied.index, "entries are applied once, in order");
    let mut batch = Batch {
        state: &mut state,
        values: &*shared.values,
        ctx,
        prefetched: &prefetched,
        answered: false,
        counts: Counts::default(),
        events: Vec::with_capacity(commands.len()),
        leases: Vec::new(),
        alarms_changed: false,
        cluster_changed: false,
    };
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(commands.len());
    for (nth, command) in commands.iter().enumerate() {
        batch.answered = ctx.answered.get(nth).copied().unwrap_or(false);
        outcomes.push(batch.command(command));
    }
    let Batch { counts, events, leases, alarms_changed, cluster_changed, .. } = batch;
    state.applied = Position { index: ctx.index, term: ctx.term };
    shared.publish(&state);
    let revision = state.revision;
    drop(state);
    counts.publish(&shared.counters, events.len());
    Ok(Applied { outcomes, events, leases, alarms_changed, cluster_changed, revision })
}

/// Counts of this batch, added to the shared ones at its end.
#[derive(Default)]
struct Counts {
    puts: u64,
    deletes: u64,
    txns: u64,
    ranges: u64,
}

impl Counts {
    fn publish(&self, counters: &Counters, events: usize) {
        Counters::add(&counters.puts, self.puts);
        Counters::add(&counters.deletes, self.deletes);
        Counters::add(&counters.txns, self.txns);
        Counters::add(&counters.ranges, self.ranges);
        Counters::add(&counters.events, events as u64);
    }
}

/// A batch being applied.
struct Batch<'a> {
    state: &'a mut State,
    values: &'a dyn Values,
    ctx: &'a BatchContext<'a>,
    prefetched: &'a Prefetched,
    /// Whether somebody here waits for the reply to the present command.
    answered: bool,
    counts: Counts,
    events: Vec<Event>,
    leases: Vec<LeaseChange>,
    alarms_changed: bool,
    cluster_changed: bool,
}

/// Where the changes of one command go: the revision they make, and how many there were.
struct Changes {
    main: i64,
    sub: u32,
}

impl Changes {
    /// The revision of the next change.
    fn next(&mut self) -> Revision {
        let revision = Revision { main: self.main, sub: self.sub };
        self.sub += 1;
        revision
    }

    /// The revision a read sees after these changes.
    fn visible(&self) -> i64 {
        if self.sub > 0 { self.main } else { self.main - 1 }
    }
}

impl Batch<'_> {
    fn command(&mut self, command: &Command) -> Outcome {
        self.state.alarms.check(command)?;
        match command {
            Command::Put(request) => self.put(request).map(Reply::Put),
            Command::DeleteRange(request) => Ok(Reply::DeleteRange(self.delete_range(request))),
            Command::Txn(request) => self.txn(request).map(Reply::Txn),
            Command::Compaction(request) => self.compact(request.revision, request.physical),
            Command::LeaseGrant(request) => self.lease_grant(request),
            Command::LeaseRevoke { request, expiry_term } => self.lease_revoke(request.id, *expiry_term),
            Command::LeaseCheckpoint(request) => Ok(self.lease_checkpoint(request)),
            Command::Alarm(request) => {
                let (alarms, changed) = self.state.alarms.apply(request);
                self.alarms_changed |= changed;
                Ok(Reply::Alarm { revision: self.state.revision, alarms })
            }
            Command::ClusterVersionSet(request) => {
                // An empty version is none: so checkpoints have it, and members must agree after a restart.
                let version = Some(&request.ver).filter(|version| !version.is_empty());
                self.state.members.cluster_version = version.cloned();
                self.cluster_changed = true;
                Ok(Reply::Done)
            }
            Command::Publish { id, incarnation, name, client_urls } => {
                self.cluster_changed |= self.state.members.publish(*id, *incarnation, name, client_urls);
                Ok(Reply::Done)
            }
            Command::Unknown => Err(Error::NotCapable),
        }
    }

    /// Starts the changes of a command.
    fn begin(&self) -> Changes {
        Changes { main: self.state.revision + 1, sub: 0 }
    }

    /// Ends the changes of a command: if there were any, they are a revision.
    fn end(&mut self, changes: &Changes) -> i64 {
        self.state.revision = changes.visible();
        self.state.revision
    }

    /// Cuts history. Only the watermark moves; see [`crate::purge`].
    fn compact(&mut self, at: i64, physical: bool) -> Outcome {
        if at <= self.state.compacted {
            return Err(Error::Compacted);
        }
        if at > self.state.revision {
            return Err(Error::FutureRevision);
        }
        self.state.compaction_hash = CompactionHash::begin(self.state, at);
        self.state.compacted = at;
        Ok(Reply::Compaction { revision: self.state.revision, compacted: at, physical })
    }

    /// A reference to a value that lies in the payload.
    fn value_ref(&self, value: &Bytes) -> ValueRef {
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
