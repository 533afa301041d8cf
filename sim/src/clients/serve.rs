//! Requests on their way in, and answers on their way out.

use api::Error;
use api::etcdserverpb as pb;
use member::{Answer, Input, Proposal};
use store::{Response, resolve};

use super::draw::Drawing;
use super::{Asked, Op};
use crate::checks::linear;
use crate::cluster::Cluster;
use crate::defects::Defect;
use crate::queue::Event;
use crate::report::Violation;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// How much longer clients think once faults have stopped.
const CALM_SLOWER: u64 = 20;

/// The longest pause of a client in a quiet spell.
const QUIET_THINK_NS: u64 = 60 * SECOND;

impl Cluster {
    /// A client that waits for nothing asks for something.
    pub(crate) fn client_acts(&mut self, client: usize) -> Result<(), Violation> {
        if self.judging || self.clients[client].waits_for.is_some() {
            return Ok(());
        }
        if self.client_rng.percent(15) {
            self.clients[client].member = self.client_rng.below(self.plan.members as u64) as usize;
        }
        let member = self.clients[client].member;
        if !self.machines[member].is_up() {
            self.clients[client].member = (member + 1) % self.plan.members;
            let at_ns = self.now_ns + self.client_rng.between(MS, 100 * MS);
            self.queue.plan(at_ns, Event::Client { client });
            return Ok(());
        }
        self.next_op += 1;
        let number = self.next_op;
        let op = self.choose(member, number);
        let patience_ns = [SECOND, 3 * SECOND, 9 * SECOND][self.client_rng.below(3) as usize];
        self.clients[client].waits_for = Some(number);
        self.queue.plan(self.now_ns + patience_ns, Event::GiveUp { client, op: number });
        self.ask(client, member, number, op)
    }

    fn choose(&mut self, member: usize, number: u64) -> Op {
        let process = self.machines[member].process.as_ref();
        let alarm = process.and_then(|process| process.opened.reader.alarms().first().copied());
        if let Some(alarm) = alarm.filter(|_| self.client_rng.percent(10)) {
            let action = pb::alarm_request::AlarmAction::Deactivate as i32;
            self.coverage.event("alarms disarmed");
            return Op::Disarm(pb::AlarmRequest { action, member_id: alarm.member_id, alarm: alarm.alarm });
        }
        Drawing {
            plan: &self.plan,
            rng: &mut self.client_rng,
            history: &self.checks.history,
            leases: &self.leases,
            calm: self.calm_ns.is_some(),
            quiet: self.plan.quiet_until(self.now_ns).is_some(),
            number,
        }
        .draw()
    }

