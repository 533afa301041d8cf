//! Ranges answered from the state of a member, in one of two ways: as a reply whose values are read afterwards, as for
//! transactions, or as the encoded response that a server sends.

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use member::Input;
use prost::Message;
use store::{Damaged, resolve_range};

use crate::defects::{Defect, ranges};
use crate::plan::fault::SimFault;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::disk::DISK_STOPPED;
use crate::world::machine::SimProcess;
use crate::world::request::{ClientRequest, PendingRequest};

/// The outcome of a range; the outer error is a value that cannot be read.
type RangeOutcome = Result<Result<pb::RangeResponse, Error>, Damaged>;

impl Simulation {
    /// Answers a range from the applied state of a member. False when the client waits on: the member repairs a value,
    /// and the range is answered again afterwards.
    pub(super) fn answer_range(
        &mut self,
        member: usize,
        pending: &PendingRequest,
        request: &pb::RangeRequest,
    ) -> Result<bool, Violation> {
        let linearizable = matches!(pending.request, ClientRequest::Read(_));
        let mut from = member;
        if self.defect == Some(Defect::ReadsHopMembers) && !linearizable {
            from = self.workload.rng.below(self.plan.machines() as u64) as usize;
        }
        let run = self.machines[member].run;
        let is_encoded = self.workload.range_rng.percent(self.plan.encoded_range_percent);
        let answered =
            if is_encoded { self.encoded_range(from, request)? } else { self.resolved_range(from, request) };
        let Some(mut answered) = answered else { return Ok(false) };
        self.tamper_with_count(from, &mut answered);
        match answered {
            Ok(Ok(response)) => {
                self.coverage.event(if linearizable {
                    "reads checked"
                } else {
                    "serializable reads checked"
                });
                let after = linearizable.then_some(pending.after);
                self.checks.serializability.read(request, &response, after, &self.checks.history)?;
                let revision = response.header.as_ref().map_or(0, |header| header.revision);
                self.checks.monotonic.served(member, run, revision)?;
                self.page_arrives(pending, request, &response);
            }
            Err(damaged) => {
                let repair = self.request_repair(member, &damaged)?.filter(|_| is_encoded);
                let process = self.machines[member].process.as_mut();
                if let (Some(token), Some(process)) = (repair, process) {
                    self.coverage.event("ranges that wait for repair");
                    process.pending.insert(token, pending.clone());
                    return Ok(false);
                }
            }
            Ok(Err(Error::Compacted)) if request.revision > 0 => {}
            Ok(Err(Error::FutureRevision)) if request.revision > pending.after || !linearizable => {}
            Ok(Err(error)) => {
                return Violation::err("answers fit", format!("{request:?} was refused: {error}"));
            }
        }
        Ok(true)
    }

    /// Changes the count of an answer as the defect of this run does.
    fn tamper_with_count(&self, member: usize, answered: &mut RangeOutcome) {
        let Some(process) = &self.machines[member].process else { return };
        let is_unfinished = process.opened.reader.data_state().is_none();
        if let (Some(Defect::CountIncludesUnfinished), Ok(Ok(response)), true) =
            (self.defect, answered, is_unfinished)
        {
            response.count += 1;
        }
    }

    /// A range as a reply whose values are read afterwards. `None` when no process runs.
    fn resolved_range(&self, member: usize, request: &pb::RangeRequest) -> Option<RangeOutcome> {
        let opened = &self.machines[member].process.as_ref()?.opened;
        Some(match opened.reader.range(request) {
            Ok(reply) => resolve_range(&reply, opened.values.as_ref()).map(Ok),
            Err(error) => Ok(Err(error)),
        })
    }

    /// A range as a server answers it. If it read from the disk and values are cached, it is answered a second time,
    /// and the answers must be equal.
    pub(in crate::simulation) fn encoded_range(
        &mut self,
        member: usize,
        request: &pb::RangeRequest,
    ) -> Result<Option<RangeOutcome>, Violation> {
        let disk = self.machines[member].disk.clone();
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(None) };
        let begun = disk.reads();
        let answered = encode_range(process, request, self.defect)?;
        let reads = disk.reads() - begun;
        let Ok(Ok(response)) = &answered else { return Ok(Some(answered)) };
        self.coverage.event("ranges encoded");
        if self.plan.cache_bytes > 0 && reads > 0 {
            let begun = disk.reads();
            let again = encode_range(process, request, self.defect)?;
            if disk.reads() - begun < reads {
                self.coverage.event("values from the cache");
            }
            if let Ok(again) = again
                && again.as_ref() != Ok(response)
            {
                let text = format!("{request:?} was answered\n  {response:?}\nand then\n  {again:?}");
                return Violation::err("a repeated range gives the same answer", text);
            }
        }
        Ok(Some(answered))
    }

    /// A value was not served because its checksum failed. The member is given it to repair, as a server does; returns
    /// the token of the repair.
    pub(in crate::simulation) fn request_repair(
        &mut self,
        member: usize,
        damaged: &Damaged,
    ) -> Result<Option<u64>, Violation> {
        self.coverage.event("damaged values not served");
        // A disk whose machine is losing power answers no reads.
        let stopped = damaged.reason.contains(DISK_STOPPED);
        if !self.machines[member].damaged && !self.plan_reads_fail() && !stopped {
            return Violation::err("values can be read", format!("member {member}: {damaged}"));
        }
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(None) };
        let token = process.take_token();
        self.give(member, Input::Repair { token, address: damaged.address, key: damaged.key.clone() });
        Ok(Some(token))
    }

    fn plan_reads_fail(&self) -> bool {
        let fails = |fault: &SimFault| matches!(fault, SimFault::ReadFails { .. });
        self.plan.faults.iter().any(|planned| fails(&planned.fault))
    }
}

/// The chunks of an encoded response, and its announced length.
#[derive(Default)]
struct EncodedRange {
    announced_bytes: usize,
    chunks: Vec<Bytes>,
}

impl store::ChunkSink for EncodedRange {
    fn begin(&mut self, bytes: usize) {
        self.announced_bytes = bytes;
    }

    fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }
}

/// A range, encoded by a process and decoded as a client does.
fn encode_range(
    process: &mut SimProcess,
    request: &pb::RangeRequest,
    defect: Option<Defect>,
) -> Result<RangeOutcome, Violation> {
    let opened = &process.opened;
    let _pin = opened.log.pin();
    let header = |revision| pb::ResponseHeader {
        cluster_id: opened.identity.cluster_id,
        member_id: opened.identity.member_id,
        revision,
        raft_term: opened.status.term(),
    };
    let mut encoded = EncodedRange::default();
    match opened.reader.encode_range(request, header, &mut encoded) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Ok(Ok(Err(error))),
        Err(_) if defect == Some(Defect::RangeSkipsDamaged) => {
            return Ok(Ok(ranges::without_damaged(opened, request)));
        }
        Err(damaged) => return Ok(Err(damaged)),
    }
    let bytes = encoded.chunks.concat();
    if bytes.len() != encoded.announced_bytes {
        let text =
            format!("{request:?}: {} bytes announced, {} encoded", encoded.announced_bytes, bytes.len());
        return Violation::err("ranges have the announced length", text);
    }
    let Ok(mut response) = pb::RangeResponse::decode(Bytes::from(bytes)) else {
        return Violation::err("ranges decode", format!("the response to {request:?} does not decode"));
    };
    if defect == Some(Defect::CacheServesOther) {
        ranges::serve_cached(&mut process.cached_values, &mut response);
    }
    Ok(Ok(Ok(response)))
}
