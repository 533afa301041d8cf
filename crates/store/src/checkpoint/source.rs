//! Writing a checkpoint, a chunk at a time, while commands are applied.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLockReadGuard;

use super::codec::{put_bytes, put_key, put_number, put_signed, put_version};
use super::dirty::{Baseline, DirtyChanges};
use super::frame::{FrameKind, frame};
use super::{CheckpointKind, FORMAT_VERSION};
use crate::index::tree::Bounds;
use crate::index::{Key, Record, walk_chunk};
use crate::lease::LeaseInfo;
use crate::members::Member;
use crate::state::{Pin, Position, Shared, State};
use crate::types::Revision;

/// First bytes of a checkpoint.
pub(super) const MAGIC: [u8; 4] = *b"STLC";

/// Entries of lists in one frame; a few dozen bytes each.
const LIST_CHUNK: usize = 2_000;

/// A checkpoint being written: an iterator over its chunks. It may be moved to another thread. While it lives
/// nothing is purged.
pub struct CheckpointSource {
    shared: Arc<Shared>,
    kind: CheckpointKind,
    position: Position,
    revision: i64,
    /// Versions above it are in; `i64::MIN` in a base.
    baseline: i64,
    /// Header and small state.
    head: std::vec::IntoIter<Bytes>,
    leases: std::vec::IntoIter<(i64, Option<LeaseInfo>)>,
    removed: std::vec::IntoIter<Key>,
    moved: std::vec::IntoIter<(Key, Revision, u64)>,
    keys: KeysLeft,
    keys_written: u64,
    /// The state's count when this began.
    installs: u64,
    ended: bool,
    _pin: Pin,
}

/// The state this is a checkpoint of is gone: it must not come to an end.
struct Replaced;

enum KeysLeft {
    /// In key order, from this one on.
    From(Key),
    /// Those in these slots, noted as they were written.
    Noted(Vec<u32>),
    /// Those in these slots, in key order.
    Sorted(std::vec::IntoIter<u32>),
    None,
}

impl CheckpointSource {
    /// A delta of what `changed` since its baseline, or a base.
    pub(super) fn new(
        shared: Arc<Shared>,
        state: &State,
        changed: Option<(Baseline, DirtyChanges)>,
        pin: Pin,
    ) -> CheckpointSource {
        let (position, revision) = (state.applied, state.revision);
        let kind = if changed.is_some() { CheckpointKind::Delta } else { CheckpointKind::Base };
        let baseline = changed.as_ref().map(|(baseline, _)| *baseline);
        let head = vec![header(state, kind, baseline), frame(FrameKind::Small, &small(state))];
        let (changes, keys, leases) = match changed {
            Some((_, mut changes)) => {
                let leases = changes.leases.iter().map(|id| (*id, state.lessor.get(*id))).collect();
                let slots = std::mem::take(&mut changes.slots);
                (changes, KeysLeft::Noted(slots), leases)
            }
            None => {
                let leases: Vec<_> =
                    state.lessor.iter_from(i64::MIN).map(|lease| (lease.id, Some(lease))).collect();
                (DirtyChanges::default(), KeysLeft::From(Key::default()), leases)
            }
        };
        CheckpointSource {
            shared,
            kind,
            position,
            revision,
            baseline: baseline.map_or(i64::MIN, |baseline| baseline.revision),
            head: head.into_iter(),
            leases: leases.into_iter(),
            removed: changes.removed.into_iter(),
            moved: changes.moved.into_iter(),
            keys,
            keys_written: 0,
            installs: state.installs,
            ended: false,
            _pin: pin,
        }
    }

    /// What it holds; a base where a delta was asked for but has nothing to follow.
    pub fn kind(&self) -> CheckpointKind {
        self.kind
    }

