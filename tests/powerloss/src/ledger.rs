//! What the recorded member showed and acknowledged, and the operation from which on a recovered member must have it.

use std::collections::BTreeMap;

use api::etcdserverpb as pb;
use api::mvccpb::KeyValue;
use bytes::Bytes;
use log::LogId;
use member::OpenedMember;

/// An acknowledgement.
#[derive(Debug, Clone, Copy)]
struct Acknowledged {
    /// Number of operations recorded when the request was sent, and when the answer could be given.
    asked_at: usize,
    answered_at: usize,
    promise: DurablePromise,
}

/// What a recovered member must have from an answer on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DurablePromise {
    /// Revision at least.
    pub(crate) revision: i64,
    /// Compacted at least up to here; 0 for not at all.
    pub(crate) compacted: i64,
    /// Term at least; the vote in it was for itself.
    pub(crate) term: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Ledger {
    acknowledged: Vec<Acknowledged>,
    /// All keys, by revision.
    states: BTreeMap<i64, Vec<KeyValue>>,
    /// Hash of the state by applied entry.
    hashes: BTreeMap<LogId, u64>,
}

impl Ledger {
    /// Records what the member shows now.
    ///
    /// # Errors
    /// When it shows another state hash for the same index than before.
    pub(crate) fn watch(&mut self, member: &OpenedMember) -> Result<(), String> {
        let (applied, hash) = member.reader.state_hash();
        let id = LogId { index: applied.index, term: applied.term };
        if self.hashes.insert(id, hash).is_some_and(|before| before != hash) {
            return Err(format!("another state hash at {id:?} than before"));
        }
        let newest = member.reader.current_revision();
        let known = self.states.last_key_value().map_or(0, |(revision, _)| *revision);
        for revision in known + 1..=newest {
            self.states.insert(revision, everything(member, revision)?);
        }
        Ok(())
    }

    /// Records an answer.
    pub(crate) fn acknowledge(&mut self, asked_at: usize, answered_at: usize, promise: DurablePromise) {
        self.acknowledged.push(Acknowledged { asked_at, answered_at, promise });
    }

    /// What must be there when power is lost after this many operations; with `early`, answers count from their
    /// requests on.
    pub(crate) fn promised(&self, position: usize, early: bool) -> DurablePromise {
        let due = |one: &&Acknowledged| position >= if early { one.asked_at } else { one.answered_at };
        self.acknowledged.iter().filter(due).fold(DurablePromise::default(), |all, one| DurablePromise {
            revision: all.revision.max(one.promise.revision),
            compacted: all.compacted.max(one.promise.compacted),
            term: all.term.max(one.promise.term),
        })
    }

    /// The hash the state had after an entry.
    pub(crate) fn hash(&self, id: LogId) -> Option<u64> {
        self.hashes.get(&id).copied()
    }

    /// All keys at a revision.
    pub(crate) fn state(&self, revision: i64) -> Option<&[KeyValue]> {
        self.states.get(&revision).map(Vec::as_slice)
    }

    /// Compares an acknowledged write with what the member showed at its revision: each key with its value, or none.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn check_write(&self, revision: i64, keys: &[(Bytes, Option<Bytes>)]) -> Result<(), String> {
        let state = self.state(revision).ok_or_else(|| format!("no revision {revision} was shown"))?;
        for (key, value) in keys {
            let found = state.iter().find(|kv| kv.key == *key).map(|kv| &kv.value);
            if found != value.as_ref() {
                return Err(format!(
                    "{key:?} was acknowledged at {revision} with another value than is shown"
                ));
            }
        }
        Ok(())
    }

    /// Answers that were given.
    pub fn acknowledgements(&self) -> usize {
        self.acknowledged.len()
    }

    /// Revisions that were shown.
    pub fn revisions(&self) -> usize {
        self.states.len()
    }
}

/// All keys at a revision, with their values.
pub(crate) fn everything(member: &OpenedMember, revision: i64) -> Result<Vec<KeyValue>, String> {
    let (key, range_end) = (Bytes::from_static(b"\0"), Bytes::from_static(b"\0"));
    let range = pb::RangeRequest { key, range_end, revision, ..Default::default() };
    let reply = member.reader.range(&range).map_err(|error| format!("a range at {revision}: {error}"))?;
    let response = store::resolve_range(&reply, member.values.as_ref());
    Ok(response.map_err(|damaged| format!("a range at {revision}: {damaged}"))?.kvs)
}
