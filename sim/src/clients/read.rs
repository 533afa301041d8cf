//! Ranges answered from a member's state: as a reply whose values are read afterwards, like those of transactions, or
//! as the encoded list that a server sends.

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use member::Input;
use prost::Message;
use store::{Damaged, resolve_range};

use super::{Asked, Op};
use crate::cluster::Cluster;
use crate::defects::{Defect, lists};
use crate::disk::DISK_STOPPED;
use crate::process::Process;
use crate::report::Violation;

/// What a range comes to, if all that it names can be read.
type Answered = Result<Result<pb::RangeResponse, Error>, Damaged>;

impl Cluster {
    /// Answers a range from a member's state as it is. False when the client waits on: the member repairs what the answer
    /// needs, and is asked again.
    pub(super) fn serve_locally(
        &mut self,
        member: usize,
        asked: &Asked,
        request: &pb::RangeRequest,
    ) -> Result<bool, Violation> {
        let linearizable = matches!(asked.op, Op::Read(_));
        let mut from = member;
        if self.defect == Some(Defect::ReadsHopMembers) && !linearizable {
            from = self.client_rng.below(self.plan.members as u64) as usize;
        }
        let run = self.machines[member].run;
        let listed = self.list_rng.percent(self.plan.list_percent);
        let answered = if listed { self.list(from, request)? } else { self.range(from, request) };
        let Some(answered) = answered else { return Ok(false) };
        match answered {
            Ok(Ok(response)) => {
                self.coverage.event(if linearizable { "reads checked" } else { "local reads checked" });
                let after = linearizable.then_some(asked.after);
                self.checks.linear.read(request, &response, after, &self.checks.history)?;
                let revision = response.header.as_ref().map_or(0, |header| header.revision);
                self.checks.monotonic.served(member, run, revision)?;
            }
            Err(damaged) => {
                let repair = self.unreadable(member, &damaged)?.filter(|_| listed);
                let process = self.machines[member].process.as_mut();
                if let (Some(token), Some(process)) = (repair, process) {
                    self.coverage.event("lists that wait for repair");
                    process.asked.insert(token, asked.clone());
                    return Ok(false);
                }
            }
            Ok(Err(Error::Compacted)) if request.revision > 0 => {}
            Ok(Err(Error::FutureRevision)) if request.revision > asked.after || !linearizable => {}
            Ok(Err(error)) => {
                return Violation::err("answers fit", format!("{request:?} was refused: {error}"));
            }
        }
        Ok(true)
    }

    /// A range as a reply, its values read afterwards. `None` when no process runs there.
    fn range(&self, member: usize, request: &pb::RangeRequest) -> Option<Answered> {
        let opened = &self.machines[member].process.as_ref()?.opened;
        Some(match opened.reader.range(request) {
            Ok(reply) => resolve_range(&reply, opened.values.as_ref()).map(Ok),
            Err(error) => Ok(Err(error)),
        })
    }

    /// A range as a server answers it. What was read from the disk is asked for once more when it may have been kept:
    /// the answer must be the same.
    pub(crate) fn list(
        &mut self,
        member: usize,
        request: &pb::RangeRequest,
    ) -> Result<Option<Answered>, Violation> {
        let disk = self.machines[member].disk.clone();
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(None) };
        let begun = disk.reads();
        let answered = listed(process, request, self.defect)?;
        let reads = disk.reads() - begun;
        let Ok(Ok(response)) = &answered else { return Ok(Some(answered)) };
        self.coverage.event("lists encoded");
        if self.plan.cache_bytes > 0 && reads > 0 {
            let begun = disk.reads();
            let again = listed(process, request, self.defect)?;
            if disk.reads() - begun < reads {
                self.coverage.event("values from memory");
            }
            if let Ok(again) = again
                && again.as_ref() != Ok(response)
            {
                let text =
                    format!("{request:?} was answered\n  {response:?}\nand at once again\n  {again:?}");
                return Violation::err("the same list twice", text);
            }
        }
        Ok(Some(answered))
    }

    /// A value that does not check is never served. The member is asked to repair it, as a server does; returns the token
    /// of that.
    pub(crate) fn unreadable(&mut self, member: usize, damaged: &Damaged) -> Result<Option<u64>, Violation> {
        self.coverage.event("damage kept from clients");
        // Nobody can read from a disk whose machine is losing power.
        let stopped = damaged.reason.contains(DISK_STOPPED);
        if !self.machines[member].damaged && !self.plan_reads_fail() && !stopped {
            return Violation::err("values can be read", format!("member {member}: {damaged}"));
        }
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(None) };
        let token = process.next_token;
        process.next_token += 1;
        self.feed(member, Input::Repair { token, address: damaged.address });
        Ok(Some(token))
    }

    fn plan_reads_fail(&self) -> bool {
        let fails = |fault: &crate::faults::Fault| matches!(fault, crate::faults::Fault::ReadFails { .. });
        self.plan.faults.iter().any(|planned| fails(&planned.fault))
    }
}

/// The pieces of a list, and how many bytes they were said to have.
#[derive(Default)]
struct Made {
    announced: usize,
    pieces: Vec<Bytes>,
}

impl store::ChunkSink for Made {
    fn begin(&mut self, bytes: usize) {
        self.announced = bytes;
    }

    fn push(&mut self, piece: Bytes) {
        self.pieces.push(piece);
    }
}

/// A list of a process, decoded as a client does.
fn listed(
    process: &mut Process,
    request: &pb::RangeRequest,
    defect: Option<Defect>,
) -> Result<Answered, Violation> {
    let opened = &process.opened;
    let _pin = opened.log.pin();
    let header = |revision| pb::ResponseHeader {
        cluster_id: opened.identity.cluster_id,
        member_id: opened.identity.member_id,
        revision,
        raft_term: opened.status.term(),
    };
    let mut made = Made::default();
    match opened.reader.encode_range(request, header, &mut made) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Ok(Ok(Err(error))),
        Err(_) if defect == Some(Defect::ListSkipsDamaged) => {
            return Ok(Ok(lists::without_damaged(opened, request)));
        }
        Err(damaged) => return Ok(Err(damaged)),
    }
    let bytes = made.pieces.concat();
    if bytes.len() != made.announced {
        let text = format!("{request:?}: {} bytes announced, {} made", made.announced, bytes.len());
        return Violation::err("lists have the length they say", text);
    }
    let Ok(mut response) = pb::RangeResponse::decode(Bytes::from(bytes)) else {
        return Violation::err("lists decode", format!("the list for {request:?} does not decode"));
    };
    if defect == Some(Defect::CacheServesOther) {
        lists::serve_kept(&mut process.kept, &mut response);
    }
    Ok(Ok(Ok(response)))
}