    /// The last entry whose effects are in.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The revision of the store then.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    fn keys_chunk(&mut self) -> Result<Option<Bytes>, Replaced> {
        let mut chunk = KeysChunk {
            body: Vec::with_capacity(self.shared.limits.checkpoint_chunk_bytes + 1024),
            before: Key::default(),
            above: self.baseline,
            until: Revision { main: self.revision, sub: u32::MAX },
            max_bytes: self.shared.limits.checkpoint_chunk_bytes,
            keys: 0,
        };
        let limits = self.shared.limits;
        while chunk.body.is_empty() {
            self.keys = match std::mem::replace(&mut self.keys, KeysLeft::None) {
                KeysLeft::None => return Ok(None),
                KeysLeft::Noted(slots) => KeysLeft::Sorted(self.in_key_order(slots)?.into_iter()),
                KeysLeft::From(start) => {
                    let bounds = Bounds { start: start.as_slice(), end: None };
                    let visit = |record: &Record, _| chunk.add(record);
                    let state = self.state()?;
                    walk_chunk(&state.index, &bounds, limits.chunk_keys, visit)
                        .map_or(KeysLeft::None, KeysLeft::From)
                }
                KeysLeft::Sorted(mut slots) => {
                    let state = self.state()?;
                    let full = slots.by_ref().take(limits.chunk_keys).any(|slot| {
                        let flow = chunk.add(state.index.at_slot(slot));
                        flow.is_break() || chunk.is_full()
                    });
                    if !full && slots.len() == 0 { KeysLeft::None } else { KeysLeft::Sorted(slots) }
                }
            };
        }
        self.keys_written += chunk.keys;
        Ok(Some(frame(FrameKind::Keys, &chunk.body)))
    }

    /// Puts what is looked up by key into key order: whoever restores it then finds each near the one before.
    fn sort_lists(&mut self) {
        self.removed.as_mut_slice().sort_unstable_by(|a, b| a.as_slice().cmp(b.as_slice()));
        // A value may have moved twice: the later place comes later.
        self.moved.as_mut_slice().sort_by(|(a, ..), (b, ..)| a.as_slice().cmp(b.as_slice()));
    }

    /// The state, unless it is no longer the one this began with.
    fn state(&self) -> Result<RwLockReadGuard<'_, State>, Replaced> {
        let state = self.shared.state.read();
        if state.installs == self.installs { Ok(state) } else { Err(Replaced) }
    }

    /// These slots, each once, in the order of their keys. Nothing is purged meanwhile, so they stay what they are.
    fn in_key_order(&self, mut slots: Vec<u32>) -> Result<Vec<u32>, Replaced> {
        slots.sort_unstable();
        slots.dedup();
        let mut keys = Vec::with_capacity(slots.len());
        for some in slots.chunks(self.shared.limits.chunk_keys) {
            let state = self.state()?;
            keys.extend(some.iter().map(|slot| (Key::new(state.index.at_slot(*slot).key()), *slot)));
        }
        keys.sort_unstable_by(|(a, _), (b, _)| a.as_slice().cmp(b.as_slice()));
        Ok(keys.into_iter().map(|(_, slot)| slot).collect())
    }

    fn end(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        self.ended = true;
        Some(frame(FrameKind::End, &self.keys_written.to_le_bytes()))
    }
}

impl Iterator for CheckpointSource {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.head.next() {
            if self.head.len() == 0 {
                self.sort_lists();
            }
            return Some(frame);
        }
        if let Some(body) = list(&mut self.leases, put_lease) {
            return Some(frame(FrameKind::Leases, &body));
        }
        if let Some(body) = list(&mut self.removed, |out, key| put_bytes(out, key.as_slice())) {
            return Some(frame(FrameKind::Removed, &body));
        }
        if let Some(body) = list(&mut self.moved, put_moved) {
            return Some(frame(FrameKind::Moved, &body));
        }
        match self.keys_chunk() {
            Ok(chunk) => chunk.or_else(|| self.end()),
            Err(Replaced) => {
                self.ended = true;
                None
            }
        }
    }
}

/// A frame of keys being filled.
struct KeysChunk {
    body: Vec<u8>,
    before: Key,
    above: i64,
    until: Revision,
    max_bytes: usize,
    keys: u64,
}

