//! Damaged values.
//!
//! A value is named by what is equal on all members: key, revision, length and checksum. Its address is not, so the
//! references to a damaged address are looked up in the index first: by the key if the reader that found the damage
//! knew it, otherwise by a walk over all keys. When nothing refers to the address any more (the
//! value was relocated, overwritten and compacted, or repaired already), there is nothing to repair and the reader
//! reads again. Otherwise peers are asked, one after the other; a value whose length and checksum fit is written into
//! a data segment and the references are switched to it.
//!
//! When no peer has the value, its readers get an error. Only apply cannot go on without it: it then tries its own disk
//! again, which may have failed only once, and peers are asked once more; the log says once that this member stays
//! behind. Damage is reported once (up to `MAX_REPORTED` values), until it is repaired or nothing refers to the value
//! any more. A read that failed shows no damage and is not reported as such, but the disk may never give the value
//! again, so all the rest is the same.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use log::{JobError, Log, RelocationDone};
use store::{Reader, Reference, Store, VersionPosition};

use super::{ANSWER_NS, MAX_ROUNDS};
use crate::callers::Callers;
use crate::io::{Answer, MemberFatal, Notice, Output};
use crate::jobs::Job;
use crate::peer_message::{PeerMessage, ValueName};
use crate::values::LogValues;

/// Values under repair at a time. A disk with more damage than this must be replaced.
pub(super) const MAX_TASKS: usize = 1_024;

/// Values whose damage is remembered as reported. Beyond, those with the lowest addresses are forgotten, and reported
/// again when they are read again.
pub(super) const MAX_REPORTED: usize = 65_536;

/// Versions looked at in one step of a look-up.
pub(super) const STEP_VERSIONS: usize = 2_000;

/// The values under repair.
#[derive(Default)]
pub(crate) struct ValueRepairs {
    /// By damaged address.
    tasks: BTreeMap<u64, ValueTask>,
    look_up: Option<LookUp>,
    /// Checked values that wait to be written: damaged address, value, checksum, key.
    fetched: Vec<(u64, Bytes, u32, Bytes)>,
    /// The damaged addresses whose values a job writes.
    writing: Option<Vec<u64>>,
    /// Addresses of damaged values that were reported and are not repaired, as far as is known.
    reported: ReportedValues,
    /// Those of values whose reads failed, and which were not fetched, as far as is known.
    unreadable: ReportedValues,
    /// Those of them all that apply waits for and no peer had.
    missed: ReportedValues,
}

/// Addresses of values that were reported.
#[derive(Default)]
pub(super) struct ReportedValues(BTreeSet<u64>);

impl ReportedValues {
    /// Returns whether it is news.
    pub(super) fn insert(&mut self, address: u64) -> bool {
        let is_news = self.0.insert(address);
        if self.0.len() > MAX_REPORTED {
            self.0.pop_first();
        }
        is_news
    }
}

#[derive(Default)]
struct ValueTask {
    /// Tokens of the readers that wait.
    callers: Vec<u64>,
    /// A key whose version refers to the address, if it is known.
    key: Option<Bytes>,
    for_apply: bool,
    /// The versions that refer to the address; empty until they were looked up.
    references: Vec<Reference>,
    is_fetched: bool,
    /// Peers asked in this round.
    asked: BTreeSet<u64>,
    rounds: u32,
    /// When the peer asked last has had its time.
    until_ns: u64,
}

/// A search of the index for the references to several addresses at once.
struct LookUp {
    addresses: BTreeSet<u64>,
    from: VersionPosition,
}

/// What a step of repair works with.
pub(crate) struct RepairContext<'a> {
    pub(crate) now_ns: u64,
    pub(crate) connected: &'a BTreeSet<u64>,
    pub(crate) reader: &'a Reader,
    pub(crate) log: &'a mut Log,
    pub(crate) store: &'a mut Store,
    pub(crate) values: &'a LogValues,
    pub(crate) callers: &'a mut Callers,
    pub(crate) out: &'a mut Output,
    /// Set when apply may try its value again.
    pub(crate) unblocks_apply: bool,
}

