//! Requests of clients, and the answers to them.

use api::Error;
use api::etcdserverpb as pb;
use member::{Answer, Input, Proposal};
use store::{Response, resolve};

use super::draw::RequestDrawing;
use super::tokens::Identified;
use crate::checks::strict_serializability::revision_of;
use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::machine::id_of;
use crate::world::queue::SimEvent;
use crate::world::request::{ClientRequest, PendingRequest, TokenWait};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// How much longer clients pause between requests once faults have stopped.
const RECOVERY_THINK_FACTOR: u64 = 20;

/// Longest pause of a client in a quiet period.
const MAX_QUIET_THINK_NS: u64 = 60 * SECOND;

impl Simulation {
    /// A client sends a request, unless it waits for one.
    pub(in crate::simulation) fn client_requests(&mut self, client: usize) -> Result<(), Violation> {
        if self.ending.final_writes_sent || self.workload.clients[client].waits_for.is_some() {
            return Ok(());
        }
        if self.workload.rng.percent(15) {
            self.workload.clients[client].member =
                self.workload.rng.below(self.plan.machines() as u64) as usize;
        }
        let member = self.workload.clients[client].member;
        if !self.machines[member].serves() {
            self.workload.clients[client].member = (member + 1) % self.plan.machines();
            let at_ns = self.now_ns + self.workload.rng.between(MS, 100 * MS);
            self.queue.schedule(at_ns, SimEvent::ClientRequests { client });
            return Ok(());
        }
        self.workload.last_number += 1;
        let number = self.workload.last_number;
        let request = self.next_page(client).unwrap_or_else(|| self.draw_request(member, number));
        let request = self.stepped(request);
        let request = self.draw_permission_change(member).unwrap_or(request);
        let request = self.draw_authentication(member, client).unwrap_or(request);
        let timeout_ns = [SECOND, 3 * SECOND, 9 * SECOND][self.workload.rng.below(3) as usize];
        self.workload.clients[client].waits_for = Some(number);
        self.queue.schedule(self.now_ns + timeout_ns, SimEvent::ClientTimeout { client, number });
        self.send_request(client, member, number, request)
    }

    fn draw_request(&mut self, member: usize, number: u64) -> ClientRequest {
        let process = self.machines[member].process.as_ref();
        let alarm = process.and_then(|process| process.opened.reader.alarms().first().copied());
        if let Some(alarm) = alarm.filter(|_| self.workload.rng.percent(10)) {
            let action = pb::alarm_request::AlarmAction::Deactivate as i32;
            self.coverage.event("alarms disarmed");
            return ClientRequest::Disarm(pb::AlarmRequest {
                action,
                member_id: alarm.member_id,
                alarm: alarm.alarm,
            });
        }
        let mut drawing = RequestDrawing {
            plan: &self.plan,
            rng: &mut self.workload.rng,
            history: &self.checks.history,
            leases: &self.workload.leases,
            faults_stopped: self.ending.faults_stopped_ns.is_some(),
            quiet: self.plan.quiet_until(self.now_ns).is_some(),
            number,
        };
        let request = drawing.draw();
        let nested = self.plan.changes_permissions.then(|| drawing.nested());
        self.nest(request, nested)
    }

    /// Sends a request to a member.
    pub(in crate::simulation) fn send_request(
        &mut self,
        client: usize,
        member: usize,
        number: u64,
        request: ClientRequest,
    ) -> Result<(), Violation> {
        let request = if self.plan.changes_permissions { request.into_served() } else { request };
        self.checks.serializability.begins(number, &request);
        if let ClientRequest::Revoke(revoke) = &request {
            self.checks.leases.revoking(revoke.id);
        }
        let after = self.checks.serializability.newest_known();
        let (caller, token) = self.caller_of(member, client, &request);
        let (at_ns, id, is_checked, token_wait) = (self.now_ns, (0, 0, 0), false, TokenWait::NotYet);
        let pending = PendingRequest {
            number,
            client,
            request,
            at_ns,
            after,
            caller,
            token,
            token_wait,
            id,
            is_checked,
        };
        self.identify_sender(member, pending)
    }

    /// A member looks up who sent a request, unless it must catch up before that.
    fn identify_sender(&mut self, member: usize, mut pending: PendingRequest) -> Result<(), Violation> {
        if pending.token.is_some() && !pending.request.is_linearizable_read() {
            match self.identify(member, &pending)? {
                Identified::As(caller) => pending.caller = caller,
                Identified::Refused => return self.token_is_refused(&pending),
                Identified::NotApplied => return self.wait_for_token(member, pending),
            }
            pending.token_wait = TokenWait::Over;
        }
        self.carry_request(member, pending)
    }

