//! Restoring: a chain of checkpoints, merged key by key, or a base as its chunks arrive.

use bytes::Bytes;

use super::codec::FieldReader;
use super::error::RestoreError;
use super::frame::{FrameKind, FrameOrder, FrameReader};
use super::header::{CheckpointHeader, CheckpointKind, Predecessor};
use super::merge::{
    CheckpointContents, DecodedKeys, LeaseEntry, Merge, MergedKey, OUT_OF_ORDER, read_leases,
};
use super::small_state;
use crate::hash::key_hash;
use crate::index::{BuiltRecords, IndexBuilder};
use crate::memory::StoreMemory;
use crate::parallel::{Parallel, Sequential};
use crate::state::{CheckpointBaseline, StoreState};
use crate::types::AppliedId;
use crate::values::{ValueRef, Values};

/// Bytes of the keys of one frame of a snapshot, each with all its bytes: more than a frame has that ends behind
/// [`MAX_FRAME_KEY_BYTES`](super::keys::MAX_FRAME_KEY_BYTES) with the longest key. Keys that share their beginning are
/// short in the frame, so its length alone would not limit what a peer makes this member allocate.
const MAX_RECEIVED_KEY_BYTES: usize = 64 << 20;

/// Restores the state from the checkpoints of a chain, oldest first, in rounds of `round_bytes`, and retains its
/// references. After an error some may be retained.
pub(crate) fn restore<I: Iterator<Item = Bytes> + Clone + Send>(
    chain: impl IntoIterator<Item = I>,
    values: &dyn Values,
    round_bytes: usize,
    parallel: &dyn Parallel,
) -> Result<StoreState, RestoreError> {
    let mut contents: Vec<CheckpointContents<I>> = Vec::new();
    for chunks in chain {
        let before = match contents.last() {
            Some(before) => Predecessor::Is(&before.header),
            None => Predecessor::None,
        };
        contents.push(CheckpointContents::open(chunks, before)?);
    }
    let last = contents.last().ok_or(RestoreError::Truncated)?;
    let mut restoring = RestoringState::new(last.header);
    small_state::read(last.header.format, &mut FieldReader(&last.small), &mut restoring.state)?;
    for lease in contents.iter().flat_map(|contents| &contents.leases) {
        restoring.lease(lease);
    }
    Merge::new(contents, round_bytes).run(parallel, &mut |key| restoring.key(key))?;
    restoring.finish(parallel, Some(values))
}

/// A state that is restored as the chunks of a base arrive, those of a snapshot. It needs no store, so it may run on
/// any thread; the result is given to [`Store::install`](crate::Store::install).
#[derive(Default)]
pub struct Restoration {
    frames: FrameReader,
    base: BaseReader,
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
        self.frames.push(chunk, |kind, body| self.base.frame(kind, body))
    }

    /// Ends the restoration, after the last chunk.
    ///
    /// # Errors
    /// [`RestoreError`] when something is missing, or the state is not the one that was written.
    pub fn finish(self) -> Result<Restored, RestoreError> {
        self.frames.finish()?;
        self.base.finish().map(|state| Restored { state })
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

    /// The lineage of its cluster; see [`Reader::lineage`](crate::Reader::lineage).
    pub fn lineage(&self) -> u64 {
        self.state.members.lineage
    }

    /// Accounted bytes.
    pub fn memory(&self) -> StoreMemory {
        self.state.memory()
    }
}

/// Reads the frames of a base in their order.
#[derive(Default)]
struct BaseReader {
    order: FrameOrder,
    restoring: Option<RestoringState>,
    keys: u64,
    ended: bool,
    key: MergedKey,
}