impl KeysChunk {
    fn is_full(&self) -> bool {
        self.body.len() >= self.max_bytes
    }

    /// Adds the record's versions of this checkpoint, unless the chunk is full: then the walk comes back to
    /// it.
    fn add(&mut self, record: &Record) -> ControlFlow<()> {
        if self.is_full() {
            return ControlFlow::Break(());
        }
        let wanted = |version: &crate::index::Version| {
            version.revision.main > self.above.max(0) && version.revision <= self.until
        };
        let count = record.versions().filter(wanted).count();
        if count == 0 {
            return ControlFlow::Continue(());
        }
        put_key(&mut self.body, self.before.as_slice(), record.key());
        // Purging drops from the oldest on. If it reached past the baseline, what is here is all there is of
        // the key.
        let whole = count == record.versions().filter(|version| version.revision <= self.until).count();
        put_number(&mut self.body, (count as u64) << 1 | u64::from(whole));
        for version in record.versions().filter(wanted) {
            put_version(&mut self.body, &version);
        }
        self.before = Key::new(record.key());
        self.keys += 1;
        ControlFlow::Continue(())
    }
}

fn header(state: &State, kind: CheckpointKind, baseline: Option<Baseline>) -> Bytes {
    let mut body = MAGIC.to_vec();
    body.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    body.push(u8::from(kind == CheckpointKind::Delta));
    let baseline = baseline.map_or(Position::default(), |baseline| baseline.position);
    for number in [state.applied.index, state.applied.term, baseline.index, baseline.term] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    for number in [state.revision, state.compacted, state.purging()] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    body.extend_from_slice(&state.hash().to_le_bytes());
    frame(FrameKind::Header, &body)
}

fn small(state: &State) -> Vec<u8> {
    let mut body = Vec::new();
    let alarms = state.alarms.list(0);
    put_number(&mut body, alarms.len() as u64);
    for alarm in alarms {
        put_signed(&mut body, alarm.alarm.into());
        put_number(&mut body, alarm.member_id);
    }
    put_number(&mut body, state.members.members.len() as u64);
    for member in state.members.members.values() {
        put_member(&mut body, member);
    }
    put_number(&mut body, state.members.removed.len() as u64);
    for id in &state.members.removed {
        put_number(&mut body, *id);
    }
    put_bytes(&mut body, state.members.cluster_version.as_deref().unwrap_or_default().as_bytes());
    body
}

fn put_member(out: &mut Vec<u8>, member: &Member) {
    put_number(out, member.id);
    out.push(u8::from(member.learner));
    put_bytes(out, member.name.as_bytes());
    for urls in [&member.peer_urls, &member.client_urls] {
        put_number(out, urls.len() as u64);
        urls.iter().for_each(|url| put_bytes(out, url.as_bytes()));
    }
    put_number(out, member.incarnation);
}

/// The body of a frame with the next entries of a list; `None` at its end.
fn list<T>(entries: &mut std::vec::IntoIter<T>, mut put: impl FnMut(&mut Vec<u8>, &T)) -> Option<Vec<u8>> {
    if entries.len() == 0 {
        return None;
    }
    let mut body = Vec::new();
    entries.by_ref().take(LIST_CHUNK).for_each(|entry| put(&mut body, &entry));
    Some(body)
}

/// A lease; one that is gone has a TTL of 0, which no lease has.
fn put_lease(out: &mut Vec<u8>, (id, lease): &(i64, Option<LeaseInfo>)) {
    put_signed(out, *id);
    put_number(out, lease.map_or(0, |lease| lease.ttl as u64));
    if let Some(lease) = lease {
        put_number(out, lease.remaining as u64);
    }
}

fn put_moved(out: &mut Vec<u8>, (key, revision, address): &(Key, Revision, u64)) {
    put_bytes(out, key.as_slice());
    put_number(out, revision.main as u64);
    put_number(out, u64::from(revision.sub));
    out.extend_from_slice(&address.to_le_bytes());
}
