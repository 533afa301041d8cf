//! Damaged values and entries, fetched again from peers.
//!
//! A value that does not check is named by who wrote it, (key, main, sub), and by length and checksum, which are the
//! same on every member; where it lies is not. So the place is looked up in the index first: when nobody refers to it
//! any more (it was moved, overwritten and compacted, or repaired already) there is nothing to repair and whoever met it
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
use crate::io::{Answer, Fatal, Notice, Now, Output};
use crate::member::Member;
use crate::peer_message::{PeerMessage, ValueName};

/// Values that are being repaired at a time; more than this damage is a disk to be replaced.
const MAX_TASKS: usize = 1_024;

/// How long a peer has to answer, in nanoseconds: a read of its disk and a message each way.
const ANSWER_NS: u64 = 500_000_000;

/// How often all peers are asked before those who wait get an error.
const ROUNDS: u32 = 3;

/// Keys looked at in one step of a look-up.
const STEP_KEYS: usize = 2_000;

/// What is being repaired.
#[derive(Default)]
pub(crate) struct Repairs {
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
    addresses: BTreeSet<u64>,
    from: Bytes,
}

impl Repairs {
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
    pub(crate) fn repair_for_apply(&mut self, damaged: &Damaged, out: &mut Output) {
        self.repair_value(damaged.address, out);
        match self.repair.tasks.get_mut(&damaged.address) {
            Some(task) => task.for_apply = true,
            // Too much is damaged to begin now: the next tick tries again.
            None => self.backlog.blocked = false,
        }
    }

    /// A reader met a damaged value.
    pub(crate) fn on_repair(&mut self, now: Now, token: u64, address: u64, out: &mut Output) {
        self.repair_value(address, out);
        match self.repair.tasks.get_mut(&address) {
            Some(task) => {
                task.callers.push(token);
                self.waiting.insert(token, now.monotonic_ns + self.config.request_timeout_ns());
            }
            None => out.answers.push((token, Answer::Failed(api::Error::TooManyRequests))),
        }
    }

    /// Somebody met a damaged value; nobody waits.
    pub(crate) fn repair_value(&mut self, address: u64, out: &mut Output) {
        let tasks = &mut self.repair.tasks;
        if tasks.contains_key(&address) || tasks.len() >= MAX_TASKS {
            return;
        }
        let (file, offset) = (log::file_of(address), log::offset_of(address));
        out.notices.push(Notice::Damage { text: format!("a value in file {file:08x} at byte {offset}") });
        tasks.insert(address, Task::default());
    }

    /// One step of repair.
    pub(crate) fn drive_repair(&mut self, now: Now, out: &mut Output) {
        self.look_up(now, out);
        let late = self.repair.tasks.iter().filter(|(_, task)| {
            !task.references.is_empty() && !task.fetched && now.monotonic_ns >= task.until_ns
        });
        for address in late.map(|(address, _)| *address).collect::<Vec<_>>() {
            self.ask_for_value(now, address, out);
        }
        self.drive_entries(now, out);
        if self.repair.writing.is_none() && !self.repair.fetched.is_empty() && !self.snapshots.is_installing()
        {
            let fetched = std::mem::take(&mut self.repair.fetched);
            self.repair.writing = Some(fetched.iter().map(|(address, _, _)| *address).collect());
            let values = fetched.into_iter().map(|(_, value, checksum)| (value, checksum)).collect();
            let job = self.log.write_repaired_values(values);
            out.background.push(Job::Relocate { purpose: Purpose::Repair, job });
        }
    }

    /// Looks for the references to all places that are new.
    fn look_up(&mut self, now: Now, out: &mut Output) {
        if self.repair.walk.is_none() {
            let due = |task: &Task| task.references.is_empty() && now.monotonic_ns >= task.until_ns;
            let new = self.repair.tasks.iter().filter(|(_, task)| due(task));
            let addresses: BTreeSet<u64> = new.map(|(address, _)| *address).collect();
            if addresses.is_empty() {
                return;
            }
            self.repair.walk = Some(Walk { addresses, from: Bytes::new() });
        }
        let Some(mut walk) = self.repair.walk.take() else { return };
        let (found, rest) =
            self.reader.live_references(|address| walk.addresses.contains(&address), &walk.from, STEP_KEYS);
        for reference in found {
            if let Some(task) = self.repair.tasks.get_mut(&reference.value.address) {
                task.references.push(reference);
            }
        }
        if let Some(from) = rest {
            walk.from = from;
            self.repair.walk = Some(walk);
            return;
        }
        for address in walk.addresses {
            match self.repair.tasks.get(&address) {
                Some(task) if task.references.is_empty() => self.end_repair(address, Ok(()), out),
                Some(_) => self.ask_for_value(now, address, out),
                None => {}
            }
        }
    }

