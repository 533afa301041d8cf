//! Clients that keep leases alive, each on one stream. They send one renewal or hundreds at once, do not wait for the
//! answers before they send more, and take all that there are or only a few.

use std::task::Poll;

use api::Error;
use member::lease::MAX_RENEWALS_IN_FLIGHT;
use member::{Answer, Input};

use crate::checks::streams::renewals::OwedRenewals;
use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::{Simulation, Workload};
use crate::world::lease_stream::{SimLeaseStream, SimRenewal};
use crate::world::queue::SimEvent;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Renewals of a stream that may wait on its member, by stream: the product's number, and so few that clients often
/// send more.
const MAX_IN_FLIGHT: [usize; 4] = [2, 9, 60, MAX_RENEWALS_IN_FLIGHT];

/// Renewals that are sent together.
const BURSTS: [u64; 4] = [1, 4, 40, 300];

/// Answers that a client takes in one visit.
const TAKEN: [usize; 3] = [2, 30, usize::MAX];

/// A client that waits longer for an answer opens another stream.
const PATIENCE_NS: u64 = 4 * SECOND;

/// Requests beyond this many are not sent before some are answered.
const MAX_UNANSWERED: usize = 600;

/// Leases that are renewed: the newest.
const RECENT_LEASES: usize = 12;

/// Percentage of renewals that are handed to the member later, as the keys of their leases are visited first.
const VISITED_PERCENT: u64 = 20;

impl Simulation {
    /// A client that keeps leases alive sends, and takes answers; or it opens a stream.
    pub(in crate::simulation) fn keeper_visits(&mut self, keeper: usize) -> Result<(), Violation> {
        let rng = &mut self.workload.stream_rng;
        let again_ns = [MS, 30 * MS, 500 * MS][rng.below(3) as usize];
        self.queue.schedule(self.now_ns + 1 + rng.below(again_ns), SimEvent::KeeperVisits { keeper });
        let state = &self.workload.keepers[keeper];
        let connected = state.connected_to.filter(|(member, run)| {
            let machine = &self.machines[*member];
            machine.run == *run && machine.is_up()
        });
        let is_patient = state.owed.oldest_ns().is_none_or(|sent_ns| self.now_ns < sent_ns + PATIENCE_NS);
        match connected {
            // Nothing is renewed any more, so that all leases expire.
            _ if self.ending.faults_stopped_ns.is_some() => self.end_lease_stream(keeper),
            None => self.open_lease_stream(keeper),
            Some(_) if !is_patient || rng.percent(1) => {
                self.coverage.event("keep-alive streams closed by clients");
                self.end_lease_stream(keeper);
            }
            Some((member, _)) => {
                self.send_renewals(keeper, member);
                self.run_lease_stream(keeper, member)?;
            }
        }
        Ok(())
    }

    fn open_lease_stream(&mut self, keeper: usize) {
        self.end_lease_stream(keeper);
        let rng = &mut self.workload.stream_rng;
        let member = rng.below(self.plan.machines() as u64) as usize;
        let max_in_flight = MAX_IN_FLIGHT[rng.below(MAX_IN_FLIGHT.len() as u64) as usize];
        let machine = &mut self.machines[member];
        if !machine.serves() || machine.excluded.is_some() {
            return;
        }
        let run = machine.run;
        let Some(process) = machine.process.as_mut() else { return };
        let state = &mut self.workload.keepers[keeper];
        state.streams += 1;
        (state.connected_to, state.owed) = (Some((member, run)), OwedRenewals::new(max_in_flight));
        let has_no_order = self.defect == Some(Defect::RenewalsUnordered);
        let is_unlimited = self.defect == Some(Defect::RenewalsUnlimited);
        let limit = if is_unlimited { usize::MAX } else { max_in_flight };
        let stream = SimLeaseStream::new(state.streams, limit, has_no_order);
        process.lease_streams.insert(keeper, stream);
    }

    fn end_lease_stream(&mut self, keeper: usize) {
        let state = &mut self.workload.keepers[keeper];
        state.owed = OwedRenewals::default();
        let Some((member, run)) = state.connected_to.take() else { return };
        if let Some(process) = self.machines[member].process(run) {
            process.lease_streams.remove(&keeper);
        }
    }