    /// A member begins to carry out a request.
    fn carry_request(&mut self, member: usize, mut pending: PendingRequest) -> Result<(), Violation> {
        let (client, number) = (pending.client, pending.number);
        if let (ClientRequest::KeepAlive { lease, renew }, true) =
            (&pending.request, self.plan.changes_permissions)
            && !self.check_lease_call(member, &pending.caller, *lease, *renew)?
        {
            self.request_is_over(client, number);
            return Ok(());
        }
        if let ClientRequest::HashKv { revision } = pending.request {
            return self.begin_hash(member, pending, revision);
        }
        if matches!(pending.request, ClientRequest::ListLeases) {
            self.begin_list(member, pending);
            return Ok(());
        }
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(()) };
        if let ClientRequest::SerializableRead(request) = &pending.request {
            let request = request.clone();
            let paused = process.paused_until_ns > self.now_ns;
            if !paused && self.plan.changes_permissions {
                return self.begin_user_read(member, pending);
            }
            if !paused && self.answer_range(member, &pending, &request)? {
                self.checks.checked += 1;
                self.request_is_over(client, number);
            }
            return Ok(());
        }
        if let (ClientRequest::Read(request), Some(Defect::ReadWithoutIndex)) =
            (&pending.request, self.defect)
        {
            let request = request.clone();
            return self.answer_range(member, &pending, &request).map(|_| ());
        }
        let token = process.take_token();
        pending.id = (id_of(member), process.process_run, token);
        let caller = self.proposer(member, &pending);
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(()) };
        let input = match &pending.request {
            ClientRequest::KeepAlive { lease, renew } => Input::Lease { token, lease: *lease, renew: *renew },
            request => match request.command() {
                Some((kind, body)) => Input::Propose(Proposal { token, kind, caller, body }),
                None => Input::Read { token },
            },
        };
        if self.plan.changes_permissions && matches!(input, Input::Propose(_)) {
            self.checks.auth.begins(pending.id, pending.caller.clone(), pending.request.clone());
        }
        process.pending.insert(token, pending);
        self.give(member, input);
        Ok(())
    }

    /// A client stops waiting; the outcome of its request is unknown.
    pub(in crate::simulation) fn client_times_out(&mut self, client: usize, number: u64) {
        if self.workload.clients[client].waits_for == Some(number) {
            self.coverage.event("requests given up");
            self.workload.clients[client].member =
                self.workload.rng.below(self.plan.machines() as u64) as usize;
            self.request_is_over(client, number);
        }
    }

    /// The process that a client sent its request to is gone; the outcome is unknown.
    pub(in crate::simulation) fn client_loses_process(&mut self, client: usize, number: u64) {
        self.coverage.event("requests lost with a process");
        self.request_is_over(client, number);
    }

    pub(super) fn request_is_over(&mut self, client: usize, number: u64) {
        let Some(state) = self.workload.clients.get_mut(client) else { return };
        if state.waits_for == Some(number) {
            state.waits_for = None;
            let at_ns = self.next_request_ns();
            self.queue.schedule(at_ns, SimEvent::ClientRequests { client });
        }
    }

    /// When a client sends its next request. After the faults few requests are needed to see that the cluster recovers;
    /// in a quiet period few are sent before the next burst.
    fn next_request_ns(&mut self) -> u64 {
        let think_ns = self.plan.max_think_ns;
        match self.plan.quiet_until(self.now_ns) {
            Some(until_ns) => {
                let burst_ns = until_ns.saturating_add(self.workload.rng.below(think_ns));
                (self.now_ns + self.workload.rng.below(MAX_QUIET_THINK_NS)).min(burst_ns)
            }
            None if self.ending.faults_stopped_ns.is_some() => {
                self.now_ns + self.workload.rng.below(think_ns * RECOVERY_THINK_FACTOR)
            }
            None => self.now_ns + self.workload.rng.below(think_ns),
        }
    }

    /// A member answers what no client waits for: an operator does, or no caller any more.
    fn answer_to_no_client(&mut self, member: usize, token: u64, answer: Answer) -> Result<(), Violation> {
        self.operator_is_answered(member, token, &answer);
        match answer {
            Answer::SnapshotFrom(_) | Answer::SnapshotTaken | Answer::SnapshotRefused(_) => {
                self.snapshot_answered(member, token, answer);
                Ok(())
            }
            Answer::LeaderMoved | Answer::MembersChanged(_) | Answer::Failed(_) | Answer::Repaired => Ok(()),
            _ => Violation::err("one answer a request", format!("member {member} answers {token} twice")),
        }
    }

    /// A member answers a request.
    pub(in crate::simulation) fn answered(
        &mut self,
        member: usize,
        token: u64,
        answer: Answer,
    ) -> Result<(), Violation> {
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(()) };
        process.transfer.take_if(|(moving, _)| *moving == token);
        if let Some(renewal) = process.renewals.remove(&token) {
            return self.renewal_is_answered(member, renewal, &answer);
        }
        let Some(pending) = process.pending.remove(&token) else {
            return self.answer_to_no_client(member, token, answer);
        };
        self.checks.checked += 1;
        match answer {
            Answer::Applied(Ok(reply)) => match resolve(&reply, process.opened.values.as_ref()) {
                Ok(response) => {
                    self.acknowledge(member, &pending, &response)?;
                    self.keep_token(&pending, &reply);
                }
                Err(damaged) => {
                    self.request_repair(member, &damaged)?;
                }
            },
            Answer::Applied(Err(error)) => self.refuse(member, &pending, error)?,
            Answer::ReadNow if pending.token_wait == TokenWait::Now => {
                return self.identify_sender(member, pending);
            }
            Answer::ReadNow | Answer::Repaired if matches!(pending.request, ClientRequest::Stream(_)) => {
                return self.stream_may_go_on(member, pending);
            }
            Answer::ReadNow | Answer::Repaired if self.plan.changes_permissions => {
                return match pending.is_checked {
                    true => {
                        self.resume_user_read(member, pending);
                        Ok(())
                    }
                    false => self.begin_user_read(member, pending),
                };
            }
            // The applied state may be read, or its damaged value was repaired.
            Answer::ReadNow | Answer::Repaired => {
                if let ClientRequest::Read(request) | ClientRequest::SerializableRead(request) =
                    &pending.request
                    && !self.answer_range(member, &pending, request)?
                {
                    return Ok(());
                }
            }
            Answer::Lease(answer) => {
                if let ClientRequest::KeepAlive { lease, renew } = pending.request {
                    let (leases, now_ns) = (&mut self.checks.leases, self.now_ns);
                    leases.answered(lease, renew, answer, pending.at_ns, now_ns)?;
                }
            }
            Answer::LeaderMoved
            | Answer::Entries(_)
            | Answer::EntriesGone
            | Answer::MembersChanged(_)
            | Answer::SnapshotFrom(_)
            | Answer::SnapshotTaken
            | Answer::SnapshotRefused(_) => {}
            Answer::Failed(error) => self.fail(&pending, error)?,
        }
        self.trace.mix(&[6, self.now_ns, pending.number]);
        self.request_is_over(pending.client, pending.number);
        Ok(())
    }

    fn acknowledge(
        &mut self,
        member: usize,
        pending: &PendingRequest,
        response: &Response,
    ) -> Result<(), Violation> {
        self.coverage.event("writes acknowledged");
        self.ending.unanswered_writes.retain(|owed| *owed != pending.number);
        self.was_permitted(member, pending, response)?;
        match (&pending.request, response) {
            (ClientRequest::Put(_) | ClientRequest::Delete(_) | ClientRequest::Txn(_), _) => {
                self.checks.serializability.acknowledged(pending.number, response, &self.checks.history)
            }
            (ClientRequest::Grant(_), Response::LeaseGrant(granted)) => {
                self.checks.leases.granted(granted.id, granted.ttl, pending.at_ns);
                self.workload.leases.push(granted.id);
                self.checks.auth.leases.was_granted(granted.id);
                self.checks.serializability.answered_at(revision_of(response), pending.after)
            }
            (ClientRequest::Revoke(_) | ClientRequest::Compact(_) | ClientRequest::Disarm(_), _) => {
                if matches!(pending.request, ClientRequest::Compact(_)) {
                    self.coverage.event("compactions");
                }
                if let ClientRequest::Revoke(revoke) = &pending.request {
                    self.checks.auth.leases.was_revoked(revoke.id);
                }
                self.checks.serializability.answered_at(revision_of(response), pending.after)
            }
            (ClientRequest::Auth(_), _) => Ok(()),
            (op, response) => Violation::err("answers fit", format!("{op:?} was answered with {response:?}")),
        }
    }

    /// The state machine refused a command.
    fn refuse(&mut self, member: usize, pending: &PendingRequest, error: Error) -> Result<(), Violation> {
        self.checks.serializability.refused(pending.number)?;
        if self.was_refused(member, pending, error)? {
            return Ok(());
        }
        match (error, &pending.request) {
            (Error::LeaseNotFound, ClientRequest::Put(put)) => {
                self.checks.leases.gone(put.lease, self.now_ns)
            }
            (Error::LeaseNotFound, ClientRequest::Revoke(_) | ClientRequest::Txn(_)) => Ok(()),
            (Error::Compacted, ClientRequest::Compact(_) | ClientRequest::Txn(_)) => Ok(()),
            (Error::FutureRevision, ClientRequest::Compact(request)) if request.revision > pending.after => {
                Ok(())
            }
            (Error::NoSpace, _) => {
                self.coverage.event("quota reached");
                Ok(())
            }
            (error, op) => Violation::err("answers fit", format!("{op:?} was refused: {error}")),
        }
    }

    /// A request failed: with these errors it certainly has no effect, with any other the outcome is unknown.
    fn fail(&mut self, pending: &PendingRequest, error: Error) -> Result<(), Violation> {
        self.coverage.event("requests failed");
        self.workload.calls.remove(&pending.number);
        match error {
            Error::TooManyRequests => {
                self.coverage.event("requests refused by full queues");
                self.checks.serializability.refused(pending.number)
            }
            Error::NotTaken => {
                self.coverage.event("requests not taken by members that leave");
                self.checks.serializability.refused(pending.number)
            }
            Error::NoSpace => self.checks.serializability.refused(pending.number),
            _ => Ok(()),
        }
    }
}
