//! Streamed ranges: several responses at one revision, each of which must be permitted when it leaves.
//!
//! The steps are those of a server (`store::PermittedRange`). Between them the world goes on, and so does a server
//! that waits for its client: between the keys of a response and its permission, too.
//!
//! ```text
//! the member may be read       ann may read [a, e): the stream begins at revision 30
//! a little later               keys a, b are found
//! later                        ann may still read [a, e): a, b as of revision 30 leave
//! later                        c is written (31), the role is taken from ann: denied; [a, b] began the answer at 30
//! ```

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use prost::Message;
use store::{Caller, Damaged, PermittedRange};

use crate::checks::permissions::CHECK;
use crate::checks::permissions::model::KeyAccess;
use crate::defects::{Defect, ranges};
use crate::report::trace::Violation;
use crate::simulation::clients::tokens::Identified;
use crate::simulation::state::{Simulation, SteppedCall, StreamedRead};
use crate::world::request::{ClientRequest, PendingRequest};

/// Percentage of steps in which the keys of a response wait for the permission to send them.
const HELD_PERCENT: u64 = 40;

/// Most keys of a response, in runs with few keys and with many.
const FEW_KEYS: u64 = 4;
const MANY_KEYS: u64 = 400;

/// Most bytes of a response, by draw: one key, few keys, all that are found.
const RESPONSE_BYTES: [usize; 3] = [1, 4_000, 1 << 20];

/// What is left of a stream after a step.
enum StreamEnd {
    /// There is more to send.
    GoesOn,
    /// It waits until a value is repaired.
    Waits,
    /// The last response was sent.
    Complete,
    /// It was cut off.
    CutOff(&'static str),
}

impl Simulation {
    /// The member may be read: a streamed range begins.
    fn begin_stream(
        &mut self,
        member: usize,
        pending: PendingRequest,
        request: &pb::RangeRequest,
    ) -> Result<(), Violation> {
        let Some(caller) = self.caller_of_stream(member, &pending)? else { return Ok(()) };
        let Some(process) = self.machines[member].process.as_ref() else { return Ok(()) };
        let opened = &process.opened;
        let checked = opened.reader.check_range(&caller, &request.key, &request.range_end);
        let begun = checked.and_then(|()| opened.reader.range_stream(request));
        let (reader, pin) = (opened.reader.clone(), opened.log.pin());
        self.stream_fits(member, &caller, request, checked)?;
        match begun {
            Ok(stream) => {
                self.coverage.event("streams begun");
                let at = if request.revision > 0 { request.revision } else { reader.current_revision() };
                let range = PermittedRange::new(&reader, request, stream);
                let (number, merged) = (pending.number, pb::RangeResponse::default());
                let read = StreamedRead { pending, range, merged, at, _pin: pin };
                self.call_waits(member, number, SteppedCall::Stream(Box::new(read)));
                return Ok(());
            }
            Err(_) if checked.is_err() => self.coverage.event("streams denied"),
            Err(Error::Compacted) if request.revision > 0 => {}
            Err(Error::FutureRevision) if request.revision > pending.after => {}
            Err(error) => {
                return Violation::err("answers fit", format!("{request:?} was refused: {error}"));
            }
        }
        self.request_is_over(pending.client, pending.number);
        Ok(())
    }

    /// The member of a stream may be read, or has repaired a value of it.
    pub(in crate::simulation::clients) fn stream_may_go_on(
        &mut self,
        member: usize,
        pending: PendingRequest,
    ) -> Result<(), Violation> {
        match (self.workload.calls.remove(&pending.number), &pending.request) {
            (Some(call), _) => {
                self.call_waits(member, pending.number, call);
                Ok(())
            }
            (None, ClientRequest::Stream(request)) => {
                let request = request.clone();
                self.begin_stream(member, pending, &request)
            }
            (None, _) => Ok(()),
        }
    }

    /// Who the caller of a stream is now. `None` if its token has ended, and the stream with it.
    fn caller_of_stream(
        &mut self,
        member: usize,
        pending: &PendingRequest,
    ) -> Result<Option<Caller>, Violation> {
        match self.identify(member, pending)? {
            Identified::As(caller) => Ok(Some(caller)),
            Identified::Refused => self.token_is_refused(pending).map(|()| None),
            Identified::NotApplied => {
                let text = format!("member {member} does not know {:?}, and was read", pending.token);
                Violation::err(CHECK, text)
            }
        }
    }

    /// Whether a member permits a range exactly if the model does.
    fn stream_fits(
        &mut self,
        member: usize,
        caller: &Caller,
        request: &pb::RangeRequest,
        checked: Result<(), Error>,
    ) -> Result<(), Violation> {
        if !self.plan.changes_permissions {
            return Ok(());
        }
        let state = self.auth_state(member)?;
        let expected = state.access(caller, KeyAccess::Read, &request.key, &request.range_end);
        if checked == expected {
            return Ok(());
        }
        let text =
            format!("{caller:?} streams {request:?}: {checked:?}, the model says {expected:?} in {state:?}");
        Violation::err(CHECK, text)
    }

