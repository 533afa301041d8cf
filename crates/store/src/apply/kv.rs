//! Puts and deletions. A deletion that touches many keys remembers the key from which it goes on.

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;

use super::batch::{BatchApply, RevisionCursor};
use crate::command::{DeleteReply, PutReply};
use crate::hash::key_hash;
use crate::index::{TreePath, Version};
use crate::range::{bounds, kv_ref};
use crate::state::StoreState;
use crate::types::{Event, EventKind, KvRef, Revision};
use crate::values::retain;

/// A deletion in progress.
pub(super) struct DeleteWork {
    /// The range that is left; a single key without an end.
    start: Bytes,
    end: Bytes,
    wants_previous: bool,
    deleted: i64,
    previous: Vec<KvRef>,
}

impl DeleteWork {
    pub(super) fn new(request: pb::DeleteRangeRequest) -> DeleteWork {
        DeleteWork {
            start: request.key,
            end: request.range_end,
            wants_previous: request.prev_kv,
            deleted: 0,
            previous: Vec::new(),
        }
    }
}

impl BatchApply<'_> {
    /// A put outside a transaction.
    pub(super) fn put(&mut self, request: &pb::PutRequest) -> Result<PutReply, Error> {
        self.check_put(request)?;
        let mut changes = self.begin();
        let reply = self.execute_put(request, &mut changes);
        self.end(&changes);
        Ok(reply)
    }

    /// Checks a put against the present state.
    ///
    /// # Errors
    /// [`Error::LeaseNotFound`], [`Error::KeyNotFound`]
    pub(super) fn check_put(&self, request: &pb::PutRequest) -> Result<(), Error> {
        if request.lease != 0 && !self.state.lessor.contains(request.lease) {
            return Err(Error::LeaseNotFound);
        }
        if (request.ignore_value || request.ignore_lease) && self.newest(&request.key).is_none() {
            return Err(Error::KeyNotFound);
        }
        Ok(())
    }

    /// The newest version of `key`, if it is live.
    pub(super) fn newest(&self, key: &[u8]) -> Option<Version> {
        self.state.index.record(key).map(|record| record.newest()).filter(|version| !version.is_tombstone())
    }

    /// Carries out a put that was checked. If an earlier operation of the same transaction deleted the key, then
    /// `ignore_value` and `ignore_lease` give an empty value and no lease.
    pub(super) fn execute_put(&mut self, request: &pb::PutRequest, changes: &mut RevisionCursor) -> PutReply {
        self.results.counts.puts += 1;
        self.results.counts.put_bytes += (request.key.len() + request.value.len()) as u64;
        let keeps = request.ignore_value || request.ignore_lease;
        let kept = if keeps { self.newest(&request.key).unwrap_or_default() } else { Version::default() };
        let value = if request.ignore_value { kept.value } else { self.value_ref(&request.value) };
        let lease = if request.ignore_lease { kept.lease } else { request.lease };
        retain(self.values, &value);
        let revision = changes.next();
        let baseline = self.state.changes.baseline();
        let effect = self.state.index.put(&request.key, revision, value, lease);
        if effect.previous_revision.is_none_or(|previous| previous.main <= baseline) {
            self.state.changes.note_written(effect.slot);
        }
        let old_lease = effect.previous.map_or(0, |previous| previous.lease);
        self.reattach(effect.slot, old_lease, lease);
        let newest = self.state.index.at_slot(effect.slot).newest();
        if let Some(previous) = &effect.previous {
            self.hash_out(&request.key, previous);
        }
        self.state.key_hash = self.state.key_hash.wrapping_add(key_hash(&request.key, &newest));
        self.push_event(|state| {
            let kv = kv_ref(request.key.clone(), &newest);
            // As in etcd, the first version of a generation has no previous one, even if the same revision ended the
            // generation before.
            let begins = newest.create == revision.main;
            let prev = || before_revision(state, &request.key, effect.slot, effect.previous, revision.main);
            let prev = if begins { None } else { prev() };
            Event { kind: EventKind::Put, kv, prev }
        });
        let previous =
            effect.previous.filter(|_| request.prev_kv).map(|old| kv_ref(request.key.clone(), &old));
        PutReply { revision: revision.main, previous }
    }

    /// Deletes keys of the range that is left. Returns the reply once none is.
    pub(super) fn go_on_deleting(
        &mut self,
        work: &mut DeleteWork,
        changes: &mut RevisionCursor,
    ) -> Option<DeleteReply> {
        let index = &self.state.index;
        let (slots, left) = if work.end.is_empty() {
            let slot = index.slot(&work.start).filter(|slot| index.at_slot(*slot).is_live());
            (slot.into_iter().collect(), 0)
        } else {
            index.live_slots(&bounds(&work.start, &work.end), self.left)
        };
        self.spend(slots.len());
        work.deleted += slots.len() as i64;
        if let Some(last) = slots.last().filter(|_| left > 0) {
            // It is dead from now on, so the walk that goes on here does not find it.
            work.start = Bytes::copy_from_slice(&self.state.index.key(*last));
        }
        let mut path = None;
        for slot in slots {
            let old = self.delete_slot(slot, &mut path, changes);
            if work.wants_previous && self.has_caller {
                work.previous.push(self.kv_in(slot, &old));
            }
        }
        (left == 0).then(|| DeleteReply {
            revision: changes.visible(),
            deleted: work.deleted,
            previous: std::mem::take(&mut work.previous),
        })
    }

    /// Deletes the live key in `slot`; returns its last version. `path` is that of the key deleted before, if nothing
    /// but deletions came in between.
    pub(super) fn delete_slot(
        &mut self,
        slot: u32,
        path: &mut Option<TreePath>,
        changes: &mut RevisionCursor,
    ) -> Version {
        let revision = changes.next();
        let path = self.state.index.move_to(slot, path);
        let old = self.state.index.tombstone(path, revision);
        if old.revision.main <= self.state.changes.baseline() {
            self.state.changes.note_written(slot);
        }
        self.reattach(slot, old.lease, 0);
        let old_hash = key_hash(&self.state.index.key_at(path), &old);
        self.state.key_hash = self.state.key_hash.wrapping_sub(old_hash);
        self.push_event(|state| {
            let key = Bytes::copy_from_slice(&state.index.key_at(path));
            let kv = kv_ref(key.clone(), &Version::tombstone(revision));
            let prev = before_revision(state, &key, slot, Some(old), revision.main);
            Event { kind: EventKind::Delete, kv, prev }
        });
        old
    }

    /// A version of the key in `slot`.
    pub(super) fn kv_in(&self, slot: u32, version: &Version) -> KvRef {
        kv_ref(Bytes::copy_from_slice(&self.state.index.key(slot)), version)
    }

    /// Moves the key in `slot` from one lease to another; 0 is none.
    fn reattach(&mut self, slot: u32, from: i64, to: i64) {
        if from != 0 && from != to {
            self.state.unfinished.detached.insert((from, slot));
        }
        self.state.lessor.reattach(slot, from, to);
        if from != to {
            self.state.lessor.note_attached(to, slot, &self.state.index.key(slot));
        }
    }

    /// Subtracts a version that is no longer the newest from the state hash.
    fn hash_out(&mut self, key: &[u8], old: &Version) {
        self.state.key_hash = self.state.key_hash.wrapping_sub(key_hash(key, old));
    }
}

/// The version that is an event's previous one: the newest before its *revision*. That is the version it replaced,
/// unless the same transaction changed the key twice.
fn before_revision(
    state: &StoreState,
    key: &Bytes,
    slot: u32,
    replaced: Option<Version>,
    main: i64,
) -> Option<KvRef> {
    let old = match replaced {
        Some(old) if old.revision.main < main => Some(old),
        _ => {
            let before = Revision { main: main - 1, sub: u32::MAX };
            state.index.at_slot(slot).live_until(before)
        }
    };
    old.map(|old| kv_ref(key.clone(), &old))
}
