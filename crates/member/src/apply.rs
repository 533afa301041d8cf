//! Committed entries into the store, in order, one batch at a time.
//!
//! Apply is a total function of the log: what a command asks for may be refused, but every member refuses it alike.
//! The only thing that can hold it up is a damaged value that a compare needs: then the batch waits, untouched, until
//! the value has been fetched from a peer.
//!
//! Answers go to the callers of this very process, recognized by the origin each command carries.

use std::collections::VecDeque;

use api::etcdserverpb as pb;
use api::membershippb;
use bytes::Bytes;
use consensus::{Entry, EntryKind};
use prost::Message;
use store::{BatchContext, Outcome, Position, Store};

use crate::batch::{self, Batch, Command, DecodeError, Kind};
use crate::io::{Answer, Fatal, Now, Output};
use crate::lease::Expiry;
use crate::member::Member;
use crate::publish::Publish;

/// Committed entries that are not applied.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    queue: VecDeque<Entry>,
    applied: u64,
    applied_term: u64,
    /// Whether the first entry waits for a damaged value.
    pub(crate) blocked: bool,
}

impl Backlog {
    pub(crate) fn at(applied: u64, applied_term: u64) -> Backlog {
        Backlog { applied, applied_term, ..Backlog::default() }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        assert!(entry.index == self.committed() + 1, "entry {} is committed out of order", entry.index);
        self.queue.push_back(entry);
    }

    /// The state is that after an installed snapshot: what was committed up to there is in it.
    pub(crate) fn jump(&mut self, applied: u64, applied_term: u64) {
        *self = Backlog::at(applied, applied_term);
    }

    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    pub(crate) fn applied_term(&self) -> u64 {
        self.applied_term
    }

    pub(crate) fn committed(&self) -> u64 {
        self.queue.back().map_or(self.applied, |entry| entry.index)
    }
}

/// One logged command as the store takes it: usually one, several for an expiry of many leases.
struct Decoded {
    command: Command,
    steps: usize,
}

impl Member {
    /// Applies what is committed; true when anything was.
    pub(crate) fn apply_committed(&mut self, now: Now, out: &mut Output) -> Result<bool, Fatal> {
        let mut any = false;
        while !self.backlog.blocked {
            let Some(entry) = self.backlog.queue.front().cloned() else { break };
            match entry.kind {
                EntryKind::Batch => {
                    if !self.apply_batch(now, &entry, out)? {
                        break;
                    }
                }
                EntryKind::ConfChange => self.apply_conf_change(&entry)?,
                EntryKind::Empty => self.store.apply_empty(position(&entry)),
            }
            self.entry_applied(now, &entry);
            any = true;
        }
        if any {
            self.consensus.applied(self.backlog.applied);
        }
        Ok(any)
    }

    fn entry_applied(&mut self, now: Now, entry: &Entry) {
        self.backlog.queue.pop_front();
        self.backlog.applied = entry.index;
        self.backlog.applied_term = entry.term;
        if self.leadership.leading && entry.term == self.leadership.term && !self.leases.active {
            self.take_up_leases(now);
            self.propose_cluster_version();
        }
        self.upkeep.remember_hash(entry.index, self.reader.state_hash().1);
    }

    /// Applies one batch; false when it must wait for a value to be repaired.
    fn apply_batch(&mut self, now: Now, entry: &Entry, out: &mut Output) -> Result<bool, Fatal> {
        let address = self.log.address(entry.index).expect("a committed entry is in the log");
        let batch = decode_batch(entry)
            .map_err(|error| Fatal::Entry { index: entry.index, reason: error.to_string() })?;
        let (decoded, steps) = decode_all(batch.commands);
        let answered = self.answered(&decoded);
        let context = context(entry, address, batch.clock_ms, &answered);
        let applied = match self.store.apply_batch(&context, &steps) {
            Ok(applied) => applied,
            Err(damaged) => {
                self.backlog.blocked = true;
                self.repair_for_apply(&damaged, out);
                return Ok(false);
            }
        };
        self.upkeep.applied(decoded.len() as u64);
        self.status.set_commands_applied(self.status.commands_applied() + decoded.len() as u64);
        self.hub.publish(applied.revision, &applied.events.into());
        self.follow_leases(now, &applied.leases);
        if applied.alarms_changed {
            self.upkeep.alarms_changed();
        }
        self.answer_callers(decoded, applied.outcomes, out);
        Ok(true)
    }

    /// For each step, whether its client is waiting here.
    fn answered(&self, decoded: &[Decoded]) -> Vec<bool> {
        let origin = self.config.origin();
        let own = decoded.iter().map(|one| (one.command.origin == origin, one.steps));
        own.flat_map(|(own, steps)| std::iter::repeat_n(own, steps)).collect()
    }

    fn answer_callers(&mut self, decoded: Vec<Decoded>, outcomes: Vec<Outcome>, out: &mut Output) {
        let origin = self.config.origin();
        let mut outcomes = outcomes.into_iter();
        for Decoded { command, steps } in decoded {
            let outcome = outcomes.by_ref().take(steps).last();
            if matches!(outcome, Some(Ok(store::Reply::Compaction { .. }))) {
                self.upkeep.compacted();
            }
            if command.origin == origin
                && let Some(outcome) = outcome
            {
                self.forwarded.remove(&command.sequence);
                self.answer_applied(command.sequence, outcome, out);
            }
        }
    }

