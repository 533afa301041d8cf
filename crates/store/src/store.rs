//! The writer's handle.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Error;

use crate::apply;
use crate::checkpoint::{self, CheckpointKind, CheckpointSource, RestoreError, Restored};
use crate::command::{Applied, BatchContext, Command};
use crate::members::{Member, MemberChange};
use crate::purge;
use crate::reader::Reader;
use crate::state::{Limits, Position, Shared, release, retain};
use crate::types::{Damaged, Revision, ValueRef, Values};

/// The single writer of the replicated state.
pub struct Store {
    shared: Arc<Shared>,
}

impl Store {
    /// An empty store, at revision 1.
    pub fn new(values: Arc<dyn Values>, limits: Limits) -> (Store, Reader) {
        Store::over(Shared::new(values, limits))
    }

    fn over(shared: Arc<Shared>) -> (Store, Reader) {
        let reader = Reader::new(Arc::clone(&shared));
        (Store { shared }, reader)
    }

    /// Rebuilds the state from a base checkpoint and the deltas after it, oldest first, each as the chunks
    /// that [`CheckpointSource`] gave. Takes every reference anew with [`Values::retain`].
    ///
    /// # Errors
    /// [`RestoreError`] when a chunk is damaged, out of order or of a version this one does not know.
    pub fn restore<C: AsRef<[u8]>>(
        values: Arc<dyn Values>,
        limits: Limits,
        chunks: impl IntoIterator<Item = C>,
    ) -> Result<(Store, Reader), RestoreError> {
        let state = checkpoint::restore(chunks)?;
        let shared = Shared::new(values, limits);
        checkpoint::retain_all(&state, &*shared.values);
        shared.publish(&state);
        *shared.state.write() = state;
        Ok(Store::over(shared))
    }

    /// Replaces the whole state by a restored one, releasing all references held before. Readers see it at once; a
    /// read in progress goes on in the new state, and a checkpoint being written ends without its end: it cannot be
    /// restored.
    pub fn install(&mut self, restored: Restored) {
        let Restored { mut state } = restored;
        checkpoint::retain_all(&state, &*self.shared.values);
        let old = {
            let mut current = self.shared.state.write();
            state.installs = current.installs + 1;
            let old = std::mem::replace(&mut *current, state);
            self.shared.publish(&current);
            old
        };
        checkpoint::release_all(&old, &*self.shared.values);
    }

    /// Applies the commands of one entry, in one write section.
    ///
    /// # Errors
    /// [`Damaged`]: a value that a transaction compares cannot be read on this member. *Nothing* has changed;
    /// fetch the value from a peer, then call again with the same batch.
    ///
    /// # Panics
    /// When the entry's index is not above the last applied one, or a value is no slice of the payload.
    pub fn apply_batch(&mut self, ctx: &BatchContext<'_>, commands: &[Command]) -> Result<Applied, Damaged> {
        apply::batch(&self.shared, ctx, commands)
    }

    /// Begins a new cluster's state at an entry nobody wrote, with the members it starts with.
    ///
    /// # Panics
    /// When anything was applied before.
    pub fn bootstrap(&mut self, position: Position, members: impl IntoIterator<Item = Member>) {
        self.apply_empty(position);
        let mut state = self.shared.state.write();
        assert!(state.members.members.is_empty(), "a cluster begins once");
        state.members.members = members.into_iter().map(|member| (member.id, member)).collect();
    }

    /// Notes that an entry without commands was applied: a new leader's, or a conf change that failed.
    pub fn apply_empty(&mut self, position: Position) {
        let mut state = self.shared.state.write();
        assert!(position.index > state.applied.index, "entries are applied once, in order");
        state.applied = position;
    }

    /// Applies a conf change to the list of members.
    ///
    /// # Errors
    /// What the change cannot be: see [`MemberChange`]. The entry counts as applied all the same.
    pub fn apply_member_change(&mut self, position: Position, change: MemberChange) -> Result<(), Error> {
        self.apply_empty(position);
        self.shared.state.write().members.apply(change)
    }

    /// Drops up to `max_steps` changes' worth of history below the compact revision, or below the oldest
    /// revision somebody still reads at. Returns whether nothing is left to do now.
    pub fn purge_step(&mut self, max_steps: usize) -> bool {
        purge::step(&self.shared, max_steps)
    }

    /// Points the version of `key` written at `revision` to the same value at another place. Returns false,
    /// and changes nothing, when that version is gone or its value is no longer at `old`.
    pub fn relocate(&mut self, key: &[u8], revision: Revision, old: &ValueRef, address: u64) -> bool {
        let mut state = self.shared.state.write();
        if !state.index.relocate(key, revision, old, address) {
            return false;
        }
        state.dirty.moved(key, revision, address);
        drop(state);
        retain(&*self.shared.values, &ValueRef { address, ..*old });
        release(&*self.shared.values, old);
        true
    }

    /// Starts a checkpoint of the state as it is now; see [`CheckpointSource`]. A delta holds what changed
    /// since the last checkpoint began, of whichever kind. The source says which kind it is: after
    /// [`abandon_checkpoint`](Self::abandon_checkpoint), and before any base, there is no delta.
    pub fn begin_checkpoint(&mut self, kind: CheckpointKind) -> CheckpointSource {
        checkpoint::begin(&self.shared, kind)
    }

    /// Starts a base for somebody else, as a snapshot for a peer: the chain of base and deltas that is kept
    /// here goes on as if it had not been.
    pub fn begin_snapshot(&self) -> CheckpointSource {
        checkpoint::begin_detached(&self.shared)
    }

    /// The checkpoint last begun was not written: what it held must be in the next one, which thus is a base.
    pub fn abandon_checkpoint(&mut self) {
        self.shared.state.write().dirty.forget_baseline();
    }

    /// A handle for reading.
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }
}
