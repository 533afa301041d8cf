//! Restoring: reads a base and then deltas, frame by frame.

use super::codec::FieldReader;
use super::error::{FORMAT_VERSION, RestoreError};
use super::frame::{FrameKind, FrameReader, MAGIC};
use super::small_state;
use crate::hash::key_hash;
use crate::index::IndexBuilder;
use crate::lessor::LeaseInfo;
use crate::memory::StoreMemory;
use crate::purge::purge;
use crate::state::{CheckpointBaseline, NEVER_COMPACTED, StoreState};
use crate::types::AppliedId;
use crate::values::ValueRef;

/// No store reaches these numbers, and what is added to them does not overflow.
const MAX_REVISION: i64 = 1 << 61;
const MAX_INDEX: u64 = 1 << 62;

/// Restores the state from all chunks. Its references are not retained yet.
pub(crate) fn restore<C: AsRef<[u8]>>(
    chunks: impl IntoIterator<Item = C>,
) -> Result<StoreState, RestoreError> {
    let mut restoring = Restoration::default();
    for chunk in chunks {
        restoring.push(chunk.as_ref())?;
    }
    restoring.finish().map(|restored| restored.state)
}

/// A state that is restored as the chunks of its checkpoints arrive: a base, then any number of deltas. It needs no
/// store, so it may run on any thread; the result is given to [`Store::install`](crate::Store::install).
#[derive(Default)]
pub struct Restoration {
    frames: FrameReader,
    builder: StateBuilder,
}

/// A restored and verified state. Its references are not retained yet.
pub struct Restored {
    pub(crate) state: StoreState,
}

impl Restoration {
    /// Takes the next chunk.
    ///
    /// # Errors
    /// [`RestoreError`]; then the restoration has failed as a whole.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), RestoreError> {
        self.frames.push(chunk, |kind, body| self.builder.frame(kind, &mut FieldReader(body)))
    }

    /// Ends the restoration, after the last chunk.
    ///
    /// # Errors
    /// [`RestoreError`] when something is missing, or the state is not the one that was written.
    pub fn finish(self) -> Result<Restored, RestoreError> {
        self.frames.finish()?;
        self.builder.finish().map(|state| Restored { state })
    }
}

impl Restored {
    /// Index and term of the last applied entry.
    pub fn applied(&self) -> AppliedId {
        self.state.applied
    }

    /// The references to values that it holds, in the order of keys; none is to an empty value.
    pub fn values(&self) -> impl Iterator<Item = ValueRef> + '_ {
        self.state.all_values()
    }

    /// Accounted bytes.
    pub fn memory(&self) -> StoreMemory {
        self.state.memory()
    }
}

/// The header of a checkpoint.
struct CheckpointHeader {
    applied: AppliedId,
    revision: i64,
    compacted: i64,
    purged: i64,
    hash: u64,
}

/// The state as far as it is restored.
#[derive(Default)]
struct StateBuilder {
    /// The header of the checkpoint that is being read, or was read last.
    header: Option<CheckpointHeader>,
    /// Whether its end was read.
    ended: bool,
    /// The revision up to which the base was purged. Keys that no delta contains were purged no further.
    base_purged: i64,
    keys: u64,
    state: StoreState,
    index: IndexBuilder,
    key: Vec<u8>,
}

impl StateBuilder {
    fn frame(&mut self, kind: FrameKind, fields: &mut FieldReader<'_>) -> Result<(), RestoreError> {
        if (self.header.is_none() || self.ended) != (kind == FrameKind::Header) {
            return Err(RestoreError::Malformed("a checkpoint is its header, its content and its end"));
        }
        match kind {
            FrameKind::Header => self.header(fields),
            FrameKind::Small => small_state::read(fields, &mut self.state),
            FrameKind::Leases => self.leases(fields),
            FrameKind::Removed => self.removed(fields),
            FrameKind::Relocated => self.relocated(fields),
            FrameKind::Keys => self.keys(fields),
            FrameKind::End => self.end(fields),
        }
    }

