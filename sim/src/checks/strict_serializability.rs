//! Invariant (strict serializability): every acknowledged request did and answered exactly what the model does at its
//! revision, and revisions respect real time.
//!
//! The store orders all writes by revision, so no order has to be searched for:
//!
//! ```text
//! request 12: put a       sent when clients knew revision 7, answered with revision 9
//!   - the revision is above 7: it respects real time
//!   - revision 9 in the history is what the model makes of "put a" on the keys of revision 8
//!   - no other request is revision 9, and request 12 is no other revision
//! ```
//!
//! A read must see everything that was acknowledged before it was sent. A request of unknown outcome took effect once,
//! completely, or not at all.

use std::collections::{BTreeMap, BTreeSet};

use api::etcdserverpb as pb;
use api::mvccpb::KeyValue;
use bytes::Bytes;
use store::Response;

use super::history::{KeyChange, RevisionHistory};
use super::model::ModelReplay;
use crate::report::trace::Violation;
use crate::world::request::ClientRequest;

const CHECK: &str = "strict serializability";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteFate {
    /// Not answered yet, or never.
    Open,
    /// Refused: it has no effect.
    Refused,
    /// Acknowledged.
    Acknowledged,
}

#[derive(Debug)]
struct TrackedWrite {
    request: ClientRequest,
    /// The newest revision that clients knew when it was sent.
    after: i64,
    fate: WriteFate,
    revision: Option<i64>,
}

/// All writes, and what clients know.
#[derive(Default)]
pub(crate) struct StrictSerializability {
    writes: BTreeMap<u64, TrackedWrite>,
    /// Those that may still take effect.
    open: BTreeSet<u64>,
    /// The newest revision that a client knows.
    newest_known: i64,
    /// Answers whose revision no member has shown yet: the watch of the answering member waits for the repair of a
    /// damaged value.
    early: Vec<(u64, Response)>,
    /// Revisions that only delete, and the request that did it, if it is known.
    deletions: BTreeMap<i64, Option<u64>>,
}

/// The number of the request that wrote a value: the value begins with it.
pub(crate) fn author(value: &Bytes) -> Option<u64> {
    let end = value.iter().position(|byte| *byte == b':')?;
    std::str::from_utf8(&value[..end]).ok()?.parse().ok()
}

impl StrictSerializability {
    /// The newest revision that a client knows: a request that is sent now must see it.
    pub(crate) fn newest_known(&self) -> i64 {
        self.newest_known
    }

    /// A client sends a request.
    pub(crate) fn begins(&mut self, number: u64, request: &ClientRequest) {
        if request.command().is_none() {
            return;
        }
        self.open.insert(number);
        let write = TrackedWrite {
            request: request.clone(),
            after: self.newest_known,
            fate: WriteFate::Open,
            revision: None,
        };
        self.writes.insert(number, write);
    }

    /// A request was refused for certain.
    pub(crate) fn refused(&mut self, number: u64) -> Result<(), Violation> {
        self.open.remove(&number);
        let Some(write) = self.writes.get_mut(&number) else { return Ok(()) };
        if let Some(revision) = write.revision {
            let text =
                format!("request {number} was refused, but is revision {revision}: {:?}", write.request);
            return Violation::err(CHECK, text);
        }
        write.fate = WriteFate::Refused;
        Ok(())
    }

    /// A revision was applied for the first time. True if no request of a client can have done it.
    pub(crate) fn applied(&mut self, revision: i64, history: &RevisionHistory) -> Result<bool, Violation> {
        let changes = history.at(revision).cloned().unwrap_or_default();
        let values = changes.iter().filter_map(|change| change.kv.as_ref());
        let mut authors: Vec<Option<u64>> = values.map(|kv| author(&kv.value)).collect();
        authors.dedup();
        match authors.as_slice() {
            [] => {
                self.deletions.insert(revision, None);
                let mut writes = self.open.iter().map(|number| &self.writes[number]);
                Ok(!writes.any(|write| explains(write, revision, &changes, history)))
            }
            [Some(number)] => {
                self.wrote(*number, revision, &changes, history)?;
                Ok(false)
            }
            _ => Violation::err(CHECK, format!("revision {revision} has several authors: {changes:?}")),
        }
    }

    fn wrote(
        &mut self,
        number: u64,
        revision: i64,
        changes: &[KeyChange],
        history: &RevisionHistory,
    ) -> Result<(), Violation> {
        let Some(write) = self.writes.get_mut(&number) else {
            return Violation::err(
                CHECK,
                format!("revision {revision} was requested by no client: {changes:?}"),
            );
        };
        if let Some(before) = write.revision {
            let text = format!(
                "request {number} took effect twice, at {before} and {revision}: {:?}",
                write.request
            );
            return Violation::err(CHECK, text);
        }
        if write.fate != WriteFate::Open {
            let text =
                format!("request {number} ({:?}) took effect at {revision}: {:?}", write.fate, write.request);
            return Violation::err(CHECK, text);
        }
        if !explains(write, revision, changes, history) {
            let text = format!(
                "request {number} is revision {revision}, which should not be\n  {changes:?}\nasked for (after {}):\n  \
                 {:?}",
                write.after, write.request
            );
            return Violation::err(CHECK, text);
        }
        write.revision = Some(revision);
        self.open.remove(&number);
        Ok(())
    }

