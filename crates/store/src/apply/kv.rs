//! Puts and deletes.

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;

use super::{Batch, Changes};
use crate::command::{DeleteReply, PutReply};
use crate::hash::key_part;
use crate::index::Version;
use crate::range::{bounds, kv_ref};
use crate::state::retain;
use crate::types::{Event, EventKind, KvRef, Revision};

impl Batch<'_> {
    /// A put on its own.
    pub(super) fn put(&mut self, request: &pb::PutRequest) -> Result<PutReply, Error> {
        self.check_put(request)?;
        let mut changes = self.begin();
        let reply = self.write(request, &mut changes);
        self.end(&changes);
        Ok(reply)
    }

    /// Whether a put can be carried out in the present state.
    pub(super) fn check_put(&self, request: &pb::PutRequest) -> Result<(), Error> {
        if request.lease != 0 && !self.state.lessor.contains(request.lease) {
            return Err(Error::LeaseNotFound);
        }
        if (request.ignore_value || request.ignore_lease) && self.newest(&request.key).is_none() {
            return Err(Error::KeyNotFound);
        }
        Ok(())
    }

    /// The newest version of a live key.
    pub(super) fn newest(&self, key: &[u8]) -> Option<Version> {
        self.state.index.record(key).map(|record| record.newest()).filter(|version| !version.is_tombstone())
    }

    /// Carries out a put that was checked. If an earlier operation of the same transaction deleted the key,
    /// keeping its value or lease keeps nothing.
    pub(super) fn write(&mut self, request: &pb::PutRequest, changes: &mut Changes) -> PutReply {
        self.counts.puts += 1;
        let keeps = request.ignore_value || request.ignore_lease;
        let kept = if keeps { self.newest(&request.key).unwrap_or_default() } else { Version::default() };
        let value = if request.ignore_value { kept.value } else { self.value_ref(&request.value) };
        let lease = if request.ignore_lease { kept.lease } else { request.lease };
        retain(self.values, &value);
        let revision = changes.next();
        let baseline = self.state.dirty.baseline();
        let written = self.state.index.put(&request.key, revision, value, lease);
        if written.previous_revision.is_none_or(|previous| previous.main <= baseline) {
            self.state.dirty.slot(written.slot);
        }
        let old_lease = written.previous.map_or(0, |previous| previous.lease);
        self.state.lessor.reattach(written.slot, old_lease, lease);
        let newest = self.state.index.at_slot(written.slot).newest();
        if let Some(previous) = &written.previous {
            self.hash_out(&request.key, previous);
        }
        self.state.key_hash = self.state.key_hash.wrapping_add(key_part(&request.key, &newest));
        let kv = kv_ref(request.key.clone(), &newest);
        // As in etcd, what begins a generation comes after nothing, also when the same revision ended the one
        // before.
        let begins = newest.create == revision.main;
        let prev = || self.before_revision(&request.key, written.slot, written.previous, revision.main);
        let prev = if begins { None } else { prev() };
        self.events.push(Event { kind: EventKind::Put, kv, prev });
        let previous =
            written.previous.filter(|_| request.prev_kv).map(|old| kv_ref(request.key.clone(), &old));
        PutReply { revision: revision.main, previous }
    }

    /// A deletion on its own.
    pub(super) fn delete_range(&mut self, request: &pb::DeleteRangeRequest) -> DeleteReply {
        let mut changes = self.begin();
        let reply = self.erase(request, &mut changes);
        self.end(&changes);
        reply
    }

    /// Carries out a deletion.
    pub(super) fn erase(&mut self, request: &pb::DeleteRangeRequest, changes: &mut Changes) -> DeleteReply {
        self.counts.deletes += 1;
        let slots = if request.range_end.is_empty() {
            let slot = self.state.index.slot(&request.key);
            slot.filter(|slot| self.state.index.at_slot(*slot).is_live()).into_iter().collect()
        } else {
            self.state.index.live_slots(&bounds(&request.key, &request.range_end))
        };
        let mut previous = Vec::new();
        for slot in &slots {
            let old = self.erase_slot(*slot, changes);
            if request.prev_kv {
                previous.push(old);
            }
        }
        DeleteReply { revision: changes.visible(), deleted: slots.len() as i64, previous }
    }

    /// Deletes the live key in `slot`; returns what it was.
    pub(super) fn erase_slot(&mut self, slot: u32, changes: &mut Changes) -> KvRef {
        let revision = changes.next();
        let old = self.state.index.tombstone(slot, revision);
        if old.revision.main <= self.state.dirty.baseline() {
            self.state.dirty.slot(slot);
        }
        self.state.lessor.reattach(slot, old.lease, 0);
        let key = Bytes::copy_from_slice(self.state.index.at_slot(slot).key());
        self.hash_out(&key, &old);
        let kv = kv_ref(key.clone(), &Version::tombstone(revision));
        let prev = self.before_revision(&key, slot, Some(old), revision.main);
        self.events.push(Event { kind: EventKind::Delete, kv, prev });
        kv_ref(key, &old)
    }

    fn hash_out(&mut self, key: &[u8], old: &Version) {
        self.state.key_hash = self.state.key_hash.wrapping_sub(key_part(key, old));
    }

    /// The version an event's previous value comes from: the one before its *revision*. That is the version
    /// it replaced, unless one transaction changed a key twice.
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
