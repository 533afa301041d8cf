//! HashKV, in steps as a server makes them, between which keys are written, history is compacted and snapshots are
//! installed.

use api::Error;
use store::HashKvReply;

use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::{HashInProgress, Simulation, SteppedCall};
use crate::world::request::{ClientRequest, PendingRequest};

impl Simulation {
    /// A hash begins, on any member, of what that has applied.
    pub(in crate::simulation::clients) fn begin_hash(
        &mut self,
        member: usize,
        pending: PendingRequest,
        asked: i64,
    ) -> Result<(), Violation> {
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        let number = pending.number;
        match process.opened.reader.hash_kv(asked) {
            Ok(scan) => {
                let hash = HashInProgress { pending, scan };
                self.call_waits(member, number, SteppedCall::Hash(Box::new(hash)));
                Ok(())
            }
            Err(error) => self.hash_is_refused(&pending, asked, error),
        }
    }

    /// Hashes some more versions.
    pub(super) fn step_hash(
        &mut self,
        member: usize,
        mut hash: Box<HashInProgress>,
    ) -> Result<(), Violation> {
        let (client, number) = (hash.pending.client, hash.pending.number);
        let ClientRequest::HashKv { revision: asked } = hash.pending.request else { return Ok(()) };
        let reply = match hash.scan.step() {
            Ok(None) => {
                self.call_waits(member, number, SteppedCall::Hash(hash));
                return Ok(());
            }
            Ok(Some(reply)) => reply,
            Err(error) => return self.hash_is_refused(&hash.pending, asked, error),
        };
        self.check_hash(member, asked, reply)?;
        self.request_is_over(client, number);
        Ok(())
    }

    fn check_hash(&mut self, member: usize, asked: i64, reply: HashKvReply) -> Result<(), Violation> {
        let history = &self.checks.history;
        // The watch of the answering member may wait for the repair of a value.
        if reply.hash_revision > history.revision() {
            return Ok(());
        }
        self.coverage.event("hashes checked");
        self.checks.checked += 1;
        let is_short = self.defect == Some(Defect::HashMissesNewest);
        let through = reply.hash_revision - i64::from(is_short);
        let expected = history.hash_kv(through, reply.compact_revision, true);
        // At the revision of a compaction it may be the one that was made then, when a tombstone counted as a key.
        let of_compaction = history.hash_kv(through, reply.compact_revision, false);
        let process = self.machines[member].process.as_ref();
        let compacted = process.map_or(-1, |process| process.opened.reader.compacted());
        let may_be_kept = reply.hash_revision <= compacted && reply.hash == of_compaction;
        let is_asked = asked == 0 || reply.hash_revision == asked;
        if is_asked && (reply.hash == expected || may_be_kept) {
            return Ok(());
        }
        let text = format!("member {member} hashes {asked} as {reply:?}, the model says {expected}");
        Violation::err("hashes are of the history", text)
    }

    /// What was compacted meanwhile, or is not applied yet, has no hash.
    fn hash_is_refused(
        &mut self,
        pending: &PendingRequest,
        asked: i64,
        error: Error,
    ) -> Result<(), Violation> {
        match error {
            Error::Compacted | Error::FutureRevision if asked > 0 => {
                self.request_is_over(pending.client, pending.number);
                Ok(())
            }
            _ => Violation::err("answers fit", format!("the hash of {asked} was refused: {error}")),
        }
    }
}
