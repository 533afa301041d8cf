//! Damaged values and entries, fetched again from peers.
//!
//! A value that does not check is named by who wrote it, (key, main, sub), and by length and checksum, which are the
//! same on every member; where it lies is not. So the place is looked up in the index first: when nobody refers to it
//! any more (it was moved, overwritten and compacted, or healed already) there is nothing to heal and whoever met it
//! reads again. Else peers are asked, one after the other; what comes is checked, written into a data segment, and the
//! references are switched to it. Asking ends with an error for those who wait. Only apply cannot go on without the
//! value: it then tries its own disk again, which may have failed only once, and peers are asked once more.
//!
//! A damaged entry, wanted by a follower that lags, is named by (index, term) and written again in its place. When
//! nobody has it, the log before it is given up: the follower gets a snapshot.

mod entries;
mod serve;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use log::{JobError, RelocationDone};
use store::{Damaged, Reference};

use crate::background::{Job, Purpose};
use crate::frame::{Frame, ValueName};
use crate::io::{Answer, Fatal, Notice, Now, Output};
use crate::member::Member;

/// Values that are being healed at a time; more than this damage is a disk to be replaced.
const TASKS_MAX: usize = 1_024;

/// How long a peer has to answer, in nanoseconds: a read of its disk and a message each way.
const ANSWER_NS: u64 = 500_000_000;

/// How often all peers are asked before those who wait get an error.
const ROUNDS: u32 = 3;

/// Keys looked at in one step of a look-up.
const STEP_KEYS: usize = 2_000;

/// What is being healed.
#[derive(Default)]
pub(crate) struct Healing {
    /// By place.
    tasks: BTreeMap<u64, Task>,
    walk: Option<Walk>,
    /// Checked values, waiting to be written.
    fetched: Vec<(u64, Bytes, u32)>,
    /// The places whose values a job writes.
    writing: Option<Vec<u64>>,
    pub(super) entries: BTreeMap<u64, entries::EntryTask>,
    /// Reads for peers under way.
    pub(super) serving: usize,
}

#[derive(Default)]
struct Task {
    callers: Vec<u64>,
    for_apply: bool,
    /// Who refers to the place; empty until it was looked up.
    references: Vec<Reference>,
    /// Whether a value was received.
    fetched: bool,
    /// Asked, and not to be asked again in this round.
    tried: BTreeSet<u64>,
    rounds: u32,
    /// When the peer asked last has had its time.
    until_ns: u64,
}

/// A look-up of several places at once.
struct Walk {
    places: BTreeSet<u64>,
    from: Bytes,
}

impl Healing {
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        if self.walk.is_some() {
            return Some(0);
        }
        let asking = self.tasks.values().filter(|task| !task.references.is_empty() && !task.fetched);
        asking.map(|task| task.until_ns).chain(self.entries.values().map(|task| task.until_ns)).min()
    }
}

impl Member {
    /// A compare needs a value that is damaged here: apply waits.
    pub(crate) fn heal_for_apply(&mut self, damaged: &Damaged, out: &mut Output) {
        self.heal_place(damaged.place, out);
        match self.healing.tasks.get_mut(&damaged.place) {
            Some(task) => task.for_apply = true,
            // Too much is damaged to begin now: the next tick tries again.
            None => self.backlog.blocked = false,
        }
    }

    /// A reader met a damaged value.
    pub(crate) fn on_heal(&mut self, now: Now, token: u64, place: u64, out: &mut Output) {
        self.heal_place(place, out);
        match self.healing.tasks.get_mut(&place) {
            Some(task) => {
                task.callers.push(token);
                self.waiting.insert(token, now.monotonic_ns + self.config.request_timeout_ns());
            }
            None => out.answers.push((token, Answer::Failed(api::Error::TooManyRequests))),
        }
    }

    /// Somebody met a damaged value; nobody waits.
    pub(crate) fn heal_place(&mut self, place: u64, out: &mut Output) {
        let tasks = &mut self.healing.tasks;
        if tasks.contains_key(&place) || tasks.len() >= TASKS_MAX {
            return;
        }
        let (file, offset) = (log::file_of(place), log::offset_of(place));
        out.notices.push(Notice::Damage { text: format!("a value in file {file:08x} at byte {offset}") });
        tasks.insert(place, Task::default());
    }

