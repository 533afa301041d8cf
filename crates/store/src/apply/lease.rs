//! Commands on leases.

use api::Error;
use api::etcdserverpb as pb;

use super::batch::BatchApply;
use crate::command::{LeaseChange, Outcome, Reply};

impl BatchApply<'_> {
    /// Grants a lease.
    pub(super) fn lease_grant(&mut self, request: &pb::LeaseGrantRequest) -> Outcome {
        let id = request.id;
        let ttl = self.state.lessor.grant(id, request.ttl)?;
        self.state.changes.note_lease(id);
        self.leases.push(LeaseChange::Granted { id, ttl });
        Ok(Reply::LeaseGrant { id, ttl, revision: self.state.revision })
    }

    /// Ends a lease and deletes its keys, in key order, so that the deletions have the same subs on all members. An
    /// expiry proposed in another term than that of its entry has no effect.
    pub(super) fn lease_revoke(&mut self, id: i64, expiry_term: Option<u64>) -> Outcome {
        if expiry_term.is_some_and(|term| term != self.ctx.term) {
            if self.state.lessor.contains(id) {
                self.leases.push(LeaseChange::ExpiryIgnored { id });
                return Ok(Reply::LeaseRevoke { revision: self.state.revision });
            }
            return Err(Error::LeaseNotFound);
        }
        let mut slots = self.state.lessor.revoke(id)?;
        self.state.changes.note_lease(id);
        self.leases.push(LeaseChange::Revoked { id });
        let index = &self.state.index;
        slots.sort_unstable_by(|a, b| index.at_slot(*a).key().cmp(index.at_slot(*b).key()));
        let mut changes = self.begin();
        for slot in slots {
            self.delete_slot(slot, &mut changes);
        }
        Ok(Reply::LeaseRevoke { revision: self.end(&changes) })
    }

    /// Records remainders. Leases that have ended are skipped.
    pub(super) fn lease_checkpoint(&mut self, request: &pb::LeaseCheckpointRequest) -> Reply {
        for checkpoint in &request.checkpoints {
            let id = checkpoint.id;
            if let Some(remaining) = self.state.lessor.checkpoint(id, checkpoint.remaining_ttl) {
                self.state.changes.note_lease(id);
                self.leases.push(LeaseChange::Checkpointed { id, remaining });
            }
        }
        Reply::LeaseCheckpoint { revision: self.state.revision }
    }
}
