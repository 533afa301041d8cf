//! Calls that are answered in steps, as a server makes them. Between the steps anything may happen.
//!
//! | file | handles |
//! |---|---|
//! | `lease_lists` | lists of leases |
//! | `streams` | streamed ranges |
//! | `hashes` | HashKV |

mod hashes;
mod lease_lists;
mod streams;

use api::etcdserverpb as pb;

use crate::report::trace::Violation;
use crate::simulation::state::{Simulation, SteppedCall};
use crate::world::queue::SimEvent;
use crate::world::request::ClientRequest;

const MS: u64 = 1_000_000;

/// Percentage of linearizable ranges that are streamed.
const STREAM_PERCENT: u64 = 30;

/// Percentage of linearizable ranges in whose place a user lists the leases.
const LIST_PERCENT: u64 = 12;

impl Simulation {
    /// The same request as a call that is answered in steps, now and then.
    pub(super) fn stepped(&mut self, request: ClientRequest) -> ClientRequest {
        let ClientRequest::Read(range) = request else { return request };
        let rng = &mut self.workload.call_rng;
        if self.plan.encoded_range_percent == 0 {
            return ClientRequest::Read(range);
        }
        if self.plan.changes_permissions && rng.percent(LIST_PERCENT) {
            return ClientRequest::ListLeases;
        }
        match rng.percent(STREAM_PERCENT) {
            // A stream cannot be sorted.
            true => ClientRequest::Stream(pb::RangeRequest { sort_order: 0, ..range }),
            false => ClientRequest::Read(range),
        }
    }

    /// A call waits for its next step.
    pub(super) fn call_waits(&mut self, member: usize, number: u64, call: SteppedCall) {
        self.workload.calls.insert(number, call);
        let longest = [1, 2 * MS, 30 * MS][self.workload.call_rng.below(3) as usize];
        let at_ns = self.now_ns + 1 + self.workload.call_rng.below(longest);
        let run = self.machines[member].run;
        self.queue.schedule(at_ns, SimEvent::CallGoesOn { member, run, number });
    }

    /// The next step of a call. It ends with its process, and when its client does not wait any more.
    pub(in crate::simulation) fn call_goes_on(
        &mut self,
        member: usize,
        run: u64,
        number: u64,
    ) -> Result<(), Violation> {
        let Some(call) = self.workload.calls.remove(&number) else { return Ok(()) };
        let client = match &call {
            SteppedCall::Stream(read) => read.pending.client,
            SteppedCall::Leases(listed) => listed.pending.client,
            SteppedCall::Hash(hash) => hash.pending.client,
        };
        let Some(process) = self.machines[member].process(run) else {
            self.client_loses_process(client, number);
            return Ok(());
        };
        if process.paused_until_ns > self.now_ns {
            let at_ns = process.paused_until_ns;
            self.workload.calls.insert(number, call);
            self.queue.schedule(at_ns, SimEvent::CallGoesOn { member, run, number });
            return Ok(());
        }
        if self.workload.clients.get(client).is_none_or(|state| state.waits_for != Some(number)) {
            return Ok(());
        }
        match call {
            SteppedCall::Stream(read) => self.step_stream(member, read),
            SteppedCall::Leases(listed) => self.step_list(member, listed),
            SteppedCall::Hash(hash) => self.step_hash(member, hash),
        }
    }
}