    /// A write is acknowledged.
    pub(crate) fn acknowledged(
        &mut self,
        number: u64,
        response: &Response,
        history: &RevisionHistory,
    ) -> Result<(), Violation> {
        let revision = revision_of(response);
        self.newest_known = self.newest_known.max(revision);
        if revision > history.revision() {
            self.early.push((number, response.clone()));
            return Ok(());
        }
        let Some(write) = self.writes.get_mut(&number) else { return Ok(()) };
        write.fate = WriteFate::Acknowledged;
        self.open.remove(&number);
        if revision < write.after {
            let text = format!("request {number} was answered at {revision}, began after {}", write.after);
            return Violation::err(CHECK, text);
        }
        let idle = replay(&write.request, history, revision);
        let no_effect =
            |(changes, expected): &(Vec<KeyChange>, Response)| changes.is_empty() && same(expected, response);
        if write.revision.is_none() && idle.as_ref().is_none_or(no_effect) {
            return Ok(());
        }
        let Some((changes, expected)) = replay(&write.request, history, revision - 1) else { return Ok(()) };
        let done = history.at(revision);
        let claimed = self.deletions.get(&revision).copied().flatten().is_some();
        let right = done == Some(&changes) && same(&expected, response) && !claimed;
        if !right || write.revision.is_some_and(|known| known != revision) || revision <= write.after {
            let text = format!(
                "request {number} was answered\n  {response:?}\nthe model says\n  {expected:?}\nand would change\n  \
                 {changes:?}\nrevision {revision} is\n  {done:?}\nasked for (after {}, known as {:?}):\n  {:?}",
                write.after, write.revision, write.request
            );
            return Violation::err(CHECK, text);
        }
        write.revision = Some(revision);
        if let Some(deletion) = self.deletions.get_mut(&revision) {
            *deletion = Some(number);
        }
        Ok(())
    }

    /// The history has grown: checks the answers whose revision was not known.
    pub(crate) fn check_early(&mut self, history: &RevisionHistory) -> Result<(), Violation> {
        for (number, response) in std::mem::take(&mut self.early) {
            self.acknowledged(number, &response, history)?;
        }
        Ok(())
    }

    /// A read is answered; a linearizable one sees everything up to `after`.
    pub(crate) fn read(
        &mut self,
        request: &pb::RangeRequest,
        response: &pb::RangeResponse,
        after: Option<i64>,
        history: &RevisionHistory,
    ) -> Result<(), Violation> {
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        let stale = after.is_some_and(|after| revision < after);
        if after.is_some() {
            self.newest_known = self.newest_known.max(revision);
        }
        if !stale && revision > history.revision() {
            return Ok(());
        }
        let at = if request.revision > 0 { request.revision } else { revision };
        let expected = ModelReplay::new(history.view(at), at + 1).range(request);
        let answered = pb::RangeResponse { header: None, ..response.clone() };
        if stale || answered != expected {
            let text = format!(
                "a read was answered at {revision} (it must see {after:?})\n  {answered:?}\nthe model says\n  \
                 {expected:?}\nasked for:\n  {request:?}"
            );
            return Violation::err(CHECK, text);
        }
        Ok(())
    }

    /// A streamed range was cut off: what has arrived must be the beginning of the answer at revision `at`.
    pub(crate) fn read_in_part(
        &self,
        request: &pb::RangeRequest,
        arrived: &[KeyValue],
        at: i64,
        history: &RevisionHistory,
    ) -> Result<(), Violation> {
        if at > history.revision() {
            return Ok(());
        }
        let expected = ModelReplay::new(history.view(at), at + 1).range(request).kvs;
        if expected.starts_with(arrived) {
            return Ok(());
        }
        let text =
            format!("{request:?} was begun at {at} with\n  {arrived:?}\nthe model says\n  {expected:?}");
        Violation::err(CHECK, text)
    }

    /// A transaction that only reads is answered; it sees everything up to `after`.
    pub(crate) fn read_txn(
        &mut self,
        request: &pb::TxnRequest,
        response: &pb::TxnResponse,
        after: i64,
        history: &RevisionHistory,
    ) -> Result<(), Violation> {
        let answered = Response::Txn(response.clone());
        let revision = revision_of(&answered);
        self.answered_at(revision, after)?;
        if revision > history.revision() {
            return Ok(());
        }
        let expected = ModelReplay::new(history.view(revision), revision + 1).txn(request);
        if !same(&Response::Txn(expected.clone()), &answered) {
            let text = format!(
                "a transaction of ranges was answered\n  {response:?}\nthe model says\n  {expected:?}\nasked \
                 for:\n  {request:?}"
            );
            return Violation::err(CHECK, text);
        }
        Ok(())
    }

