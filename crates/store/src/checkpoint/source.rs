//! Writing a checkpoint, chunk by chunk, while commands are applied.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLockReadGuard;

use super::codec::{put_bytes, put_number, put_signed};
use super::frame::{FrameKind, frame};
use super::header::{CheckpointHeader, CheckpointKind};
use super::keys::KeysChunk;
use super::small_state::{self, SmallState};
use crate::index::{IndexKey, KeyBounds, KeyRecord, walk_chunk};
use crate::lessor::{FrozenLeases, LeaseInfo, MAX_LEASES_AT_ONCE};
use crate::state::{
    ChangesTaken, CheckpointBaseline, RevisionPin, StateReplaced, StoreShared, StoreState, TrackedChanges,
};
use crate::types::{AppliedId, Revision};

/// Entries in a frame of removed keys or relocated values; a few dozen bytes each as a rule. Long keys close it
/// earlier, by its bytes.
pub(super) const MAX_FRAME_ENTRIES: usize = 2_000;

/// A checkpoint being written: an iterator over its chunks. It may be moved to another thread. While it lives, nothing
/// is purged.
pub struct CheckpointSource {
    shared: Arc<StoreShared>,
    kind: CheckpointKind,
    applied: AppliedId,
    revision: i64,
    /// Versions above this revision are in the checkpoint; `i64::MIN` in a base.
    baseline: i64,
    /// The first frame, until it is taken.
    header: Option<Bytes>,
    /// What the second one is made of, until it is.
    small: Option<SmallState>,
    leases: LeasesLeft,
    /// What a delta holds; shared with the tracker, which takes it back if the checkpoint fails.
    changes: Option<Arc<TrackedChanges>>,
    removed: std::vec::IntoIter<IndexKey>,
    relocated: std::vec::IntoIter<(IndexKey, Revision, u64)>,
    keys: KeysLeft,
    keys_written: u64,
    /// The state's count of installs when this began.
    installs: u64,
    ended: bool,
    _pin: RevisionPin,
}

/// The leases that are still to be written, as they were when the checkpoint began.
enum LeasesLeft {
    /// All that were not read.
    All(FrozenLeases),
    /// Those that were noted as changed, from this id on.
    Noted(FrozenLeases, i64),
    None,
}

/// The keys that are still to be written.
enum KeysLeft {
    /// All, in key order from this one on.
    From(IndexKey),
    /// Those whose slots were noted.
    Noted,
    /// Those in these slots, in key order.
    Sorted(std::vec::IntoIter<u32>),
    None,
}

impl CheckpointSource {
    /// A delta of what `changed` since its baseline, or a base.
    pub(super) fn new(
        shared: Arc<StoreShared>,
        state: &StoreState,
        changed: Option<ChangesTaken>,
        pin: RevisionPin,
    ) -> CheckpointSource {
        let (applied, revision) = (state.applied, state.revision);
        let kind = if changed.is_some() { CheckpointKind::Delta } else { CheckpointKind::Base };
        let baseline = changed.as_ref().map(|(baseline, _)| *baseline);
        let (header, small) = (Some(header(state, kind, baseline)), Some(SmallState::of(state)));
        let leases = state.lessor.freeze();
        let (changes, keys, leases) = match changed {
            Some((_, changes)) => (Some(changes), KeysLeft::Noted, LeasesLeft::Noted(leases, i64::MIN)),
            None => (None, KeysLeft::From(IndexKey::default()), LeasesLeft::All(leases)),
        };
        CheckpointSource {
            shared,
            kind,
            applied,
            revision,
            baseline: baseline.map_or(i64::MIN, |baseline| baseline.revision),
            header,
            small,
            leases,
            changes,
            removed: Vec::new().into_iter(),
            relocated: Vec::new().into_iter(),
            keys,
            keys_written: 0,
            installs: state.installs,
            ended: false,
            _pin: pin,
        }
    }

    /// What it holds: a base if a delta was requested but there is no baseline.
    pub fn kind(&self) -> CheckpointKind {
        self.kind
    }

    /// The last entry whose effects it contains.
    pub fn applied(&self) -> AppliedId {
        self.applied
    }