    fn send_renewals(&mut self, keeper: usize, member: usize) {
        let Workload { leases, stream_rng: rng, keepers, .. } = &mut self.workload;
        let recent = &leases[leases.len().saturating_sub(RECENT_LEASES)..];
        let process = self.machines[member].process.as_mut();
        let stream = process.and_then(|process| process.lease_streams.get_mut(&keeper));
        let (Some(stream), false) = (stream, recent.is_empty()) else { return };
        let owed = &mut keepers[keeper].owed;
        if owed.len() >= MAX_UNANSWERED || rng.percent(30) {
            return;
        }
        let most = BURSTS[rng.below(BURSTS.len() as u64) as usize];
        for _ in 0..rng.between(1, most) {
            let lease = recent[rng.below(recent.len() as u64) as usize];
            owed.send(lease, self.now_ns);
            stream.arrive(lease);
        }
    }

    /// The member serves the stream as far as it can, or as far as the client takes answers.
    fn run_lease_stream(&mut self, keeper: usize, member: usize) -> Result<(), Violation> {
        let taken = TAKEN[self.workload.stream_rng.below(TAKEN.len() as u64) as usize];
        for _ in 0..taken {
            let run = self.machines[member].run;
            let Some(process) = self.machines[member].process.as_mut() else { return Ok(()) };
            if process.paused_until_ns > self.now_ns {
                return Ok(());
            }
            let Some(stream) = process.lease_streams.get_mut(&keeper) else { return Ok(()) };
            let (next, number, waiting) = (stream.next(), stream.number, stream.waiting());
            for renewal in stream.take_submitted() {
                self.renewal_is_submitted((member, run), keeper, number, renewal);
            }
            let owed = &mut self.workload.keepers[keeper].owed;
            match next {
                Poll::Ready(Some(Ok((renewal, answer)))) => {
                    // With the one that leaves.
                    owed.submitted(waiting.in_flight + 1)?;
                    let sent_ns = owed.receive(renewal.lease)?;
                    self.checks.checked += 1;
                    self.coverage.event("renewals of streams answered");
                    self.trace.mix(&[11, self.now_ns, keeper as u64, renewal.number]);
                    self.checks.leases.answered(renewal.lease, true, answer, sent_ns, self.now_ns)?;
                }
                Poll::Ready(Some(Err(_)) | None) => {
                    self.coverage.event("keep-alive streams that failed");
                    self.end_lease_stream(keeper);
                    return Ok(());
                }
                Poll::Pending => {
                    owed.submitted(waiting.in_flight)?;
                    if waiting.arrived > 0 {
                        self.coverage.event("keep-alive streams at their limit");
                    }
                    return owed.stopped(waiting);
                }
            }
        }
        Ok(())
    }

    /// A stream submits a renewal. Its caller is checked, which takes a while if the lease has many keys.
    fn renewal_is_submitted(
        &mut self,
        (member, run): (usize, u64),
        keeper: usize,
        stream: u64,
        renewal: SimRenewal,
    ) {
        if !self.workload.stream_rng.percent(VISITED_PERCENT) {
            return self.renewal_is_checked((member, run), keeper, stream, renewal);
        }
        let at_ns = self.now_ns + 1 + self.workload.stream_rng.below(8 * MS);
        self.queue.schedule(at_ns, SimEvent::RenewalChecked { member, run, keeper, stream, renewal });
    }

    /// A renewal is handed to the member, unless its stream has ended.
    pub(in crate::simulation) fn renewal_is_checked(
        &mut self,
        (member, run): (usize, u64),
        keeper: usize,
        stream: u64,
        renewal: SimRenewal,
    ) {
        let Some(process) = self.machines[member].process(run) else { return };
        if process.lease_streams.get(&keeper).is_none_or(|current| current.number != stream) {
            return;
        }
        let token = process.take_token();
        process.renewals.insert(token, (keeper, stream, renewal));
        self.give(member, Input::Lease { token, lease: renewal.lease, renew: true });
    }

    /// A member answers a renewal of a stream, which may have ended.
    pub(super) fn renewal_is_answered(
        &mut self,
        member: usize,
        (keeper, stream, renewal): (usize, u64, SimRenewal),
        answer: &Answer,
    ) -> Result<(), Violation> {
        let answer: Result<_, Error> = match answer {
            Answer::Lease(answer) => Ok(*answer),
            Answer::Failed(error) => Err(*error),
            answer => {
                return Violation::err("answers fit", format!("a renewal was answered with {answer:?}"));
            }
        };
        let process = self.machines[member].process.as_mut();
        let current = process.and_then(|process| process.lease_streams.get_mut(&keeper));
        if let Some(current) = current.filter(|current| current.number == stream) {
            current.answered(renewal, answer);
        }
        Ok(())
    }
}