    fn header(&mut self, fields: &mut FieldReader<'_>) -> Result<(), RestoreError> {
        if fields.array()? != MAGIC {
            return Err(RestoreError::Malformed("this is no checkpoint"));
        }
        let found = u16::from_le_bytes(fields.array()?);
        if found != FORMAT_VERSION {
            return Err(RestoreError::Version { found });
        }
        let delta = fields.byte()? != 0;
        let mut number = || fields.array().map(u64::from_le_bytes);
        let applied = AppliedId { index: number()?, term: number()? };
        let follows = AppliedId { index: number()?, term: number()? };
        let [revision, compacted, purged] = [number()? as i64, number()? as i64, number()? as i64];
        let header = CheckpointHeader { applied, revision, compacted, purged, hash: number()? };
        let after = self.header.as_ref().map(|header| header.applied);
        if delta && after != Some(follows) || !delta && after.is_some() {
            let after = after.map_or(0, |applied| applied.index);
            return Err(RestoreError::OutOfOrder { follows: follows.index, after });
        }
        let in_order =
            NEVER_COMPACTED <= purged && purged <= compacted && compacted <= revision && revision >= 1;
        if !in_order || revision > MAX_REVISION || applied.index > MAX_INDEX {
            return Err(RestoreError::Malformed("revisions are out of order, or none that a store has"));
        }
        if !delta {
            self.base_purged = purged;
        }
        if compacted < self.base_purged {
            return Err(RestoreError::Malformed("a delta is compacted below what its base purged"));
        }
        self.index.begin();
        self.header = Some(header);
        self.ended = false;
        self.keys = 0;
        Ok(())
    }

    fn leases(&mut self, fields: &mut FieldReader<'_>) -> Result<(), RestoreError> {
        while !fields.is_empty() {
            let id = fields.signed()?;
            let ttl: i64 = fields.small()?;
            if ttl == 0 {
                self.state.lessor.forget(id);
            } else {
                self.state.lessor.restore(LeaseInfo { id, ttl, remaining: fields.small()? });
            }
        }
        Ok(())
    }

    fn removed(&mut self, fields: &mut FieldReader<'_>) -> Result<(), RestoreError> {
        while !fields.is_empty() {
            self.index.remove(fields.bytes()?);
        }
        Ok(())
    }

    fn relocated(&mut self, fields: &mut FieldReader<'_>) -> Result<(), RestoreError> {
        while !fields.is_empty() {
            let key = fields.bytes()?;
            let revision = fields.revision()?;
            let address = u64::from_le_bytes(fields.array()?);
            if address == 0 {
                return Err(RestoreError::Malformed("a relocated value has no address"));
            }
            self.index.relocate(key, revision, address);
        }
        Ok(())
    }

    fn keys(&mut self, fields: &mut FieldReader<'_>) -> Result<(), RestoreError> {
        self.key.clear();
        while !fields.is_empty() {
            fields.key(&mut self.key)?;
            let count_and_whole: u64 = fields.number()?;
            let Some(others) = (count_and_whole >> 1).checked_sub(1) else {
                return Err(RestoreError::Malformed("a key without versions"));
            };
            let in_order = |ascends| match ascends {
                true => Ok(()),
                false => Err(RestoreError::Malformed("versions or keys are out of order")),
            };
            in_order(self.index.key(&self.key, count_and_whole & 1 == 1, fields.version()?))?;
            for _ in 0..others {
                in_order(self.index.version(fields.version()?))?;
            }
            self.keys += 1;
        }
        Ok(())
    }

    fn end(&mut self, fields: &mut FieldReader<'_>) -> Result<(), RestoreError> {
        if u64::from_le_bytes(fields.array()?) != self.keys {
            return Err(RestoreError::Malformed("keys are missing"));
        }
        self.index.complete();
        self.ended = true;
        Ok(())
    }

    fn finish(self) -> Result<StoreState, RestoreError> {
        let StateBuilder { header, ended, base_purged, mut state, index, .. } = self;
        let header = header.filter(|_| ended).ok_or(RestoreError::Truncated)?;
        state.applied = header.applied;
        state.revision = header.revision;
        state.compacted = header.compacted;
        state.purged = base_purged;
        let (lessor, live_hash) = (&mut state.lessor, &mut state.key_hash);
        let mut orphaned = false;
        let index = index.finish(base_purged, header.revision, |slot, record| {
            let newest = record.newest();
            if !newest.is_tombstone() {
                *live_hash = live_hash.wrapping_add(key_hash(record.key(), &newest));
                lessor.reattach(slot, 0, newest.lease);
                orphaned |= newest.lease != 0 && !lessor.contains(newest.lease);
            }
        });
        state.index = index.ok_or(RestoreError::Malformed("history does not end at the current revision"))?;
        if orphaned {
            return Err(RestoreError::Malformed("a key is attached to a lease that does not exist"));
        }
        purge(&mut state, header.purged, usize::MAX, &mut |_| {});
        let found = state.hash();
        if found != header.hash {
            return Err(RestoreError::HashMismatch { found, expected: header.hash });
        }
        state.changes.rebase(CheckpointBaseline { applied: header.applied, revision: header.revision });
        Ok(state)
    }
}