    /// A physical compaction is answered once history is really gone.
    fn answer_applied(&mut self, token: u64, outcome: Outcome, out: &mut Output) {
        if let Ok(store::Reply::Compaction { compacted, physical: true, .. }) = outcome {
            self.upkeep.wait_for_purge(token, compacted, outcome);
        } else {
            self.answer(token, Answer::Applied(outcome), out);
        }
    }

    fn apply_conf_change(&mut self, entry: &Entry) -> Result<(), Fatal> {
        let change = consensus::ConfChange::decode(entry.payload.clone())
            .map_err(|error| Fatal::Entry { index: entry.index, reason: error.to_string() })?;
        self.store.apply_empty(position(entry));
        // One that does not fit has no effect, on any member alike.
        let _ = self.consensus.apply_conf_change(&change);
        Ok(())
    }

    fn propose_cluster_version(&mut self) {
        if self.reader.cluster_version().is_none() {
            let body =
                membershippb::ClusterVersionSetRequest { ver: api::version::CLUSTER_VERSION.to_owned() };
            self.propose_own(Kind::ClusterVersion, body.encode_to_vec().into());
        }
    }
}

/// Applies an entry that was committed before this start: nobody waits for its answers and nobody watches.
///
/// # Errors
/// What makes it impossible, with what to do about it.
pub(crate) fn replay(store: &mut Store, entry: &Entry, address: u64) -> Result<(), String> {
    match entry.kind {
        EntryKind::Empty => store.apply_empty(position(entry)),
        EntryKind::ConfChange => {
            return Err("changes of membership are not known to this release".to_owned());
        }
        EntryKind::Batch => {
            let batch = decode_batch(entry).map_err(|error| error.to_string())?;
            let (_, steps) = decode_all(batch.commands);
            let applied = store.apply_batch(&context(entry, address, batch.clock_ms, &[]), &steps);
            applied.map_err(|damaged| format!("it compares a value that is damaged here: {damaged}"))?;
        }
    }
    Ok(())
}

/// An entry of the log as consensus has it; `None` when its kind is not known.
pub(crate) fn from_log(entry: log::Entry) -> Option<Entry> {
    let kind = EntryKind::from_u8(entry.kind)?;
    Some(Entry { term: entry.term, index: entry.index, kind, payload: entry.payload })
}

/// Decodes the batch of an entry. Bytes that are no batch of a version we know do nothing, on all members alike.
///
/// # Errors
/// A version we do not know: what it would do cannot be guessed.
fn decode_batch(entry: &Entry) -> Result<Batch, DecodeError> {
    match batch::decode(&entry.payload) {
        Err(error @ DecodeError::Version(_)) => Err(error),
        other => Ok(other.unwrap_or_else(|_| Batch { clock_ms: 0, commands: Vec::new() })),
    }
}

fn position(entry: &Entry) -> Position {
    Position { index: entry.index, term: entry.term }
}

fn context<'a>(
    entry: &'a Entry,
    payload_address: u64,
    clock_ms: u64,
    answered: &'a [bool],
) -> BatchContext<'a> {
    let Entry { index, term, payload, .. } = entry;
    BatchContext { index: *index, term: *term, clock_ms, payload, payload_address, answered }
}

/// Decodes the commands of a batch for the store. What does not decode becomes a command the store refuses.
fn decode_all(commands: Vec<Command>) -> (Vec<Decoded>, Vec<store::Command>) {
    let mut decoded = Vec::with_capacity(commands.len());
    let mut all = Vec::with_capacity(commands.len());
    for command in commands {
        let before = all.len();
        decode_into(&mut all, &command);
        decoded.push(Decoded { steps: all.len() - before, command });
    }
    (decoded, all)
}

fn decode_into(all: &mut Vec<store::Command>, command: &Command) {
    let body = command.body.clone();
    let step = match command.kind {
        Kind::Put => request(body, store::Command::Put),
        Kind::DeleteRange => request(body, store::Command::DeleteRange),
        Kind::Txn => request(body, store::Command::Txn),
        Kind::Compaction => request(body, store::Command::Compaction),
        Kind::LeaseGrant => request(body, store::Command::LeaseGrant),
        Kind::LeaseRevoke => {
            request(body, |request| store::Command::LeaseRevoke { request, expiry_term: None })
        }
        Kind::LeaseExpire => return decode_expiry(all, &body),
        Kind::LeaseCheckpoint => request(body, store::Command::LeaseCheckpoint),
        Kind::Alarm => request(body, store::Command::Alarm),
        Kind::ClusterVersion => request(body, store::Command::ClusterVersionSet),
        Kind::Publish => decode_publish(&body),
    };
    all.push(step);
}

fn request<R: Message + Default>(body: Bytes, make: impl FnOnce(R) -> store::Command) -> store::Command {
    R::decode(body).map_or(store::Command::Unknown, make)
}

fn decode_expiry(all: &mut Vec<store::Command>, body: &Bytes) {
    match Expiry::decode(body) {
        None => all.push(store::Command::Unknown),
        Some(expiry) => all.extend(expiry.leases.into_iter().map(|id| store::Command::LeaseRevoke {
            request: pb::LeaseRevokeRequest { id },
            expiry_term: Some(expiry.term),
        })),
    }
}

fn decode_publish(body: &Bytes) -> store::Command {
    Publish::decode(body).map_or(store::Command::Unknown, |publish| store::Command::Publish {
        id: publish.member,
        incarnation: publish.incarnation,
        name: publish.name,
        client_urls: publish.client_urls,
    })
}
