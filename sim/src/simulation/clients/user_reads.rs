//! Reads of users: in steps, as a server makes them, between which users and roles may change.
//!
//! ```text
//! the member may be read       ann is looked up, at auth revision 4, and may read k: as the model says
//! a little later               k is read; the model notes what ann may read at this moment
//! later                        the revision is still 4: the answer leaves, and ann must have had the right to it
//!                              it is not: refused
//! ```

use std::sync::Arc;

use api::Error;
use api::etcdserverpb as pb;
use store::{Caller, ReadTxn, resolve_txn};

use super::tokens::Identified;
use crate::checks::permissions::CHECK;
use crate::checks::permissions::model::AuthModel;
use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::{Simulation, UserRead};
use crate::world::queue::SimEvent;
use crate::world::request::{ClientRequest, PendingRequest};

const MS: u64 = 1_000_000;

impl Simulation {
    /// A member may be read: its user is looked up and checked.
    pub(super) fn begin_user_read(
        &mut self,
        member: usize,
        mut pending: PendingRequest,
    ) -> Result<(), Violation> {
        match self.identify(member, &pending)? {
            Identified::As(caller) => pending.caller = caller,
            Identified::Refused => return self.token_is_refused(&pending),
            Identified::NotApplied => {
                let text = format!("member {member} does not know {:?}, and may be read", pending.token);
                return Violation::err(CHECK, text);
            }
        }
        let state = self.auth_state(member)?;
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        let reader = &process.opened.reader;
        let checked = match &pending.request {
            ClientRequest::Read(range) | ClientRequest::SerializableRead(range) => {
                let by_first_key = self.defect == Some(Defect::RangeCheckedByFirstKey);
                let end = if by_first_key { &[][..] } else { &range.range_end };
                reader.check_range(&pending.caller, &range.key, end)
            }
            ClientRequest::ReadTxn(txn) => reader.check_txn(&pending.caller, txn),
            _ => Ok(()),
        };
        let expected = state.judge(&pending.caller, &pending.request);
        let is_noticed_later = self.defect == Some(Defect::RangeCheckedByFirstKey);
        if checked != expected && !is_noticed_later {
            let (caller, request) = (&pending.caller, &pending.request);
            let text =
                format!("{caller:?}: {request:?}: {checked:?}, the model says {expected:?} in {state:?}");
            return Violation::err(CHECK, text);
        }
        if checked.is_err() {
            self.coverage.event("reads denied");
            self.request_is_over(pending.client, pending.number);
            return Ok(());
        }
        pending.is_checked = true;
        self.resume_user_read(member, pending);
        Ok(())
    }

    /// A read whose caller was checked is to be made.
    pub(super) fn resume_user_read(&mut self, member: usize, pending: PendingRequest) {
        let number = pending.number;
        self.workload.user_reads.insert(number, UserRead { pending, seen: None });
        self.user_read_waits(member, number);
    }

    fn user_read_waits(&mut self, member: usize, number: u64) {
        let longest = [1, 2 * MS, 40 * MS][self.workload.rng.below(3) as usize];
        let at_ns = self.now_ns + 1 + self.workload.rng.below(longest);
        let run = self.machines[member].run;
        self.queue.schedule(at_ns, SimEvent::ReadGoesOn { member, run, number });
    }

    /// A read of a user goes on.
    pub(in crate::simulation) fn read_goes_on(
        &mut self,
        member: usize,
        run: u64,
        number: u64,
    ) -> Result<(), Violation> {
        let Some(UserRead { pending, seen }) = self.workload.user_reads.remove(&number) else {
            return Ok(());
        };
        let paused_until_ns = match self.machines[member].process(run) {
            Some(process) => process.paused_until_ns,
            None => {
                self.client_loses_process(pending.client, number);
                return Ok(());
            }
        };
        let Some(then) = seen.clone().filter(|_| paused_until_ns <= self.now_ns) else {
            return match paused_until_ns > self.now_ns {
                true => {
                    self.workload.user_reads.insert(number, UserRead { pending, seen });
                    self.queue.schedule(paused_until_ns, SimEvent::ReadGoesOn { member, run, number });
                    Ok(())
                }
                false => self.make_user_read(member, pending),
            };
        };
        self.answer_user_read(member, &pending, &then)?;
        self.checks.checked += 1;
        self.request_is_over(pending.client, number);
        Ok(())
    }

    fn make_user_read(&mut self, member: usize, pending: PendingRequest) -> Result<(), Violation> {
        let seen = Some(self.auth_state(member)?);
        let is_answered = match &pending.request {
            ClientRequest::ReadTxn(txn) => {
                self.answer_read_txn(member, &pending, txn)?;
                true
            }
            ClientRequest::Read(range) | ClientRequest::SerializableRead(range) => {
                self.answer_range(member, &pending, range)?
            }
            _ => true,
        };
        if is_answered {
            let number = pending.number;
            self.workload.user_reads.insert(number, UserRead { pending, seen });
            self.user_read_waits(member, number);
        }
        Ok(())
    }

    /// The answer leaves, unless users or roles have changed; `then` is the state at the moment of reading.
    fn answer_user_read(
        &mut self,
        member: usize,
        pending: &PendingRequest,
        then: &Arc<AuthModel>,
    ) -> Result<(), Violation> {
        let (revision, is_enabled) = self.auth_state(member)?.position();
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        let caller = &pending.caller;
        let unchanged = process.opened.reader.check_unchanged(caller);
        if self.defect != Some(Defect::ReadNotRechecked)
            && let Err(error) = unchanged
        {
            self.coverage.event("reads refused after they were made");
            let expected = match caller {
                Caller::Anonymous if is_enabled => Some(Error::UserEmpty),
                Caller::User { revision: named, .. } if *named != revision => Some(Error::AuthOldRevision),
                _ => None,
            };
            if Some(error) == expected {
                return Ok(());
            }
            return Violation::err(CHECK, format!("{caller:?}: {:?} was refused: {error}", pending.request));
        }
        // The rights of that moment count, whatever the auth revision at which the user was looked up.
        let present = caller.clone().at_present();
        // While auth is disabled everybody may read all revisions, also those written while it was enabled. So what
        // counts for a caller without a name is the moment of the answer.
        let is_open = !is_enabled && matches!(caller, Caller::Anonymous);
        match if is_open { Ok(()) } else { then.judge(&present, &pending.request) } {
            Ok(()) => self.coverage.event("reads permitted"),
            Err(error) => {
                let text = format!("{caller:?} was answered {:?}, in {then:?}: {error}", pending.request);
                return Violation::err(CHECK, text);
            }
        }
        Ok(())
    }

    fn answer_read_txn(
        &mut self,
        member: usize,
        pending: &PendingRequest,
        txn: &pb::TxnRequest,
    ) -> Result<(), Violation> {
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        let Some(read) = ReadTxn::of(txn) else { return Ok(()) };
        let opened = &process.opened;
        let answered = match opened.reader.txn(&read) {
            Ok(Ok(reply)) => resolve_txn(&reply, opened.values.as_ref()),
            Ok(Err(error)) => {
                return Violation::err("answers fit", format!("{txn:?} was refused: {error}"));
            }
            Err(damaged) => Err(damaged),
        };
        match answered {
            Ok(response) => {
                self.coverage.event("transactions of ranges checked");
                let (after, history) = (pending.after, &self.checks.history);
                self.checks.serializability.read_txn(txn, &response, after, history)
            }
            Err(damaged) => self.request_repair(member, &damaged).map(drop),
        }
    }
}