    /// Whether a revision can be the work of another request than this one.
    pub(crate) fn may_be_of_another(&self, number: u64, revision: i64, history: &RevisionHistory) -> bool {
        let changes = history.at(revision).map_or(&[][..], Vec::as_slice);
        let mut others = self.writes.iter().filter(|(other, _)| **other != number);
        others.any(|(_, write)| explains(write, revision, changes, history))
    }

    /// A command that is not about keys is answered at a revision.
    pub(crate) fn answered_at(&mut self, revision: i64, after: i64) -> Result<(), Violation> {
        self.newest_known = self.newest_known.max(revision);
        if revision < after {
            return Violation::err(CHECK, format!("answered at {revision}, but began after {after}"));
        }
        Ok(())
    }

    /// The run is over: deletions that were not acknowledged must be those of open requests, or of leases, as `expired`
    /// decides.
    pub(crate) fn finish(
        &self,
        history: &RevisionHistory,
        expired: impl Fn(i64, &[KeyChange]) -> bool,
    ) -> Result<(), Violation> {
        if let Some((number, response)) = self.early.first() {
            let text =
                format!("request {number} was answered, but no member has shown its revision: {response:?}");
            return Violation::err(CHECK, text);
        }
        for (revision, _) in self.deletions.iter().filter(|(_, author)| author.is_none()) {
            let changes = history.at(*revision).map_or(&[][..], Vec::as_slice);
            let mut open = self.open.iter().map(|number| &self.writes[number]);
            let explained = open.any(|write| explains(write, *revision, changes, history));
            if !explained && !expired(*revision, changes) {
                let text = format!("revision {revision} was requested by no client: {changes:?}");
                return Violation::err(CHECK, text);
            }
        }
        Ok(())
    }
}

/// Whether a request does exactly this at a revision, and began before it.
fn explains(write: &TrackedWrite, revision: i64, changes: &[KeyChange], history: &RevisionHistory) -> bool {
    if revision <= write.after {
        return false;
    }
    if let ClientRequest::Revoke(request) = &write.request {
        let view = history.view(revision - 1);
        let keys = view.all().filter(|kv| kv.lease == request.id).map(|kv| &kv.key);
        return changes.iter().all(|change| change.kv.is_none()) && keys.eq(changes.iter().map(|c| &c.key));
    }
    replay(&write.request, history, revision - 1).is_some_and(|(expected, _)| expected == changes)
}

/// What the model makes of a request on the keys at a revision; `None` for requests that are not about keys.
fn replay(
    request: &ClientRequest,
    history: &RevisionHistory,
    revision: i64,
) -> Option<(Vec<KeyChange>, Response)> {
    let mut replay = ModelReplay::new(history.view(revision), revision + 1);
    let response = match request {
        ClientRequest::Put(put) => Response::Put(replay.put(put)),
        ClientRequest::Delete(delete) => Response::DeleteRange(replay.delete(delete)),
        ClientRequest::Txn(txn) => Response::Txn(replay.txn(txn)),
        _ => return None,
    };
    Some((replay.changes, response))
}

fn header_of(response: &Response) -> Option<&pb::ResponseHeader> {
    match response {
        Response::Put(response) => response.header.as_ref(),
        Response::DeleteRange(response) => response.header.as_ref(),
        Response::Txn(response) => response.header.as_ref(),
        Response::Compaction(response) => response.header.as_ref(),
        Response::LeaseGrant(response) => response.header.as_ref(),
        Response::LeaseRevoke(response) => response.header.as_ref(),
        Response::LeaseCheckpoint(response) => response.header.as_ref(),
        Response::Alarm(response) => response.header.as_ref(),
        Response::Done => None,
    }
}

/// The revision in a response's header.
pub(crate) fn revision_of(response: &Response) -> i64 {
    header_of(response).map_or(0, |header| header.revision)
}

/// Whether two responses are equal but for their headers.
fn same(expected: &Response, response: &Response) -> bool {
    match (expected, response) {
        (Response::Put(a), Response::Put(b)) => a.prev_kv == b.prev_kv,
        (Response::DeleteRange(a), Response::DeleteRange(b)) => {
            (a.deleted, &a.prev_kvs) == (b.deleted, &b.prev_kvs)
        }
        (Response::Txn(a), Response::Txn(b)) => {
            let bare =
                |responses: &[pb::ResponseOp]| responses.iter().map(without_header).collect::<Vec<_>>();
            a.succeeded == b.succeeded && bare(&a.responses) == bare(&b.responses)
        }
        _ => false,
    }
}

fn without_header(op: &pb::ResponseOp) -> pb::ResponseOp {
    use pb::response_op::Response as Op;
    let mut op = op.clone();
    match &mut op.response {
        Some(Op::ResponsePut(response)) => response.header = None,
        Some(Op::ResponseDeleteRange(response)) => response.header = None,
        Some(Op::ResponseRange(response)) => response.header = None,
        Some(Op::ResponseTxn(response)) => {
            response.header = None;
            response.responses = response.responses.iter().map(without_header).collect();
        }
        None => {}
    }
    op
}
