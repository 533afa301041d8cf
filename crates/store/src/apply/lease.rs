//! Commands on leases.
//!
//! The keys of a lease are deleted in key order, so that the deletions have the same subs on all members. They are
//! collected and sorted in *runs* of a slice each, which are then merged:
//!
//! ```text
//! lease 7, keys in the order of their slots: f b d | a e | c     runs [b d f] [a e] [c]
//! merge                                                          a b c d e f
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;

use super::batch::{BatchApply, RevisionCursor};
use crate::command::{LeaseChange, Outcome, Reply};

/// A revocation in progress.
pub(super) struct RevokeWork {
    id: i64,
    /// The first slot that was not collected.
    next_slot: u32,
    is_collected: bool,
    /// Slots of the lease's keys, each run in key order.
    runs: Vec<std::vec::IntoIter<u32>>,
    /// The next key and slot of each run, once all are collected.
    next: BinaryHeap<Reverse<(Bytes, u32, usize)>>,
}

impl RevokeWork {
    pub(super) fn new(id: i64) -> RevokeWork {
        RevokeWork { id, next_slot: 0, is_collected: false, runs: Vec::new(), next: BinaryHeap::new() }
    }
}

impl BatchApply<'_> {
    /// Grants a lease.
    pub(super) fn lease_grant(&mut self, request: &pb::LeaseGrantRequest) -> Outcome {
        let id = request.id;
        let ttl = self.state.lessor.grant(id, request.ttl)?;
        self.state.changes.note_lease(id);
        self.results.leases.push(LeaseChange::Granted { id, ttl });
        Ok(Reply::LeaseGrant { id, ttl, revision: self.state.revision })
    }

    /// Begins to end a lease and to delete its keys, in key order, so that the deletions have the same subs on all
    /// members. `None` for an expiry proposed in another term than that of its
    /// entry, which has no effect.
    pub(super) fn begin_revoke(
        &mut self,
        id: i64,
        expiry_term: Option<u64>,
    ) -> Result<Option<RevokeWork>, Error> {
        if !self.state.lessor.contains(id) {
            return Err(Error::LeaseNotFound);
        }
        if expiry_term.is_some_and(|term| term != self.ctx.term) {
            self.results.leases.push(LeaseChange::ExpiryIgnored { id });
            return Ok(None);
        }
        Ok(Some(RevokeWork::new(id)))
    }

    /// Collects and deletes keys of the lease. Returns whether the lease is gone.
    pub(super) fn go_on_revoking(&mut self, work: &mut RevokeWork, changes: &mut RevisionCursor) -> bool {
        while !work.is_collected {
            if self.left == 0 {
                return false;
            }
            self.collect_run(work);
        }
        let mut path = None;
        while let Some(Reverse((_, slot, run))) = work.next.peek() {
            if self.left == 0 {
                return false;
            }
            let (slot, run) = (*slot, *run);
            work.next.pop();
            if let Some(following) = work.runs[run].next() {
                work.next.push(Reverse((self.key_in(following), following, run)));
            }
            self.spend(1);
            self.delete_slot(slot, &mut path, changes);
        }
        self.state.lessor.forget(work.id);
        self.state.changes.note_lease(work.id);
        self.results.leases.push(LeaseChange::Revoked { id: work.id });
        true
    }

    /// Collects one run of a lease's keys.
    fn collect_run(&mut self, work: &mut RevokeWork) {
        let mut slots: Vec<u32> =
            self.state.lessor.slots_from(work.id, work.next_slot).take(self.left).collect();
        work.is_collected = slots.len() < self.left;
        self.spend(slots.len());
        work.next_slot = slots.last().map_or(work.next_slot, |last| last + 1);
        let index = &self.state.index;
        slots.sort_unstable_by(|a, b| index.key(*a).cmp(&index.key(*b)));
        work.runs.push(slots.into_iter());
        if work.is_collected {
            for (nth, run) in work.runs.iter_mut().enumerate() {
                work.next.extend(
                    run.next().map(|slot| Reverse((Bytes::copy_from_slice(&index.key(slot)), slot, nth))),
                );
            }
        }
    }

    fn key_in(&self, slot: u32) -> Bytes {
        Bytes::copy_from_slice(&self.state.index.key(slot))
    }

    /// Records remainders. Leases that have ended are skipped.
    pub(super) fn lease_checkpoint(&mut self, request: &pb::LeaseCheckpointRequest) -> Reply {
        self.spend(request.checkpoints.len());
        for checkpoint in &request.checkpoints {
            let id = checkpoint.id;
            if let Some(remaining) = self.state.lessor.checkpoint(id, checkpoint.remaining_ttl) {
                self.state.changes.note_lease(id);
                self.results.leases.push(LeaseChange::Checkpointed { id, remaining });
            }
        }
        Reply::LeaseCheckpoint { revision: self.state.revision }
    }
}
