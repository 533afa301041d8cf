//! Commands, from their beginning to their outcome. One that touches much goes on over several slices.

use api::Error;

use super::batch::{BatchApply, RevisionCursor};
use super::check::CheckWork;
use super::compare::{CompareProgress, CompareWork};
use super::kv::DeleteWork;
use super::lease::RevokeWork;
use super::txn::TxnWork;
use crate::auth::{AuthCommand, LeaseCheck, Permit, leases_of};
use crate::command::{Command, Outcome, Reply};
use crate::state::{CompactionHash, StoreState};

/// A command, from its beginning to its outcome.
pub(super) enum CommandWork {
    /// Whether its caller may do this is not known yet: the keys of a lease may be many.
    Unchecked(Command),
    /// It did all its work when it began.
    Ended(Outcome),
    Delete(DeleteWork, RevisionCursor),
    Revoke(RevokeWork, RevisionCursor),
    /// The three passes of a transaction.
    Compare(Box<CompareWork>),
    Check(Box<CheckWork>),
    Txn(Box<TxnWork>),
}

impl CommandWork {
    /// Whether it may have changed something. Before, references may be switched.
    pub(super) fn has_changes(&self) -> bool {
        matches!(self, CommandWork::Delete(..) | CommandWork::Revoke(..) | CommandWork::Txn(_))
    }
}

/// How far a command got in a slice.
pub(super) enum WorkProgress {
    Done(Outcome),
    GoesOn(CommandWork),
    /// It compares a value that is not in memory.
    LacksValue(CommandWork),
}

impl BatchApply<'_> {
    /// Goes on with a command until it ends or the slice is full.
    pub(super) fn go_on(&mut self, work: CommandWork) -> WorkProgress {
        match work {
            CommandWork::Unchecked(command) => match self.check_command(&command) {
                Ok(LeaseCheck::Permitted) => {
                    let begun = self.begin_command(command);
                    self.go_on(begun)
                }
                Ok(LeaseCheck::GoesOn) => WorkProgress::GoesOn(CommandWork::Unchecked(command)),
                Err(error) => WorkProgress::Done(Err(error)),
            },
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
            CommandWork::Compare(mut work) => match self.go_on_comparing(&mut work) {
                Ok(CompareProgress::Done) => self.go_on(CommandWork::Check(Box::new(CheckWork::new(*work)))),
                Ok(CompareProgress::Full) => WorkProgress::GoesOn(CommandWork::Compare(work)),
                Ok(CompareProgress::LacksValue) => WorkProgress::LacksValue(CommandWork::Compare(work)),
                Err(error) => WorkProgress::Done(Err(error)),
            },
            CommandWork::Check(mut work) => match self.go_on_checking(&mut work) {
                Ok(true) => {
                    let work = self.begin_steps(work.into_steps());
                    self.go_on(CommandWork::Txn(Box::new(work)))
                }
                Ok(false) => WorkProgress::GoesOn(CommandWork::Check(work)),
                Err(error) => WorkProgress::Done(Err(error)),
            },
            CommandWork::Txn(mut work) => match self.go_on_with_txn(&mut work) {
                Some(reply) => WorkProgress::Done(Ok(Reply::Txn(reply))),
                None => WorkProgress::GoesOn(CommandWork::Txn(work)),
            },
        }
    }

    /// Begins a command that was checked. One that is refused leaves the state as it was.
    fn begin_command(&mut self, command: Command) -> CommandWork {
        let outcome = match command {
            Command::DeleteRange(request) => {
                self.results.counts.deletes += 1;
                return CommandWork::Delete(DeleteWork::new(request), self.begin());
            }
            Command::Txn(request) => {
                self.results.counts.txns += 1;
                return CommandWork::Compare(Box::new(CompareWork::new(request)));
            }
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
            Command::DowngradeInfoSet(request) => {
                let target = Some(request.ver).filter(|version| request.enabled && !version.is_empty());
                self.state.members.downgrade_target = target;
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
            Command::Auth(command) => self.auth(command),
            Command::Unknown => Err(Error::NotCapable),
        };
        CommandWork::Ended(outcome)
    }

    /// Checks a command against the alarms, then its caller: etcd's order. The keys of its leases come last. They are
    /// visited as far as the slice allows; the next slice goes on there, with the same state.
    ///
    /// # Errors
    /// Why it is refused.
    fn check_command(&mut self, command: &Command) -> Result<LeaseCheck, Error> {
        let StoreState { alarms, auth, lessor, index, .. } = &mut *self.state;
        alarms.check(command)?;
        let permit = auth.check_command(self.caller, command)?;
        if matches!(permit, Permit::All) {
            return Ok(LeaseCheck::Permitted);
        }
        for lease in leases_of(command) {
            match &permit {
                Permit::All => {}
                Permit::Refused(error) if lessor.slots_len(lease) > 0 => return Err(*error),
                Permit::Refused(_) => {}
                Permit::Ranges(ranges) => {
                    let check = lessor.check_writable(lease, ranges, index, &mut self.left)?;
                    if check == LeaseCheck::GoesOn {
                        return Ok(check);
                    }
                }
            }
        }
        Ok(LeaseCheck::Permitted)
    }

    /// Changes users and roles, or assigns a token.
    fn auth(&mut self, command: AuthCommand) -> Outcome {
        let assigns = matches!(command, AuthCommand::Authenticate { .. });
        self.state.auth.apply(command, self.ctx.index)?;
        self.results.auth_changed |= !assigns;
        Ok(Reply::Auth { revision: self.state.revision, index: self.ctx.index })
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