impl ValueRepairs {
    /// The number of values under repair.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// When the next step is due.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        if self.look_up.is_some() {
            return Some(0);
        }
        let asking = self.tasks.values().filter(|task| task.is_asking());
        asking.map(|task| task.until_ns).min()
    }

    /// The value at `address` could not be read; a version of `key` refers to it, if the key is known. Returns false
    /// when too many values are under repair.
    pub(crate) fn begin(&mut self, address: u64, key: Option<Bytes>) -> bool {
        if self.tasks.contains_key(&address) {
            return true;
        }
        if self.tasks.len() >= MAX_TASKS {
            return false;
        }
        self.tasks.insert(address, ValueTask { key, ..ValueTask::default() });
        true
    }

    /// A reader waits for the repair of `address`, which has begun.
    pub(crate) fn add_caller(&mut self, address: u64, token: u64) {
        if let Some(task) = self.tasks.get_mut(&address) {
            task.callers.push(token);
        }
    }

    /// Apply waits for the repair of `address`, which has begun.
    pub(crate) fn mark_for_apply(&mut self, address: u64) {
        if let Some(task) = self.tasks.get_mut(&address) {
            task.for_apply = true;
        }
    }

    /// Whether a look-up is under way or should begin.
    pub(crate) fn has_look_up(&self, now_ns: u64) -> bool {
        self.look_up.is_some() || self.tasks.values().any(|task| task.needs_look_up(now_ns))
    }

    /// Looks up the references whose keys are known, then one step of the walk for the others.
    pub(crate) fn look_up(&mut self, context: &mut RepairContext<'_>) {
        self.look_up_keys(context);
        if self.has_look_up(context.now_ns) {
            self.walk(context);
        }
    }

    fn look_up_keys(&mut self, context: &mut RepairContext<'_>) {
        let new = self.tasks.iter().filter(|(_, task)| task.needs_look_up(context.now_ns));
        let known = new.filter_map(|(address, task)| Some((task.key.clone()?, *address)));
        let known: Vec<(Bytes, u64)> = known.collect();
        let found = context.reader.references_to(&known);
        for ((_, address), reference) in known.into_iter().zip(found) {
            match (reference, self.tasks.get_mut(&address)) {
                (Some(reference), Some(task)) => {
                    task.references.push(reference);
                    self.report_and_ask(address, context);
                }
                _ => self.end(address, Ok(()), context),
            }
        }
    }

    fn walk(&mut self, context: &mut RepairContext<'_>) {
        let begin = || {
            let new = self.tasks.iter().filter(|(_, task)| task.needs_look_up(context.now_ns));
            LookUp { addresses: new.map(|(address, _)| *address).collect(), from: VersionPosition::default() }
        };
        let mut look_up = self.look_up.take().unwrap_or_else(begin);
        let is_wanted = |address| look_up.addresses.contains(&address);
        let (found, rest) = context.reader.live_references(is_wanted, &look_up.from, STEP_VERSIONS);
        for reference in found {
            if let Some(task) = self.tasks.get_mut(&reference.value.address) {
                task.references.push(reference);
            }
        }
        if let Some(from) = rest {
            look_up.from = from;
            self.look_up = Some(look_up);
            return;
        }
        for address in look_up.addresses {
            match self.tasks.get(&address) {
                Some(task) if task.references.is_empty() => self.end(address, Ok(()), context),
                Some(_) => self.report_and_ask(address, context),
                None => {}
            }
        }
    }

    /// The value is referred to and cannot be read: it is damaged, or the disk fails. One that has only moved is not
    /// reported, and one that could not be repaired is not reported again.
    fn report_and_ask(&mut self, address: u64, context: &mut RepairContext<'_>) {
        if context.log.reader().is_known_damaged(address) {
            if self.reported.insert(address) {
                context.out.notices.push(Notice::Damage { text: describe(address) });
            }
        } else if self.unreadable.insert(address) {
            let text = format!("{} cannot be read; other members are asked for it", describe(address));
            context.out.notices.push(Notice::Failure { text });
        }
        self.ask(address, context);
    }

    /// Asks the next peer for each value whose peer did not answer in time.
    pub(crate) fn ask_late(&mut self, context: &mut RepairContext<'_>) {
        let late = self.tasks.iter().filter(|(_, task)| task.is_asking() && context.now_ns >= task.until_ns);
        for address in late.map(|(address, _)| *address).collect::<Vec<_>>() {
            self.ask(address, context);
        }
    }

    /// Asks the next peer, or gives up.
    fn ask(&mut self, address: u64, context: &mut RepairContext<'_>) {
        let Some(task) = self.tasks.get_mut(&address) else { return };
        task.until_ns = context.now_ns + ANSWER_NS;
        if let Some(peer) = context.connected.iter().find(|peer| !task.asked.contains(peer)).copied() {
            task.asked.insert(peer);
            let ask = PeerMessage::ValueQuestion(name_of(&task.references[0]));
            return context.out.send(peer, &ask);
        }
        task.asked.clear();
        task.rounds += 1;
        let is_alone = context.reader.members().len() <= 1;
        if task.rounds >= MAX_ROUNDS || is_alone {
            self.end(address, Err(api::Error::Corrupt), context);
        }
    }

    /// A peer answered.
    pub(crate) fn answered(
        &mut self,
        name: &ValueName,
        value: Option<Bytes>,
        context: &mut RepairContext<'_>,
    ) {
        let is_wanted = |task: &ValueTask| {
            !task.is_fetched && task.references.first().is_some_and(|reference| name_of(reference) == *name)
        };
        let tasks = self.tasks.iter();
        let wanted: Vec<u64> =
            tasks.filter(|(_, task)| is_wanted(task)).map(|(address, _)| *address).collect();
        let value =
            value.filter(|value| value.len() == name.len as usize && crc32c::crc32c(value) == name.checksum);
        for address in wanted {
            match (&value, self.tasks.get_mut(&address)) {
                (Some(value), Some(task)) => {
                    task.is_fetched = true;
                    self.fetched.push((address, value.clone(), name.checksum, name.key.clone()));
                }
                _ => self.ask(address, context),
            }
        }
    }

    /// Whether fetched values wait to be written and no job writes any.
    pub(crate) fn has_values_to_write(&self) -> bool {
        self.writing.is_none() && !self.fetched.is_empty()
    }

    /// The job that writes the fetched values into a data segment.
    pub(crate) fn write_fetched(&mut self, log: &mut Log) -> Job {
        let fetched = std::mem::take(&mut self.fetched);
        self.writing = Some(fetched.iter().map(|(address, ..)| *address).collect());
        let values = fetched.into_iter().map(|(_, value, checksum, key)| (value, checksum, key)).collect();
        Job::WriteRepairedValues(log.write_repaired_values(values))
    }

    /// Fetched values are durable, or could not be written. Returns whether the active segment should end: the entry
    /// that brought a value is still damaged, and a start that replays it would refuse.
    ///
    /// # Errors
    /// The log can no longer be trusted.
    pub(crate) fn written(
        &mut self,
        done: RelocationDone,
        context: &mut RepairContext<'_>,
    ) -> Result<bool, MemberFatal> {
        let addresses = self.writing.take().unwrap_or_default();
        let relocated = match context.log.relocated(done) {
            Ok(relocated) => relocated,
            Err(JobError::Fatal(fatal)) => return Err(fatal.into()),
            Err(error) => {
                let text = format!("a value cannot be repaired: {error}");
                let lacks_descriptors = error.is_out_of_descriptors();
                let answer =
                    if lacks_descriptors { api::Error::TooManyRequests } else { api::Error::NoSpace };
                context.out.notices.push(Notice::Failure { text });
                for address in addresses {
                    self.end(address, Err(answer), context);
                }
                return Ok(false);
            }
        };
        assert!(addresses.len() == relocated.addresses.len(), "every value that was written has a result");
        for (old, new) in addresses.iter().copied().zip(relocated.addresses) {
            let task = self.tasks.get_mut(&old);
            let references = task.map(|task| std::mem::take(&mut task.references)).unwrap_or_default();
            if let Ok(new) = new {
                context.values.repaired(old, new);
                for reference in references {
                    // A version that is gone meanwhile needs no repair.
                    context.store.relocate(&reference.key, reference.revision, &reference.value, new);
                }
            }
            if context.log.reader().is_known_damaged(old) {
                let text = format!("{}, with a peer's copy", describe(old));
                context.out.notices.push(Notice::Repaired { text });
            }
            self.end(old, Ok(()), context);
        }
        relocated.file.into_iter().for_each(|file| context.log.relocation_switched(file));
        Ok(addresses.iter().any(|address| context.log.is_replayed(log::file_of(*address))))
    }

    fn end(&mut self, address: u64, result: Result<(), api::Error>, context: &mut RepairContext<'_>) {
        let Some(task) = self.tasks.remove(&address) else { return };
        if result.is_ok() {
            self.reported.0.remove(&address);
            self.unreadable.0.remove(&address);
            self.missed.0.remove(&address);
        }
        for token in task.callers {
            let answer = match &result {
                Ok(()) => Answer::Repaired,
                Err(error) => Answer::Failed(*error),
            };
            context.callers.answer(token, answer, context.out);
        }
        if task.for_apply {
            context.unblocks_apply = true;
            if result.is_err() {
                if self.missed.insert(address) {
                    context.out.notices.push(Notice::Failure { text: stays_behind(address) });
                }
                // This member's disk may have failed only once: apply tries it again. If the value is still damaged,
                // peers are asked again after a while.
                self.tasks.insert(
                    address,
                    ValueTask { until_ns: task.until_ns, key: task.key, ..ValueTask::default() },
                );
            }
        }
    }

    /// An entry was applied: what apply waited for, if it did, is there.
    pub(crate) fn apply_went_on(&mut self) {
        self.missed.0.clear();
    }

    /// Whether apply waits for a value that no connected member had.
    pub(crate) fn leaves_apply_behind(&self) -> bool {
        !self.missed.0.is_empty()
    }

    /// The state was replaced by another: addresses of the old one mean nothing.
    pub(crate) fn state_replaced(&mut self, context: &mut RepairContext<'_>) {
        self.look_up = None;
        self.fetched.clear();
        (self.reported, self.unreadable, self.missed) = Default::default();
        for address in self.tasks.keys().copied().collect::<Vec<_>>() {
            self.end(address, Ok(()), context);
        }
    }
}

impl ValueTask {
    fn needs_look_up(&self, now_ns: u64) -> bool {
        self.references.is_empty() && now_ns >= self.until_ns
    }

    fn is_asking(&self) -> bool {
        !self.references.is_empty() && !self.is_fetched
    }
}

fn describe(address: u64) -> String {
    format!("a value in file {:08x} at byte {}", log::file_of(address), log::offset_of(address))
}

/// What an operator reads when apply cannot go on.
fn stays_behind(address: u64) -> String {
    let what = describe(address);
    format!(
        "{what} is damaged or cannot be read, and no connected member has it: a transaction compares it, so this \
         member stays behind until one sends it, or the leader a snapshot. Start all members; if none of them has it \
         any more, replace this member's data"
    )
}

pub(super) fn name_of(reference: &Reference) -> ValueName {
    ValueName {
        main: reference.revision.main,
        sub: reference.revision.sub,
        len: reference.value.len,
        checksum: reference.value.checksum,
        key: reference.key.clone(),
    }
}
