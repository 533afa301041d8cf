//! Applying a batch: every command has its defined outcome, and a command that touches much is applied in slices.
//!
//! The state after a batch is a function of the state before it and the batch, so that all members stay equal. The only
//! input from outside are the values that transactions compare. They may lie on the disk, and may be damaged on this
//! member alone. So the command that compares them does not begin before it has them: those in memory are taken, for
//! the others the caller is asked, who reads them without blocking this thread, has damaged ones repaired, and goes on
//! with the batch.
//!
//! A slice changes or reads a limited number of keys under the write lock, counted in keys and never in time. Where
//! slices end affects no outcome, no event and no hash, and may differ from member to member. The changes of a command
//! become visible at its end, with its revision: until then, readers read at the revision before.
//!
//! ```text
//! begin_batch [ put a | txn { if value(b) = "x" then put c } | delete [d, z) ]
//!   read lock    b's length and CRC-32C equal those of "x" -> its bytes are needed (only then)
//!
//! apply_slice    -> NeedsValues [b's], unless they are in memory
//! supply_values [b's bytes]
//! apply_slice(1,000 keys)
//!   write lock   put a           revision 8.0   record, revision log, lease, key hash, event
//!                txn             revision 9.0   compare, check, execute: see `txn`
//!                delete [d, z)   revision 10.0 to 10.997; readers see revision 9
//!   unlock       -> Partial { revision 9, events }
//! apply_slice(1,000 keys)
//!   write lock   delete [d, z)   revision 10.998 to 10.1204
//!                applied = (index, term); publish revision 10
//!   unlock       -> Last { outcomes, events in the order of revisions, lease changes }
//! ```
//!
//! A command that changes no key makes no revision.

mod batch;
mod compare;
mod cost;
mod kv;
mod lease;
mod txn;
mod work;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use batch::{BatchApply, BatchResults, PrefetchedValues};
pub(crate) use cost::{MAX_COMPARED_BYTES, TxnCost};
use work::{CommandWork, WorkProgress};

use crate::auth::Caller;
use crate::command::{Applied, BatchContext, Command, Slice};
use crate::state::{StoreShared, StoreState};
use crate::types::AppliedId;
use crate::values::{ValueRef, Values};

/// The caller of a command without one.
static ANONYMOUS: Caller = Caller::Anonymous;

/// A batch between two slices.
pub(crate) struct BatchInProgress {
    ctx: BatchContext,
    /// Commands that have not begun.
    commands: std::vec::IntoIter<Command>,
    /// How many commands have begun.
    begun: usize,
    /// The command in progress.
    work: Option<CommandWork>,
    prefetched: PrefetchedValues,
    /// Values that the next command needs, or all commands at the beginning, and that are not in memory.
    needed: Vec<ValueRef>,
    results: BatchResults,
    /// The state hash before the batch.
    hash_before: u64,
}

/// Why a slice ends.
enum SliceEnd {
    /// The slice has changed or read as many keys as it may.
    Full,
    /// The next command compares values that are not in memory.
    NeedsValues,
    /// No command is left.
    BatchEnds,
}

/// Begins a batch. See [`Store::begin_batch`](crate::Store::begin_batch).
pub(crate) fn begin(shared: &StoreShared, ctx: BatchContext, commands: Vec<Command>) -> BatchInProgress {
    let state = shared.state.read();
    assert!(ctx.index > state.applied.index, "entries are applied once, in order");
    let hash_before = state.hash();
    let mut prefetched = PrefetchedValues::default();
    let missing = compare::missing_values(&state, &ctx, &prefetched, &commands);
    drop(state);
    let needed = take_from_memory(&*shared.values, missing, &mut prefetched);
    let outcomes = Vec::with_capacity(commands.len());
    let events = Vec::with_capacity(if ctx.is_watched { commands.len() } else { 0 });
    let results = BatchResults { outcomes, events, ..BatchResults::default() };
    BatchInProgress {
        ctx,
        commands: commands.into_iter(),
        begun: 0,
        work: None,
        prefetched,
        needed,
        results,
        hash_before,
    }
}

/// Adds the values that are in memory to `found`. Returns the others.
fn take_from_memory(
    values: &dyn Values,
    missing: Vec<ValueRef>,
    found: &mut PrefetchedValues,
) -> Vec<ValueRef> {
    let mut take = |value: &ValueRef| {
        let bytes = values.read_in_memory(value);
        bytes.map(|bytes| found.insert(value.address, bytes)).is_some()
    };
    missing.into_iter().filter(|value| !take(value)).collect()
}