    /// The newest revision that it contains.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The next frame of leases; `None` after the last.
    fn leases_chunk(&mut self) -> Result<Option<Bytes>, StateReplaced> {
        let mut leases = Vec::new();
        while leases.is_empty() {
            self.leases = match std::mem::replace(&mut self.leases, LeasesLeft::None) {
                LeasesLeft::None => return Ok(None),
                LeasesLeft::All(mut frozen) => match self.state()?.lessor.next_frozen(&mut frozen) {
                    None => LeasesLeft::None,
                    Some(found) => {
                        leases.extend(found.into_iter().map(|lease| (lease.id, Some(lease))));
                        LeasesLeft::All(frozen)
                    }
                },
                LeasesLeft::Noted(mut frozen, from) => {
                    let noted = self.changes.iter().flat_map(|changes| changes.leases.range(from..));
                    let ids: Vec<i64> = noted.take(MAX_LEASES_AT_ONCE).copied().collect();
                    leases = self.state()?.lessor.read_frozen(&mut frozen, &ids);
                    let next = ids.last().and_then(|last| last.checked_add(1));
                    next.map_or(LeasesLeft::None, |next| LeasesLeft::Noted(frozen, next))
                }
            };
        }
        let mut body = Vec::new();
        leases.iter().for_each(|lease| put_lease(&mut body, lease));
        Ok(Some(frame(FrameKind::Leases, &body)))
    }

    /// The next frame of keys; `None` after the last.
    fn keys_chunk(&mut self) -> Result<Option<Bytes>, StateReplaced> {
        let limits = self.shared.limits;
        let until = Revision { main: self.revision, sub: u32::MAX };
        let mut chunk = KeysChunk::new(self.baseline, until, limits.checkpoint_chunk_bytes);
        while chunk.body.is_empty() {
            self.keys = match std::mem::replace(&mut self.keys, KeysLeft::None) {
                KeysLeft::None => return Ok(None),
                KeysLeft::Noted => {
                    let changes = self.changes.take();
                    let slots = changes.map_or(Vec::new(), |changes| changes.slots.clone());
                    KeysLeft::Sorted(self.in_key_order(slots)?.into_iter())
                }
                KeysLeft::From(start) => {
                    let bounds = KeyBounds { start: start.as_slice(), end: None };
                    let state = self.state()?;
                    chunk.begin_hold();
                    let visit = |key: &[u8], record: &KeyRecord, _| chunk.add(key, record);
                    walk_chunk(&state.index, &bounds, limits.chunk_keys, visit)
                        .map_or(KeysLeft::None, KeysLeft::From)
                }
                KeysLeft::Sorted(mut slots) => {
                    let state = self.state()?;
                    chunk.begin_hold();
                    for _ in 0..limits.chunk_keys {
                        let Some(slot) = slots.as_slice().first().copied() else { break };
                        if chunk.add(&state.index.key(slot), state.index.at_slot(slot)).is_break() {
                            break;
                        }
                        slots.next();
                    }
                    if slots.len() == 0 { KeysLeft::None } else { KeysLeft::Sorted(slots) }
                }
            };
            while chunk.is_unfinished() {
                chunk.go_on(&self.state()?.index);
            }
        }
        self.keys_written += chunk.keys;
        Ok(Some(frame(FrameKind::Keys, &chunk.body)))
    }

    /// Sorts entries by key: a merge, and a restart, refuses lists in another order.
    fn sort_lists(&mut self) {
        let Some(changes) = &self.changes else { return };
        let (mut removed, mut relocated) = (changes.removed.clone(), changes.relocated.clone());
        removed.sort_unstable_by(|a, b| a.as_slice().cmp(b.as_slice()));
        // A stable sort: of two addresses for one version, the later one stays the later entry.
        relocated.sort_by(|(a, ..), (b, ..)| a.as_slice().cmp(b.as_slice()));
        (self.removed, self.relocated) = (removed.into_iter(), relocated.into_iter());
    }

    /// The state, unless it was replaced since this began.
    fn state(&self) -> Result<RwLockReadGuard<'_, StoreState>, StateReplaced> {
        self.shared.state_of(self.installs)
    }

    /// These slots, each once, in the order of their keys, without those whose key is gone. Nothing is purged
    /// meanwhile, so a slot keeps its key.
    fn in_key_order(&self, mut slots: Vec<u32>) -> Result<Vec<u32>, StateReplaced> {
        slots.sort_unstable();
        slots.dedup();
        let mut keys = Vec::with_capacity(slots.len());
        for some in slots.chunks(self.shared.limits.chunk_keys) {
            let state = self.state()?;
            let valid = some.iter().filter(|slot| state.index.is_valid(**slot));
            keys.extend(valid.map(|slot| (IndexKey::new(&state.index.key(*slot)), *slot)));
        }
        keys.sort_unstable_by(|(a, _), (b, _)| a.as_slice().cmp(b.as_slice()));
        Ok(keys.into_iter().map(|(_, slot)| slot).collect())
    }

    /// Ends without completing the checkpoint.
    fn give_up(&mut self) -> Option<Bytes> {
        self.ended = true;
        None
    }

    fn end(&mut self) -> Bytes {
        self.ended = true;
        frame(FrameKind::End, &self.keys_written.to_le_bytes())
    }
}