impl BaseReader {
    fn frame(&mut self, kind: FrameKind, body: &[u8]) -> Result<(), RestoreError> {
        self.order.next(kind)?;
        let fields = &mut FieldReader(body);
        let Some(restoring) = &mut self.restoring else {
            self.restoring = Some(RestoringState::new(CheckpointHeader::read(fields, Predecessor::None)?));
            return Ok(());
        };
        match kind {
            FrameKind::Small => small_state::read(restoring.header.format, fields, &mut restoring.state),
            FrameKind::Leases => {
                let mut leases = Vec::new();
                read_leases(body, &mut leases)?;
                leases.iter().for_each(|lease| restoring.lease(lease));
                Ok(())
            }
            FrameKind::Keys => {
                let decoded = DecodedKeys::decode(body, MAX_RECEIVED_KEY_BYTES)?;
                self.keys += decoded.len() as u64;
                (0..decoded.len()).try_for_each(|at| {
                    self.key.set(&decoded.entry(at));
                    restoring.key(&mut self.key)
                })
            }
            FrameKind::End => {
                self.ended = true;
                let expected = u64::from_le_bytes(fields.array()?);
                if expected == self.keys { Ok(()) } else { Err(RestoreError::Malformed("keys are missing")) }
            }
            FrameKind::Header | FrameKind::Removed | FrameKind::Relocated => {
                Err(RestoreError::Malformed("a part of a delta where a whole state was expected"))
            }
        }
    }

    fn finish(self) -> Result<StoreState, RestoreError> {
        let restoring = self.restoring.filter(|_| self.ended).ok_or(RestoreError::Truncated)?;
        restoring.finish(&Sequential, None)
    }
}

/// The state as far as it is restored.
struct RestoringState {
    /// The header of the last checkpoint.
    header: CheckpointHeader,
    state: StoreState,
    index: IndexBuilder,
    /// Whether every lease exists to which a key is attached.
    has_leases: bool,
}

impl RestoringState {
    fn new(header: CheckpointHeader) -> RestoringState {
        let CheckpointHeader { applied, revision, compacted, purged, .. } = header;
        let state = StoreState { applied, revision, compacted, purged, ..StoreState::default() };
        RestoringState { header, state, index: IndexBuilder::default(), has_leases: true }
    }

    fn lease(&mut self, (id, lease): &LeaseEntry) {
        match lease {
            Some(lease) => self.state.lessor.restore(*lease),
            None => drop(self.state.lessor.forget(*id)),
        }
    }

    /// Adds a key as all checkpoints together have it. History is purged up to the revision in the last header, because
    /// the files of older versions may be gone.
    fn key(&mut self, merged: &mut MergedKey) -> Result<(), RestoreError> {
        merged.purge(self.header.purged, CheckpointKind::Base);
        let Some(newest) = merged.versions.last() else { return Ok(()) };
        let slot = self.index.key(&merged.key, &merged.versions).ok_or(OUT_OF_ORDER)?;
        if !newest.is_tombstone() {
            let (hash, lessor) = (&mut self.state.key_hash, &mut self.state.lessor);
            *hash = hash.wrapping_add(key_hash(&merged.key, newest));
            lessor.reattach(slot, 0, newest.lease);
            self.has_leases &= newest.lease == 0 || lessor.contains(newest.lease);
        }
        Ok(())
    }

    /// Completes the state, and retains its references if there are `values`.
    fn finish(
        self,
        parallel: &dyn Parallel,
        values: Option<&dyn Values>,
    ) -> Result<StoreState, RestoreError> {
        let RestoringState { header, mut state, index, has_leases } = self;
        if !has_leases {
            return Err(RestoreError::Malformed("a key is attached to a lease that does not exist"));
        }
        let found = state.hash();
        if found != header.hash {
            return Err(RestoreError::HashMismatch { found, expected: header.hash });
        }
        let retain = |records: BuiltRecords<'_>| {
            let all = records.flat_map(|record| record.versions().map(|version| version.value));
            if let Some(values) = values {
                values.retain_all(&mut all.filter(|value| value.len > 0));
            }
        };
        let index = index.finish(header.purged, header.revision, parallel, retain);
        state.index = index.ok_or(RestoreError::Malformed("history does not end at the current revision"))?;
        state.changes.rebase(CheckpointBaseline { applied: header.applied, revision: header.revision });
        Ok(state)
    }
}