    /// One step of healing.
    pub(crate) fn drive_healing(&mut self, now: Now, out: &mut Output) {
        self.look_up(now, out);
        let late = self.healing.tasks.iter().filter(|(_, task)| {
            !task.references.is_empty() && !task.fetched && now.monotonic_ns >= task.until_ns
        });
        for place in late.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.ask_for_value(now, place, out);
        }
        self.drive_entries(now, out);
        if self.healing.writing.is_none()
            && !self.healing.fetched.is_empty()
            && !self.snapshots.is_installing()
        {
            let fetched = std::mem::take(&mut self.healing.fetched);
            self.healing.writing = Some(fetched.iter().map(|(place, _, _)| *place).collect());
            let values = fetched.into_iter().map(|(_, value, checksum)| (value, checksum)).collect();
            let job = self.log.heal_values(values);
            out.background.push(Job::Relocate { purpose: Purpose::Heal, job });
        }
    }

    /// Looks for the references to all places that are new.
    fn look_up(&mut self, now: Now, out: &mut Output) {
        if self.healing.walk.is_none() {
            let due = |task: &Task| task.references.is_empty() && now.monotonic_ns >= task.until_ns;
            let new = self.healing.tasks.iter().filter(|(_, task)| due(task));
            let places: BTreeSet<u64> = new.map(|(place, _)| *place).collect();
            if places.is_empty() {
                return;
            }
            self.healing.walk = Some(Walk { places, from: Bytes::new() });
        }
        let Some(mut walk) = self.healing.walk.take() else { return };
        let (found, rest) =
            self.reader.live_references(|place| walk.places.contains(&place), &walk.from, STEP_KEYS);
        for reference in found {
            if let Some(task) = self.healing.tasks.get_mut(&reference.value.place) {
                task.references.push(reference);
            }
        }
        if let Some(from) = rest {
            walk.from = from;
            self.healing.walk = Some(walk);
            return;
        }
        for place in walk.places {
            match self.healing.tasks.get(&place) {
                Some(task) if task.references.is_empty() => self.end_healing(place, Ok(()), out),
                Some(_) => self.ask_for_value(now, place, out),
                None => {}
            }
        }
    }

    /// Asks the next peer, or gives up.
    fn ask_for_value(&mut self, now: Now, place: u64, out: &mut Output) {
        let is_alone = self.reader.members().len() <= 1;
        let Some(task) = self.healing.tasks.get_mut(&place) else { return };
        task.until_ns = now.monotonic_ns + ANSWER_NS;
        if let Some(peer) = self.up.iter().find(|peer| !task.tried.contains(peer)).copied() {
            task.tried.insert(peer);
            let ask = Frame::ValueAsk(name_of(&task.references[0]));
            return self.send(peer, &ask, out);
        }
        task.tried.clear();
        task.rounds += 1;
        if task.rounds >= ROUNDS || is_alone {
            self.end_healing(place, Err(api::Error::Corrupt), out);
        }
    }

    pub(crate) fn on_value_answer(
        &mut self,
        now: Now,
        name: &ValueName,
        value: Option<Bytes>,
        out: &mut Output,
    ) {
        let wanted = |task: &Task| {
            !task.fetched && task.references.first().is_some_and(|reference| name_of(reference) == *name)
        };
        let tasks = self.healing.tasks.iter();
        let places: Vec<u64> = tasks.filter(|(_, task)| wanted(task)).map(|(place, _)| *place).collect();
        let value =
            value.filter(|value| value.len() == name.len as usize && crc32c::crc32c(value) == name.checksum);
        for place in places {
            match (&value, self.healing.tasks.get_mut(&place)) {
                (Some(value), Some(task)) => {
                    task.fetched = true;
                    self.healing.fetched.push((place, value.clone(), name.checksum));
                }
                _ => self.ask_for_value(now, place, out),
            }
        }
    }

    /// Values that peers sent are durable, or could not be written.
    pub(crate) fn on_values_written(
        &mut self,
        now: Now,
        done: RelocationDone,
        out: &mut Output,
    ) -> Result<(), Fatal> {
        let places = self.healing.writing.take().unwrap_or_default();
        let relocated = match self.log.relocated(done) {
            Ok(relocated) => relocated,
            Err(JobError::Fatal(fatal)) => return Err(fatal.into()),
            Err(error) => {
                out.notices.push(Notice::Trouble { text: format!("a value cannot be healed: {error}") });
                for place in places {
                    self.end_healing(place, Err(api::Error::NoSpace), out);
                }
                return Ok(());
            }
        };
        for (old, new) in places.iter().copied().zip(relocated.places) {
            let task = self.healing.tasks.get_mut(&old);
            let references = task.map(|task| std::mem::take(&mut task.references)).unwrap_or_default();
            if let Ok(new) = new {
                self.values.healed(old, new);
                for reference in references {
                    // One that is gone meanwhile needs no healing.
                    self.store.relocate(&reference.key, reference.revision, &reference.value, new);
                }
            }
            let (file, offset) = (log::file_of(old), log::offset_of(old));
            let text = format!("a value in file {file:08x} at byte {offset}, with a peer's copy");
            out.notices.push(Notice::Healed { text });
            self.end_healing(old, Ok(()), out);
        }
        relocated.file.into_iter().for_each(|file| self.log.relocation_switched(file));
        if places.iter().any(|place| self.log.is_replayed(log::file_of(*place))) {
            // The entry that brought it is still damaged, and a start that replays it would refuse.
            self.leave_segment(now, out);
        }
        Ok(())
    }

    fn end_healing(&mut self, place: u64, result: Result<(), api::Error>, out: &mut Output) {
        let Some(mut task) = self.healing.tasks.remove(&place) else { return };
        for token in std::mem::take(&mut task.callers) {
            let answer = match &result {
                Ok(()) => Answer::Healed,
                Err(error) => Answer::Failed(*error),
            };
            self.answer(token, answer, out);
        }
        if task.for_apply {
            self.backlog.blocked = false;
            if result.is_err() {
                // Our own disk may have failed only once, and peers have given the value up: apply tries it again. If
                // it is still damaged, peers are asked again after a while.
                self.healing.tasks.insert(place, Task { until_ns: task.until_ns, ..Task::default() });
            }
        }
    }

    /// The state was replaced by another: places of the old one mean nothing.
    pub(crate) fn forget_healing(&mut self, out: &mut Output) {
        self.healing.walk = None;
        self.healing.fetched.clear();
        for place in self.healing.tasks.keys().copied().collect::<Vec<_>>() {
            self.end_healing(place, Ok(()), out);
        }
    }
}

fn name_of(reference: &Reference) -> ValueName {
    ValueName {
        main: reference.revision.main,
        sub: reference.revision.sub,
        len: reference.value.len,
        checksum: reference.value.checksum,
        key: reference.key.clone(),
    }
}