    /// The next step of a stream: its next response, or a part of the way there.
    pub(super) fn step_stream(
        &mut self,
        member: usize,
        mut read: Box<StreamedRead>,
    ) -> Result<(), Violation> {
        let ClientRequest::Stream(request) = read.pending.request.clone() else { return Ok(()) };
        let end = self.next_response(member, &mut read, &request)?;
        let (client, number) = (read.pending.client, read.pending.number);
        let history = &self.checks.history;
        match end {
            StreamEnd::GoesOn => self.call_waits(member, number, SteppedCall::Stream(read)),
            StreamEnd::Waits => drop(self.workload.calls.insert(number, SteppedCall::Stream(read))),
            StreamEnd::Complete => {
                self.coverage.event("streams checked");
                self.checks.checked += 1;
                let after = Some(read.pending.after);
                self.checks.serializability.read(&request, &read.merged, after, history)?;
                self.page_arrives(&read.pending, &request, &read.merged);
                self.request_is_over(client, number);
            }
            StreamEnd::CutOff(how) => {
                self.coverage.event(how);
                let arrived = &read.merged.kvs;
                self.checks.serializability.read_in_part(&request, arrived, read.at, history)?;
                self.request_is_over(client, number);
            }
        }
        Ok(())
    }

    fn next_response(
        &mut self,
        member: usize,
        read: &mut StreamedRead,
        request: &pb::RangeRequest,
    ) -> Result<StreamEnd, Violation> {
        let rng = &mut self.workload.call_rng;
        let most = if self.plan.names.are_many() { MANY_KEYS } else { FEW_KEYS };
        let (max_keys, max_bytes) = (rng.between(1, most), RESPONSE_BYTES[rng.below(3) as usize]);
        let is_held = rng.percent(HELD_PERCENT);
        match read.range.find(max_keys as usize, max_bytes) {
            Ok(Ok(true)) if is_held => return Ok(StreamEnd::GoesOn),
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Ok(StreamEnd::Complete),
            // A snapshot was installed that has been compacted beyond the revision.
            Ok(Err(Error::Compacted)) => return Ok(StreamEnd::CutOff("streams ended by compaction")),
            Ok(Err(error)) => {
                return Violation::err("answers fit", format!("{request:?} has failed: {error}"));
            }
            Err(damaged) => return self.stream_is_damaged(member, read, &damaged),
        }
        let Some(mut caller) = self.caller_of_stream(member, &read.pending)? else {
            return Ok(StreamEnd::CutOff("streams ended by tokens"));
        };
        let present = caller.clone();
        if self.defect == Some(Defect::StreamNotRechecked) {
            caller = Caller::Internal;
        }
        let Some(process) = self.machines[member].process.as_ref() else {
            return Ok(StreamEnd::CutOff("streams lost"));
        };
        let opened = &process.opened;
        let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
        let parts = match read.range.encode_as(&caller, header, opened.values.as_ref()) {
            Ok(Ok(parts)) => parts,
            Ok(Err(Error::Corrupt)) => return Ok(StreamEnd::CutOff("streams of lost values")),
            Ok(Err(error)) => {
                self.stream_fits(member, &present, request, Err(error))?;
                return Ok(StreamEnd::CutOff("streams ended by permissions"));
            }
            Err(damaged) => return self.stream_is_damaged(member, read, &damaged),
        };
        self.stream_fits(member, &present, request, Ok(()))?;
        self.coverage.event("stream responses permitted");
        let before = read.merged.kvs.len() as i64;
        take_response(&mut read.merged, &parts)?;
        if let (Some(Defect::StreamUnpinned), Some(process)) =
            (self.defect, self.machines[member].process.as_ref())
        {
            match ranges::rest_at_newest(&process.opened.reader, request, &read.merged) {
                Some(rest) => read.range = rest,
                None => read.merged.count += before,
            }
        }
        Ok(StreamEnd::GoesOn)
    }

    /// A value of a response cannot be read: the stream waits until it is repaired.
    fn stream_is_damaged(
        &mut self,
        member: usize,
        read: &StreamedRead,
        damaged: &Damaged,
    ) -> Result<StreamEnd, Violation> {
        let repair = self.request_repair(member, damaged)?;
        let process = self.machines[member].process.as_mut();
        let (Some(token), Some(process)) = (repair, process) else {
            return Ok(StreamEnd::CutOff("streams lost"));
        };
        self.coverage.event("streams that wait for repair");
        process.pending.insert(token, read.pending.clone());
        Ok(StreamEnd::Waits)
    }
}

/// Merges a response as a client does: keys are appended, the rest is in the last one.
fn take_response(merged: &mut pb::RangeResponse, parts: &[Bytes]) -> Result<(), Violation> {
    let Ok(response) = pb::RangeStreamResponse::decode(Bytes::from(parts.concat())) else {
        return Violation::err("ranges decode", "a response of a stream does not decode");
    };
    let mut response = response.range_response.unwrap_or_default();
    merged.kvs.append(&mut response.kvs);
    let pb::RangeResponse { header, more, count, .. } = response;
    if merged.header.is_some() {
        return Violation::err("answers fit", "a response of a stream follows the last one");
    }
    (merged.header, merged.more, merged.count) = (header, more, count);
    Ok(())
}
