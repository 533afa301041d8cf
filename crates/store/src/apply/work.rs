//! Commands, from their beginning to their outcome. One that touches much goes on over several slices.

use api::Error;

use super::batch::{BatchApply, RevisionCursor};
use super::kv::DeleteWork;
use super::lease::RevokeWork;
use super::txn::TxnWork;
use crate::command::{Command, Outcome, Reply};
use crate::state::CompactionHash;

/// A command, from its beginning to its outcome.
pub(super) enum CommandWork {
    /// It did all its work when it began.
    Ended(Outcome),
    Delete(DeleteWork, RevisionCursor),
    Revoke(RevokeWork, RevisionCursor),
    Txn(Box<TxnWork>),
}

/// How far a command got in a slice.
pub(super) enum WorkProgress {
    Done(Outcome),
    GoesOn(CommandWork),
}

impl BatchApply<'_> {
    /// Goes on with a command until it ends or the slice is full.
    pub(super) fn go_on(&mut self, work: CommandWork) -> WorkProgress {
        match work {
            CommandWork::Ended(outcome) => WorkProgress::Done(outcome),
            CommandWork::Delete(mut work, mut changes) => {
                match self.go_on_deleting(&mut work, &mut changes) {
                    Some(reply) => {
                        self.end(&changes);
                        WorkProgress::Done(Ok(Reply::DeleteRange(reply)))
                    }
                    None => WorkProgress::GoesOn(CommandWork::Delete(work, changes)),
                }
            }
            CommandWork::Revoke(mut work, mut changes) => {
                match self.go_on_revoking(&mut work, &mut changes) {
                    true => WorkProgress::Done(Ok(Reply::LeaseRevoke { revision: self.end(&changes) })),
                    false => WorkProgress::GoesOn(CommandWork::Revoke(work, changes)),
                }
            }
            CommandWork::Txn(mut work) => match self.go_on_with_txn(&mut work) {
                Some(reply) => WorkProgress::Done(Ok(Reply::Txn(reply))),
                None => WorkProgress::GoesOn(CommandWork::Txn(work)),
            },
        }
    }
    /// Begins a command. One that is refused leaves the state as it was.
    pub(super) fn begin_command(&mut self, command: Command) -> CommandWork {
        if let Err(error) = self.state.alarms.check(&command) {
            return CommandWork::Ended(Err(error));
        }
        let outcome = match command {
            Command::DeleteRange(request) => {
                self.results.counts.deletes += 1;
                return CommandWork::Delete(DeleteWork::new(request), self.begin());
            }
            Command::Txn(request) => match self.begin_txn(request) {
                Ok(work) => return CommandWork::Txn(Box::new(work)),
                Err(error) => Err(error),
            },
            Command::LeaseRevoke { request, expiry_term } => {
                match self.begin_revoke(request.id, expiry_term) {
                    Ok(Some(work)) => return CommandWork::Revoke(work, self.begin()),
                    Ok(None) => Ok(Reply::LeaseRevoke { revision: self.state.revision }),
                    Err(error) => Err(error),
                }
            }
            Command::Put(request) => self.put(&request).map(Reply::Put),
            Command::Compaction(request) => self.compact(request.revision),
            Command::LeaseGrant(request) => self.lease_grant(&request),
            Command::LeaseCheckpoint(request) => Ok(self.lease_checkpoint(&request)),
            Command::Alarm(request) => {
                let (alarms, changed) = self.state.alarms.apply(&request);
                self.results.alarms_changed |= changed;
                Ok(Reply::Alarm { revision: self.state.revision, alarms })
            }
            Command::ClusterVersionSet(request) => {
                // An empty version counts as none: checkpoints store it so, and a restart must not change the state
                // hash.
                self.state.members.cluster_version = Some(request.ver).filter(|version| !version.is_empty());
                self.results.cluster_changed = true;
                Ok(Reply::Done)
            }
            Command::Publish { id, incarnation, name, client_urls } => {
                let changed = self.state.members.publish(id, incarnation, &name, &client_urls);
                self.results.cluster_changed |= changed;
                Ok(Reply::Done)
            }
            Command::CommandSet(set) => {
                self.state.members.command_set = self.state.members.command_set.max(set);
                self.results.cluster_changed = true;
                Ok(Reply::Done)
            }
            Command::Unknown => Err(Error::NotCapable),
        };
        CommandWork::Ended(outcome)
    }

    /// Compacts history: raises the compact revision, up to which [`crate::purge`] drops versions later.
    fn compact(&mut self, at: i64) -> Outcome {
        if at <= self.state.compacted {
            return Err(Error::Compacted);
        }
        if at > self.state.revision {
            return Err(Error::FutureRevision);
        }
        self.state.compaction_hash = CompactionHash::begin(self.state.purged, self.state.compacted, at);
        self.state.compacted = at;
        Ok(Reply::Compaction { revision: self.state.revision })
    }
}