/// Applies a slice. See [`Store::apply_slice`](crate::Store::apply_slice).
pub(crate) fn slice(
    shared: &StoreShared,
    batch: &mut BatchInProgress,
    max_keys: usize,
    spent: &mut usize,
) -> Slice {
    if !batch.needed.is_empty() {
        return Slice::NeedsValues(std::mem::take(&mut batch.needed));
    }
    let mut left = max_keys.max(1);
    let mut state = shared.state.write();
    assert!(batch.ctx.index > state.applied.index, "entries are applied once, in order");
    let before = left;
    let end = batch.go_on(&mut state, &*shared.values, &mut left);
    *spent += before - left;
    if matches!(end, SliceEnd::BatchEnds) {
        state.applied = AppliedId { index: batch.ctx.index, term: batch.ctx.term };
        state.unfinished.hash_before = None;
    } else {
        state.unfinished.hash_before = Some(batch.hash_before);
    }
    state.unfinished.is_mid_command = batch.work.is_some();
    shared.show_revisions(&state);
    let revision = state.revision;
    drop(state);
    match end {
        SliceEnd::Full | SliceEnd::NeedsValues => {
            Slice::Partial { events: std::mem::take(&mut batch.results.events), revision }
        }
        SliceEnd::BatchEnds => Slice::Last(batch.finish(shared, revision)),
    }
}

impl BatchInProgress {
    /// Whether a command is in progress.
    pub(crate) fn is_mid_command(&self) -> bool {
        self.work.is_some()
    }

    /// Values that [`Slice::NeedsValues`] asked for.
    pub(crate) fn supply(&mut self, values: impl Iterator<Item = (ValueRef, Bytes)>) {
        self.prefetched.extend(values.map(|(value, bytes)| (value.address, bytes)));
    }

    /// Whether no command has begun.
    pub(crate) fn is_untouched(&self) -> bool {
        self.begun == 0
    }

    /// Goes on until the slice ends.
    fn go_on(&mut self, state: &mut StoreState, values: &dyn Values, left: &mut usize) -> SliceEnd {
        let BatchInProgress { ctx, commands, begun, work, prefetched, needed, results, .. } = self;
        let (caller, has_caller, left_before) = (&ANONYMOUS, false, *left);
        let mut apply =
            BatchApply { state, values, ctx, prefetched, results, caller, has_caller, left: left_before };
        let end = loop {
            let present = match work.take() {
                Some(present) => present,
                None if commands.len() == 0 => break SliceEnd::BatchEnds,
                None if apply.left == 0 => break SliceEnd::Full,
                None => {
                    let next = &commands.as_slice()[..1];
                    let missing = compare::missing_values(apply.state, ctx, apply.prefetched, next);
                    *needed = take_from_memory(values, missing, apply.prefetched);
                    if !needed.is_empty() {
                        break SliceEnd::NeedsValues;
                    }
                    let command = commands.next().expect("there is a command");
                    *begun += 1;
                    apply.spend(1);
                    CommandWork::Unchecked(command)
                }
            };
            apply.caller = ctx.callers.get(*begun - 1).unwrap_or(&ANONYMOUS);
            apply.has_caller = ctx.has_caller.get(*begun - 1).copied().unwrap_or(false);
            match apply.go_on(present) {
                WorkProgress::Done(outcome) => {
                    apply.state.unfinished.detached.clear();
                    apply.results.outcomes.push(outcome);
                }
                WorkProgress::GoesOn(rest) => {
                    *work = Some(rest);
                    break SliceEnd::Full;
                }
            }
        };
        *left = apply.left;
        end
    }

    /// The results of a batch that is applied.
    fn finish(&mut self, shared: &StoreShared, revision: i64) -> Applied {
        let BatchResults { outcomes, counts, events, leases, alarms_changed, cluster_changed, auth_changed } =
            std::mem::take(&mut self.results);
        let newest = events.last().map_or(revision, |event| event.kv.mod_revision.main);
        assert!(newest <= revision, "an event has no newer revision than the state");
        assert_eq!(outcomes.len(), self.begun, "each command has an outcome");
        counts.add_to(&shared.counters);
        Applied { outcomes, events, leases, alarms_changed, cluster_changed, auth_changed, revision }
    }
}
