//! Puts and deletions.

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;

use super::batch::{BatchApply, RevisionCursor};
use crate::command::{DeleteReply, PutReply};
use crate::hash::key_hash;
use crate::index::Version;
use crate::range::{bounds, kv_ref};
use crate::types::{Event, EventKind, KvRef, Revision};
use crate::values::retain;

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
        self.counts.puts += 1;
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
        self.state.lessor.reattach(effect.slot, old_lease, lease);
        let newest = self.state.index.at_slot(effect.slot).newest();
        if let Some(previous) = &effect.previous {
            self.hash_out(&request.key, previous);
        }
        self.state.key_hash = self.state.key_hash.wrapping_add(key_hash(&request.key, &newest));
        let kv = kv_ref(request.key.clone(), &newest);
        // As in etcd, the first version of a generation has no previous one, even if the same revision ended the
        // generation before.
        let begins = newest.create == revision.main;
        let prev = || self.before_revision(&request.key, effect.slot, effect.previous, revision.main);
        let prev = if begins { None } else { prev() };
        self.push_event(Event { kind: EventKind::Put, kv, prev });
        let previous =
            effect.previous.filter(|_| request.prev_kv).map(|old| kv_ref(request.key.clone(), &old));
        PutReply { revision: revision.main, previous }
    }

    /// A deletion outside a transaction.
    pub(super) fn delete_range(&mut self, request: &pb::DeleteRangeRequest) -> DeleteReply {
        let mut changes = self.begin();
        let reply = self.execute_delete(request, &mut changes);
        self.end(&changes);
        reply
    }

    /// Carries out a deletion.
    pub(super) fn execute_delete(
        &mut self,
        request: &pb::DeleteRangeRequest,
        changes: &mut RevisionCursor,
    ) -> DeleteReply {
        self.counts.deletes += 1;
        let slots = if request.range_end.is_empty() {
            let slot = self.state.index.slot(&request.key);
            slot.filter(|slot| self.state.index.at_slot(*slot).is_live()).into_iter().collect()
        } else {
            self.state.index.live_slots(&bounds(&request.key, &request.range_end))
        };
        let mut previous = Vec::new();
        for slot in &slots {
            let old = self.delete_slot(*slot, changes);
            if request.prev_kv {
                previous.push(old);
            }
        }
        DeleteReply { revision: changes.visible(), deleted: slots.len() as i64, previous }
    }

    /// Deletes the live key in `slot`; returns its last version.
    pub(super) fn delete_slot(&mut self, slot: u32, changes: &mut RevisionCursor) -> KvRef {
        let revision = changes.next();
        let old = self.state.index.tombstone(slot, revision);
        if old.revision.main <= self.state.changes.baseline() {
            self.state.changes.note_written(slot);
        }
        self.state.lessor.reattach(slot, old.lease, 0);
        let key = Bytes::copy_from_slice(self.state.index.at_slot(slot).key());
        self.hash_out(&key, &old);
        let kv = kv_ref(key.clone(), &Version::tombstone(revision));
        let prev = self.before_revision(&key, slot, Some(old), revision.main);
        self.push_event(Event { kind: EventKind::Delete, kv, prev });
        kv_ref(key, &old)
    }

    /// Subtracts a version that is no longer the newest from the state hash.
    fn hash_out(&mut self, key: &[u8], old: &Version) {
        self.state.key_hash = self.state.key_hash.wrapping_sub(key_hash(key, old));
    }

    /// The version that is an event's previous one: the newest before its *revision*. That is the version it replaced,
    /// unless the same transaction changed the key twice.
    fn before_revision(&self, key: &Bytes, slot: u32, replaced: Option<Version>, main: i64) -> Option<KvRef> {
        let old = match replaced {
            Some(old) if old.revision.main < main => Some(old),
            _ => {
                let before = Revision { main: main - 1, sub: u32::MAX };
                self.state.index.at_slot(slot).live_until(before)
            }
        };
        old.map(|old| kv_ref(key.clone(), &old))
    }
}
