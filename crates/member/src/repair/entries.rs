//! Entries that are damaged on disk, met when a follower that lags wants them.

use std::collections::BTreeSet;

use bytes::Bytes;
use log::{Entry, JobError};

use super::{ANSWER_NS, ROUNDS};
use crate::background::Job;
use crate::io::{Fatal, Notice, Now, Output};
use crate::member::Member;
use crate::peer_message::PeerMessage;

/// One entry that peers are asked for.
pub(crate) struct EntryTask {
    term: u64,
    tried: BTreeSet<u64>,
    rounds: u32,
    pub(super) until_ns: u64,
    /// Whether a job writes it.
    writing: bool,
}

impl Member {
    /// The entry at this index does not check.
    pub(crate) fn repair_entry(&mut self, index: u64) {
        let Some(term) = self.log.term(index) else { return };
        let task = EntryTask { term, tried: BTreeSet::new(), rounds: 0, until_ns: 0, writing: false };
        self.repair.entries.entry(index).or_insert(task);
    }

    pub(super) fn drive_entries(&mut self, now: Now, out: &mut Output) {
        let late =
            self.repair.entries.iter().filter(|(_, task)| !task.writing && now.monotonic_ns >= task.until_ns);
        for index in late.map(|(index, _)| *index).collect::<Vec<_>>() {
            self.ask_for_entry(now, index, out);
        }
    }

    fn ask_for_entry(&mut self, now: Now, index: u64, out: &mut Output) {
        let Some(task) = self.repair.entries.get_mut(&index) else { return };
        task.until_ns = now.monotonic_ns + ANSWER_NS;
        let term = task.term;
        if let Some(peer) = self.up.iter().find(|peer| !task.tried.contains(peer)).copied() {
            task.tried.insert(peer);
            return self.send(peer, &PeerMessage::EntryAsk { index, term }, out);
        }
        task.tried.clear();
        task.rounds += 1;
        if task.rounds >= ROUNDS {
            self.repair.entries.remove(&index);
            self.give_up_entry(index, out);
        }
    }

    /// Nobody has the entry: if the checkpoint has its effect, followers are better off with a snapshot.
    fn give_up_entry(&mut self, index: u64, out: &mut Output) {
        let text = format!("entry {index} is damaged and no peer has it");
        out.notices.push(Notice::Damage { text });
        let settled = self.log.checkpoint_id().is_some_and(|id| index <= id.index);
        if settled && index <= self.snapshots.oldest_needed(self.backlog.applied()) {
            self.log.truncate_to(index);
            self.consensus.truncate(index);
        }
    }

    pub(crate) fn on_entry_answer(
        &mut self,
        now: Now,
        index: u64,
        term: u64,
        entry: Option<(u8, Bytes)>,
        out: &mut Output,
    ) {
        let wanted = |task: &&mut EntryTask| task.term == term && !task.writing;
        let Some(task) = self.repair.entries.get_mut(&index).filter(wanted) else { return };
        let Some((kind, payload)) = entry else { return self.ask_for_entry(now, index, out) };
        match self.log.repair_entry(Entry { term, index, kind, payload }) {
            Ok(job) => {
                task.writing = true;
                out.background.push(Job::RepairEntry { index, job });
            }
            // Its file is busy: it is met again when it is read again.
            Err(JobError::Busy(_)) => drop(self.repair.entries.remove(&index)),
            Err(_) => self.ask_for_entry(now, index, out),
        }
    }

    /// The entry was written again.
    pub(crate) fn on_entry_repaired(
        &mut self,
        index: u64,
        result: Result<(), JobError>,
        out: &mut Output,
    ) -> Result<(), Fatal> {
        self.repair.entries.remove(&index);
        match result {
            Ok(()) => {
                out.notices.push(Notice::Repaired { text: format!("entry {index}, with a peer's copy") })
            }
            Err(JobError::Fatal(fatal)) => return Err(fatal.into()),
            Err(error) => {
                out.notices
                    .push(Notice::Failure { text: format!("entry {index} cannot be repaired: {error}") });
            }
        }
        Ok(())
    }
}
