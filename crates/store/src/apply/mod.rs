//! Applying a batch: every command has its defined outcome, and a command that touches much is applied in slices.
//!
//! The state after a batch is a function of the state before it and the batch, so that all members stay equal. The only
//! input from outside are the values that transactions compare, and those may be damaged on this member alone. So they
//! are read before the command that compares them has changed anything. If one is damaged, the caller repairs it and
//! goes on with the batch.
//!
//! A slice changes or reads a limited number of keys under the write lock, counted in keys and never in time. Where
//! slices end affects no outcome, no event and no hash, and may differ from member to member. The changes of a command
//! become visible at its end, with its revision: until then, readers read at the revision before.
//!
//! ```text
//! begin_batch [ put a | txn { if value(b) = "x" then put c } | delete [d, z) ]
//!   read lock    b's length and CRC-32C equal those of "x" -> its bytes are read (only then)
//!
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

use batch::{BatchApply, BatchResults, PrefetchedValues};
pub(crate) use cost::TxnCost;
use work::{CommandWork, WorkProgress};

use crate::command::{Applied, BatchContext, Command, Slice};
use crate::state::{StoreShared, StoreState};
use crate::types::AppliedId;
use crate::values::{Damaged, ValueRef, Values};

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
    results: BatchResults,
    /// The state hash before the batch.
    hash_before: u64,
}

/// Why a slice ends, or the lock is released within it.
enum SliceEnd {
    /// The slice has changed or read as many keys as it may.
    Full,
    /// The next command compares these values, which are not read yet.
    NeedsValues(Vec<ValueRef>),
    /// No command is left.
    BatchEnds,
}

/// Begins a batch. See [`Store::begin_batch`](crate::Store::begin_batch).
pub(crate) fn begin(
    shared: &StoreShared,
    ctx: BatchContext,
    commands: Vec<Command>,
) -> Result<BatchInProgress, Damaged> {
    let state = shared.state.read();
    assert!(ctx.index > state.applied.index, "entries are applied once, in order");
    let hash_before = state.hash();
    let mut prefetched = PrefetchedValues::default();
    let wanted = compare::missing_values(&state, &ctx, &prefetched, &commands);
    drop(state);
    read_values(&*shared.values, &wanted, &mut prefetched)?;
    let outcomes = Vec::with_capacity(commands.len());
    let events = Vec::with_capacity(if ctx.is_watched { commands.len() } else { 0 });
    let results = BatchResults { outcomes, events, ..BatchResults::default() };
    Ok(BatchInProgress {
        ctx,
        commands: commands.into_iter(),
        begun: 0,
        work: None,
        prefetched,
        results,
        hash_before,
    })
}

fn read_values(values: &dyn Values, wanted: &[ValueRef], into: &mut PrefetchedValues) -> Result<(), Damaged> {
    if !wanted.is_empty() {
        let bytes = values.read_many(wanted)?;
        into.extend(wanted.iter().map(|value| value.address).zip(bytes));
    }
    Ok(())
}

/// Applies a slice. See [`Store::apply_slice`](crate::Store::apply_slice).
pub(crate) fn slice(
    shared: &StoreShared,
    batch: &mut BatchInProgress,
    max_keys: usize,
    spent: &mut usize,
) -> Result<Slice, Damaged> {
    let mut left = max_keys.max(1);
    loop {
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
            SliceEnd::NeedsValues(wanted) => {
                read_values(&*shared.values, &wanted, &mut batch.prefetched)?;
            }
            SliceEnd::Full => {
                let events = std::mem::take(&mut batch.results.events);
                return Ok(Slice::Partial { events, revision });
            }
            SliceEnd::BatchEnds => return Ok(Slice::Last(batch.finish(shared, revision))),
        }
    }
}

impl BatchInProgress {
    /// Whether a command is in progress.
    pub(crate) fn is_mid_command(&self) -> bool {
        self.work.is_some()
    }

    /// Goes on until the slice ends.
    fn go_on(&mut self, state: &mut StoreState, values: &dyn Values, left: &mut usize) -> SliceEnd {
        let BatchInProgress { ctx, commands, begun, work, prefetched, results, .. } = self;
        let mut apply =
            BatchApply { state, values, ctx, prefetched, results, has_caller: false, left: *left };
        let end = loop {
            let present = match work.take() {
                Some(present) => present,
                None if commands.len() == 0 => break SliceEnd::BatchEnds,
                None if apply.left == 0 => break SliceEnd::Full,
                None => {
                    let wanted =
                        compare::missing_values(apply.state, ctx, prefetched, &commands.as_slice()[..1]);
                    if !wanted.is_empty() {
                        break SliceEnd::NeedsValues(wanted);
                    }
                    let command = commands.next().expect("there is a command");
                    *begun += 1;
                    apply.spend(1);
                    apply.begin_command(command)
                }
            };
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
        let BatchResults { outcomes, counts, events, leases, alarms_changed, cluster_changed } =
            std::mem::take(&mut self.results);
        let newest = events.last().map_or(revision, |event| event.kv.mod_revision.main);
        assert!(newest <= revision, "an event has no newer revision than the state");
        assert_eq!(outcomes.len(), self.begun, "each command has an outcome");
        counts.add_to(&shared.counters);
        Applied { outcomes, events, leases, alarms_changed, cluster_changed, revision }
    }
}
