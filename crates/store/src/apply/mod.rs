//! Applying a batch: every command has its defined outcome, and a command that touches much is applied in slices.
//!
//! The state after a batch is a function of the state before it and the batch, so that all members stay equal. The only
//! input from outside are the values that transactions compare. They may lie on the disk, and may be damaged on this
//! member alone. So a command that lacks one waits before it changes anything: the caller reads it without blocking
//! this thread, repairs it if it is damaged, and resumes the batch.
//!
//! A slice changes or reads a limited number of keys under the write lock, counted in keys and never in time. Where
//! slices end affects no outcome, no event and no hash, and may differ from member to member. The changes of a command
//! become visible at its end, with its revision: until then, readers read at the revision before.
//!
//! ```text
//! begin_batch [ put a | txn { if value(b) = "x" then put c } | delete [d, z) ]
//!
//! apply_slice(1,000 keys)
//!   read lock    look ahead: b's length and CRC-32C equal those of "x" -> its bytes are needed (only then)
//!   unlock       -> NeedsValues [b's], unless they are in memory
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
mod check;
mod compare;
mod cost;
mod fetch;
mod kv;
mod lease;
mod look_ahead;
mod txn;
mod work;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use bytes::Bytes;

use batch::{BatchApply, BatchResults};
use compare::may_need_values;
pub(crate) use cost::{MAX_COMPARED_BYTES, TxnCost};
use fetch::FetchedValues;
use look_ahead::LookAhead;
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
    /// Values that were read ahead.
    fetched: FetchedValues,
    /// Whether the next slice looks ahead for values to read.
    looks_ahead: bool,
    results: BatchResults,
    /// The state hash before the batch.
    hash_before: u64,
}

/// Why a slice ends.
enum SliceEnd {
    /// The slice has changed or read as many keys as it may.
    Full,
    /// A command compares a value that is not in memory.
    LacksValue,
    /// No command is left.
    BatchEnds,
}

/// Begins a batch. See [`Store::begin_batch`](crate::Store::begin_batch).
pub(crate) fn begin(shared: &StoreShared, ctx: BatchContext, commands: Vec<Command>) -> BatchInProgress {
    let state = shared.state.read();
    assert!(ctx.index > state.applied.index, "entries are applied once, in order");
    let hash_before = state.hash();
    drop(state);
    let looks_ahead =
        commands.iter().any(|command| matches!(command, Command::Txn(request) if may_need_values(request)));
    let outcomes = Vec::with_capacity(commands.len());
    let events = Vec::with_capacity(if ctx.is_watched { commands.len() } else { 0 });
    let results = BatchResults { outcomes, events, ..BatchResults::default() };
    BatchInProgress {
        ctx,
        commands: commands.into_iter(),
        begun: 0,
        work: None,
        fetched: FetchedValues::default(),
        looks_ahead,
        results,
        hash_before,
    }
}

/// Applies a slice. See [`Store::apply_slice`](crate::Store::apply_slice).
pub(crate) fn slice(shared: &StoreShared, batch: &mut BatchInProgress, spent: &mut usize) -> Slice {
    let limits = &shared.limits;
    let mut left = limits.slice_keys.max(1);
    if std::mem::take(&mut batch.looks_ahead) {
        let before = left;
        let needed = batch.look_ahead(shared, &mut left);
        *spent += before - left;
        if !needed.is_empty() {
            return Slice::NeedsValues(needed);
        }
        // What the next compare needs is in memory.
        left = left.max(1);
    }
    // What ended commands had detached may be a million keys: it is freed without the lock.
    let mut detached = Vec::new();
    let mut state = shared.state.write();
    assert!(batch.ctx.index > state.applied.index, "entries are applied once, in order");
    let before = left;
    let end = batch.go_on(&mut state, &*shared.values, &mut left, &mut detached);
    *spent += before - left;
    if matches!(end, SliceEnd::BatchEnds) {
        state.applied = AppliedId { index: batch.ctx.index, term: batch.ctx.term };
        state.unfinished.hash_before = None;
    } else {
        state.unfinished.hash_before = Some(batch.hash_before);
    }
    state.unfinished.is_mid_command = batch.is_mid_command();
    shared.show_revisions(&state);
    let revision = state.revision;
    drop(state);
    match end {
        SliceEnd::Full | SliceEnd::LacksValue => {
            Slice::Partial { events: std::mem::take(&mut batch.results.events), revision }
        }
        SliceEnd::BatchEnds => Slice::Last(batch.finish(shared, revision)),
    }
}

impl BatchInProgress {
    /// Whether a command is in progress that may have changed something.
    pub(crate) fn is_mid_command(&self) -> bool {
        self.work.as_ref().is_some_and(CommandWork::has_changes)
    }

    /// Values that [`Slice::NeedsValues`] asked for.
    pub(crate) fn supply(&mut self, values: impl Iterator<Item = (ValueRef, Bytes)>) {
        self.fetched.extend(values);
    }

    /// Whether no command has changed anything.
    pub(crate) fn is_untouched(&self) -> bool {
        self.results.outcomes.is_empty() && !self.is_mid_command()
    }

    /// Looks ahead for values that the next compares need. Returns those that are not in memory. Takes the keys visited
    /// off `left`.
    fn look_ahead(&mut self, shared: &StoreShared, left: &mut usize) -> Vec<ValueRef> {
        let state = shared.state.read();
        let mut ahead = LookAhead::new(&state.index, &self.ctx, *left, shared.limits.fetched_bytes);
        let present = match &self.work {
            Some(CommandWork::Compare(work)) => Some(&**work),
            _ => None,
        };
        let commands = ahead.look(present, self.commands.as_slice());
        let needed;
        (needed, *left) = ahead.into_found();
        drop(state);
        self.fetched.replace(needed, self.begun + commands, &*shared.values)
    }

    /// Bytes of values that were read ahead and are in memory.
    #[cfg(test)]
    pub(crate) fn fetched_bytes(&self) -> u64 {
        self.fetched.bytes()
    }

    /// Goes on until the slice ends. Moves the keys that commands had detached to `ended`, when they end.
    fn go_on(
        &mut self,
        state: &mut StoreState,
        values: &dyn Values,
        left: &mut usize,
        ended: &mut Vec<BTreeSet<(i64, u32)>>,
    ) -> SliceEnd {
        let BatchInProgress { ctx, commands, begun, work, fetched, looks_ahead, results, .. } = self;
        let (caller, has_caller, left_before) = (&ANONYMOUS, false, *left);
        let mut apply =
            BatchApply { state, values, ctx, fetched, results, caller, has_caller, left: left_before };
        let end = loop {
            let present = match work.take() {
                Some(present) => present,
                None if commands.len() == 0 => break SliceEnd::BatchEnds,
                None if apply.left == 0 => break SliceEnd::Full,
                None => {
                    apply.fetched.drop_passed(*begun);
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
                    let detached = std::mem::take(&mut apply.state.unfinished.detached);
                    ended.extend(Some(detached).filter(|detached| !detached.is_empty()));
                    apply.results.outcomes.push(outcome);
                }
                WorkProgress::GoesOn(rest) => {
                    *work = Some(rest);
                    break SliceEnd::Full;
                }
                WorkProgress::LacksValue(rest) => {
                    *work = Some(rest);
                    *looks_ahead = true;
                    break SliceEnd::LacksValue;
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