impl Iterator for CheckpointSource {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if let Some(header) = self.header.take() {
            return Some(header);
        }
        if let Some(small) = self.small.take() {
            self.sort_lists();
            return Some(frame(FrameKind::Small, &small.body()));
        }
        match self.leases_chunk() {
            Ok(None) => {}
            Ok(chunk) => return chunk,
            Err(StateReplaced) => return self.give_up(),
        }
        let max_bytes = self.shared.limits.checkpoint_chunk_bytes;
        if let Some(body) =
            next_entries(&mut self.removed, max_bytes, |out, key| put_bytes(out, key.as_slice()))
        {
            return Some(frame(FrameKind::Removed, &body));
        }
        let put = |out: &mut Vec<u8>, (key, revision, address): &(IndexKey, Revision, u64)| {
            put_relocated(out, key.as_slice(), *revision, *address);
        };
        if let Some(body) = next_entries(&mut self.relocated, max_bytes, put) {
            return Some(frame(FrameKind::Relocated, &body));
        }
        match self.keys_chunk() {
            Ok(chunk) => chunk.or_else(|| Some(self.end())),
            Err(StateReplaced) => self.give_up(),
        }
    }
}

fn header(state: &StoreState, kind: CheckpointKind, baseline: Option<CheckpointBaseline>) -> Bytes {
    let follows = baseline.map_or(AppliedId::default(), |baseline| baseline.applied);
    let (revision, compacted, purged) = (state.revision, state.compacted, state.purge_progress());
    let (applied, hash) = (state.applied, state.hash());
    let format = small_state::format_of(state);
    CheckpointHeader { format, kind, applied, follows, revision, compacted, purged, hash }.frame()
}

/// The body of a frame with the next entries; `None` if there are none left.
fn next_entries<T>(
    entries: &mut std::vec::IntoIter<T>,
    max_bytes: usize,
    mut put: impl FnMut(&mut Vec<u8>, &T),
) -> Option<Vec<u8>> {
    if entries.len() == 0 {
        return None;
    }
    let mut body = Vec::new();
    for entry in entries.by_ref().take(MAX_FRAME_ENTRIES) {
        put(&mut body, &entry);
        if body.len() >= max_bytes {
            break;
        }
    }
    Some(body)
}

/// A lease. One that has ended is written with a TTL of 0, which no lease has.
pub(super) fn put_lease(out: &mut Vec<u8>, (id, lease): &(i64, Option<LeaseInfo>)) {
    put_signed(out, *id);
    put_number(out, lease.map_or(0, |lease| lease.ttl as u64));
    if let Some(lease) = lease {
        put_number(out, lease.remaining as u64);
    }
}

/// A value that has a new log address.
pub(super) fn put_relocated(out: &mut Vec<u8>, key: &[u8], revision: Revision, address: u64) {
    put_bytes(out, key);
    put_number(out, revision.main as u64);
    put_number(out, u64::from(revision.sub));
    out.extend_from_slice(&address.to_le_bytes());
}

/// See [`Store::begin_checkpoint`](crate::Store::begin_checkpoint).
pub(crate) fn begin(shared: &Arc<StoreShared>, kind: CheckpointKind) -> CheckpointSource {
    let mut state = shared.state.write();
    let baseline = CheckpointBaseline { applied: state.applied, revision: state.revision };
    let changed = state.changes.rebase(baseline).filter(|_| kind == CheckpointKind::Delta);
    let pin = shared.pin(state.purged);
    CheckpointSource::new(Arc::clone(shared), &state, changed, pin)
}

/// See [`Store::begin_snapshot`](crate::Store::begin_snapshot).
pub(crate) fn begin_detached(shared: &Arc<StoreShared>) -> CheckpointSource {
    let state = shared.state.read();
    let pin = shared.pin(state.purged);
    CheckpointSource::new(Arc::clone(shared), &state, None, pin)
}