    /// Asks the next peer, or gives up.
    fn ask_for_value(&mut self, now: Now, address: u64, out: &mut Output) {
        let is_alone = self.reader.members().len() <= 1;
        let Some(task) = self.repair.tasks.get_mut(&address) else { return };
        task.until_ns = now.monotonic_ns + ANSWER_NS;
        if let Some(peer) = self.up.iter().find(|peer| !task.tried.contains(peer)).copied() {
            task.tried.insert(peer);
            let ask = PeerMessage::ValueAsk(name_of(&task.references[0]));
            return self.send(peer, &ask, out);
        }
        task.tried.clear();
        task.rounds += 1;
        if task.rounds >= ROUNDS || is_alone {
            self.end_repair(address, Err(api::Error::Corrupt), out);
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
        let tasks = self.repair.tasks.iter();
        let addresses: Vec<u64> =
            tasks.filter(|(_, task)| wanted(task)).map(|(address, _)| *address).collect();
        let value =
            value.filter(|value| value.len() == name.len as usize && crc32c::crc32c(value) == name.checksum);
        for address in addresses {
            match (&value, self.repair.tasks.get_mut(&address)) {
                (Some(value), Some(task)) => {
                    task.fetched = true;
                    self.repair.fetched.push((address, value.clone(), name.checksum));
                }
                _ => self.ask_for_value(now, address, out),
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
        let addresses = self.repair.writing.take().unwrap_or_default();
        let relocated = match self.log.relocated(done) {
            Ok(relocated) => relocated,
            Err(JobError::Fatal(fatal)) => return Err(fatal.into()),
            Err(error) => {
                out.notices.push(Notice::Failure { text: format!("a value cannot be repaired: {error}") });
                for address in addresses {
                    self.end_repair(address, Err(api::Error::NoSpace), out);
                }
                return Ok(());
            }
        };
        for (old, new) in addresses.iter().copied().zip(relocated.addresses) {
            let task = self.repair.tasks.get_mut(&old);
            let references = task.map(|task| std::mem::take(&mut task.references)).unwrap_or_default();
            if let Ok(new) = new {
                self.values.repaired(old, new);
                for reference in references {
                    // One that is gone meanwhile needs no repair.
                    self.store.relocate(&reference.key, reference.revision, &reference.value, new);
                }
            }
            let (file, offset) = (log::file_of(old), log::offset_of(old));
            let text = format!("a value in file {file:08x} at byte {offset}, with a peer's copy");
            out.notices.push(Notice::Repaired { text });
            self.end_repair(old, Ok(()), out);
        }
        relocated.file.into_iter().for_each(|file| self.log.relocation_switched(file));
        if addresses.iter().any(|address| self.log.is_replayed(log::file_of(*address))) {
            // The entry that brought it is still damaged, and a start that replays it would refuse.
            self.leave_segment(now, out);
        }
        Ok(())
    }

    fn end_repair(&mut self, address: u64, result: Result<(), api::Error>, out: &mut Output) {
        let Some(mut task) = self.repair.tasks.remove(&address) else { return };
        for token in std::mem::take(&mut task.callers) {
            let answer = match &result {
                Ok(()) => Answer::Repaired,
                Err(error) => Answer::Failed(*error),
            };
            self.answer(token, answer, out);
        }
        if task.for_apply {
            self.backlog.blocked = false;
            if result.is_err() {
                // Our own disk may have failed only once, and peers have given the value up: apply tries it again. If
                // it is still damaged, peers are asked again after a while.
                self.repair.tasks.insert(address, Task { until_ns: task.until_ns, ..Task::default() });
            }
        }
    }

    /// The state was replaced by another: places of the old one mean nothing.
    pub(crate) fn forget_repairs(&mut self, out: &mut Output) {
        self.repair.walk = None;
        self.repair.fetched.clear();
        for address in self.repair.tasks.keys().copied().collect::<Vec<_>>() {
            self.end_repair(address, Ok(()), out);
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