    /// Hands a request to a member.
    pub(crate) fn ask(&mut self, client: usize, member: usize, number: u64, op: Op) -> Result<(), Violation> {
        self.checks.linear.begins(number, &op);
        if let Op::Revoke(request) = &op {
            self.checks.leases.revoking(request.id);
        }
        let after = self.checks.linear.told();
        let asked = Asked { number, client, op, at_ns: self.now_ns, after };
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(()) };
        if let Op::Local(request) = &asked.op {
            let request = request.clone();
            let paused = process.paused_until_ns > self.now_ns;
            if !paused && self.serve_locally(member, &asked, &request)? {
                self.checks.checked += 1;
                self.client_goes_on(client, number);
            }
            return Ok(());
        }
        if let (Op::Read(request), Some(Defect::ReadWithoutIndex)) = (&asked.op, self.defect) {
            let request = request.clone();
            return self.serve_locally(member, &asked, &request).map(|_| ());
        }
        let token = process.next_token;
        process.next_token += 1;
        let input = match &asked.op {
            Op::KeepAlive { lease, renew } => Input::Lease { token, lease: *lease, renew: *renew },
            op => match op.command() {
                Some((kind, body)) => Input::Propose(Proposal { token, kind, body }),
                None => Input::Read { token },
            },
        };
        process.asked.insert(token, asked);
        self.feed(member, input);
        Ok(())
    }

    /// A client has waited long enough; the outcome is unknown.
    pub(crate) fn client_gives_up(&mut self, client: usize, op: u64) {
        if self.clients[client].waits_for == Some(op) {
            self.coverage.event("requests given up");
            self.clients[client].member = self.client_rng.below(self.plan.members as u64) as usize;
            self.client_goes_on(client, op);
        }
    }

    /// The process that a client asked is gone.
    pub(crate) fn client_loses(&mut self, client: usize, op: u64) {
        self.coverage.event("requests lost with a process");
        self.client_goes_on(client, op);
    }

    fn client_goes_on(&mut self, client: usize, op: u64) {
        let Some(state) = self.clients.get_mut(client) else { return };
        if state.waits_for == Some(op) {
            state.waits_for = None;
            let at_ns = self.next_request_ns();
            self.queue.plan(at_ns, Event::Client { client });
        }
    }

    /// When a client asks again. Once faults have stopped, little is needed to see that all is well; in a quiet spell
    /// little happens before the next burst.
    fn next_request_ns(&mut self) -> u64 {
        let think_ns = self.plan.max_think_ns;
        match self.plan.quiet_until(self.now_ns) {
            Some(until_ns) => {
                let burst_ns = until_ns.saturating_add(self.client_rng.below(think_ns));
                (self.now_ns + self.client_rng.below(QUIET_THINK_NS)).min(burst_ns)
            }
            None if self.calm_ns.is_some() => self.now_ns + self.client_rng.below(think_ns * CALM_SLOWER),
            None => self.now_ns + self.client_rng.below(think_ns),
        }
    }

    /// A member answers.
    pub(crate) fn answered(&mut self, member: usize, token: u64, answer: Answer) -> Result<(), Violation> {
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(()) };
        process.moving.take_if(|(moving, _)| *moving == token);
        let Some(asked) = process.asked.remove(&token) else {
            return match answer {
                Answer::SnapshotFrom(_) | Answer::SnapshotTaken | Answer::SnapshotRefused(_) => {
                    self.snapshot_answered(member, token, answer);
                    Ok(())
                }
                Answer::LeaderMoved | Answer::Failed(_) | Answer::Repaired => Ok(()),
                _ => Violation::err("one answer a request", format!("member {member} answers {token} twice")),
            };
        };
        self.checks.checked += 1;
        match answer {
            Answer::Applied(Ok(reply)) => match resolve(&reply, process.opened.values.as_ref()) {
                Ok(response) => self.acknowledge(&asked, &response)?,
                Err(damaged) => {
                    self.unreadable(member, &damaged)?;
                }
            },
            Answer::Applied(Err(error)) => self.refuse(&asked, error)?,
            // The local state may be read, or what could not be read of it was repaired.
            Answer::ReadNow | Answer::Repaired => {
                if let Op::Read(request) | Op::Local(request) = &asked.op
                    && !self.serve_locally(member, &asked, request)?
                {
                    return Ok(());
                }
            }
            Answer::Lease(answer) => {
                if let Op::KeepAlive { lease, renew } = asked.op {
                    let (leases, now_ns) = (&mut self.checks.leases, self.now_ns);
                    leases.answered(lease, renew, answer, asked.at_ns, now_ns)?;
                }
            }
            Answer::LeaderMoved
            | Answer::SnapshotFrom(_)
            | Answer::SnapshotTaken
            | Answer::SnapshotRefused(_) => {}
            Answer::Failed(error) => self.fail(&asked, error)?,
        }
        self.trace.mix(&[6, self.now_ns, asked.number]);
        self.client_goes_on(asked.client, asked.number);
        Ok(())
    }

    fn acknowledge(&mut self, asked: &Asked, response: &Response) -> Result<(), Violation> {
        self.coverage.event("writes acknowledged");
        self.owed_answers.retain(|owed| *owed != asked.number);
        match (&asked.op, response) {
            (Op::Put(_) | Op::Delete(_) | Op::Txn(_), _) => {
                self.checks.linear.acknowledged(asked.number, response, &self.checks.history)
            }
            (Op::Grant(_), Response::LeaseGrant(granted)) => {
                self.checks.leases.granted(granted.id, granted.ttl, asked.at_ns);
                self.leases.push(granted.id);
                self.checks.linear.told_of(linear::revision_of(response), asked.after)
            }
            (Op::Revoke(_) | Op::Compact(_) | Op::Disarm(_), _) => {
                if matches!(asked.op, Op::Compact(_)) {
                    self.coverage.event("compactions");
                }
                self.checks.linear.told_of(linear::revision_of(response), asked.after)
            }
            (op, response) => Violation::err("answers fit", format!("{op:?} was answered with {response:?}")),
        }
    }

    /// The state machine refused a command.
    fn refuse(&mut self, asked: &Asked, error: Error) -> Result<(), Violation> {
        self.checks.linear.refused(asked.number)?;
        match (error, &asked.op) {
            (Error::LeaseNotFound, Op::Put(put)) => self.checks.leases.gone(put.lease, self.now_ns),
            (Error::LeaseNotFound, Op::Revoke(_) | Op::Txn(_)) => Ok(()),
            (Error::Compacted, Op::Compact(_) | Op::Txn(_)) => Ok(()),
            (Error::FutureRevision, Op::Compact(request)) if request.revision > asked.after => Ok(()),
            (Error::NoSpace, _) => {
                self.coverage.event("quota reached");
                Ok(())
            }
            (error, op) => Violation::err("answers fit", format!("{op:?} was refused: {error}")),
        }
    }

    /// It could not be done, or nobody knows.
    fn fail(&mut self, asked: &Asked, error: Error) -> Result<(), Violation> {
        self.coverage.event("requests failed");
        match error {
            Error::NoSpace | Error::TooManyRequests => self.checks.linear.refused(asked.number),
            _ => Ok(()),
        }
    }
}
