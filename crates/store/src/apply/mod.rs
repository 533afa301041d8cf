//! Applying a batch: one write section, in which every command has its defined outcome.
//!
//! The state after a batch is a function of the state before it and the batch, so that all members stay equal. The only
//! input from outside are the values that transactions compare, and those may be damaged on this member alone. So they
//! are read *first*, while nothing has changed. If one is damaged, the caller repairs it and calls again with the same
//! batch; from then on nothing can fail.
//!
//! ```text
//! apply_batch [ put a | txn { if value(b) = "x" then put c } | delete d ]
//!
//!   1. prefetch (read lock)    b's length and CRC-32C equal those of "x" -> its bytes are read (only then)
//!   2. write lock
//!        put a      revision 8.0   record, revision log, lease, key hash, event
//!        txn        revision 9.0   compare, check, execute: see `txn`
//!        delete d   revision 10.0
//!      applied = (index, term); publish revision 10
//!   3. unlock                  -> Applied { outcomes, events in the order of revisions, lease changes }
//! ```
//!
//! A command that changes no key makes no revision.

mod batch;
mod compare;
mod kv;
mod lease;
mod txn;

#[cfg(test)]
mod tests;

use api::Error;

use batch::{BatchApply, BatchCounts};

use crate::command::{Applied, BatchContext, Command, Outcome, Reply};
use crate::state::{CompactionHash, StoreShared};
use crate::types::AppliedId;
use crate::values::Damaged;

/// Applies one batch. See [`Store::apply_batch`](crate::Store::apply_batch).
pub(crate) fn apply_batch(
    shared: &StoreShared,
    ctx: &BatchContext<'_>,
    commands: &[Command],
) -> Result<Applied, Damaged> {
    let prefetched = compare::prefetch(shared, commands)?;
    let mut state = shared.state.write();
    assert!(ctx.index > state.applied.index, "entries are applied once, in order");
    let before = state.revision;
    let mut batch = BatchApply {
        state: &mut state,
        values: &*shared.values,
        ctx,
        prefetched: &prefetched,
        has_caller: false,
        counts: BatchCounts::default(),
        events: Vec::with_capacity(commands.len()),
        leases: Vec::new(),
        alarms_changed: false,
        cluster_changed: false,
    };
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(commands.len());
    for (nth, command) in commands.iter().enumerate() {
        batch.has_caller = ctx.has_caller.get(nth).copied().unwrap_or(false);
        outcomes.push(batch.command(command));
    }
    let BatchApply { counts, events, leases, alarms_changed, cluster_changed, .. } = batch;
    state.applied = AppliedId { index: ctx.index, term: ctx.term };
    shared.show_revisions(&state);
    let revision = state.revision;
    drop(state);
    let newest = events.last().map_or(before, |event| event.kv.mod_revision.main);
    assert_eq!(newest, revision, "the last event has the newest revision");
    assert_eq!(outcomes.len(), commands.len(), "each command has an outcome");
    counts.add_to(&shared.counters, events.len());
    Ok(Applied { outcomes, events, leases, alarms_changed, cluster_changed, revision })
}

impl BatchApply<'_> {
    /// Carries out one command. An error leaves the state as it was.
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
                // An empty version counts as none: checkpoints store it so, and a restart must not change the state
                // hash.
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

    /// Compacts history: raises the compact revision, up to which [`crate::purge`] drops versions later.
    fn compact(&mut self, at: i64, physical: bool) -> Outcome {
        if at <= self.state.compacted {
            return Err(Error::Compacted);
        }
        if at > self.state.revision {
            return Err(Error::FutureRevision);
        }
        self.state.compaction_hash = CompactionHash::begin(self.state.purged, self.state.compacted, at);
        self.state.compacted = at;
        Ok(Reply::Compaction { revision: self.state.revision, compacted: at, physical })
    }
}
