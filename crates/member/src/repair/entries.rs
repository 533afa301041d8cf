//! Damaged log entries, found when a follower that lags wants them.
//!
//! An entry is named by (index, term) and written again in its place. When no peer has it, the log before it is given
//! up, if the checkpoint has its effect: the follower then gets a snapshot.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use log::{Entry, JobError, Log};

use super::{ANSWER_NS, MAX_ROUNDS};
use crate::io::{MemberFatal, Notice, Output};
use crate::jobs::Job;
use crate::peer_message::PeerMessage;

/// One entry that peers are asked for.
struct EntryTask {
    term: u64,
    /// Peers asked in this round.
    asked: BTreeSet<u64>,
    rounds: u32,
    /// When the peer asked last has had its time.
    until_ns: u64,
    /// Whether a job writes it.
    is_written: bool,
    /// Whether its bytes are known to differ from what was written. Otherwise reading it failed.
    is_damaged: bool,
}

/// The entries under repair, by index.
#[derive(Default)]
pub(crate) struct EntryRepairs {
    tasks: BTreeMap<u64, EntryTask>,
    /// Indexes and terms of the entries that were reported and are not repaired, and whether as damaged. Only of
    /// entries that the log retains.
    reported: BTreeSet<(u64, u64, bool)>,
}

impl EntryRepairs {
    /// The number of entries under repair.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// When the next peer is asked. Nothing is due for an entry that a job writes.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.tasks.values().filter(|task| !task.is_written).map(|task| task.until_ns).min()
    }

    /// The entry at this index is damaged, or reading it failed. Reports that with `text` if it is news: an entry that
    /// cannot be repaired is found again and again.
    pub(crate) fn begin(&mut self, index: u64, is_damaged: bool, text: String, log: &Log, out: &mut Output) {
        let Some(term) = log.term(index) else { return };
        let task =
            EntryTask { term, asked: BTreeSet::new(), rounds: 0, until_ns: 0, is_written: false, is_damaged };
        self.tasks.entry(index).or_insert(task).is_damaged |= is_damaged;
        self.reported = self.reported.split_off(&(log.first_index(), 0, false));
        if self.reported.insert((index, term, is_damaged)) {
            out.notices.push(if is_damaged { Notice::Damage { text } } else { Notice::Failure { text } });
        }
    }

    /// Asks the next peer for each entry whose peer did not answer. Returns the entries that no peer has.
    pub(crate) fn ask_late(&mut self, now_ns: u64, connected: &BTreeSet<u64>, out: &mut Output) -> Vec<u64> {
        let late = self.tasks.iter().filter(|(_, task)| !task.is_written && now_ns >= task.until_ns);
        let late: Vec<u64> = late.map(|(index, _)| *index).collect();
        late.into_iter().filter(|index| !self.ask(now_ns, *index, connected, out)).collect()
    }

    /// Asks the next peer. Returns false when the entry is given up.
    fn ask(&mut self, now_ns: u64, index: u64, connected: &BTreeSet<u64>, out: &mut Output) -> bool {
        let Some(task) = self.tasks.get_mut(&index) else { return true };
        task.until_ns = now_ns + ANSWER_NS;
        let term = task.term;
        if let Some(peer) = connected.iter().find(|peer| !task.asked.contains(peer)).copied() {
            task.asked.insert(peer);
            out.send(peer, &PeerMessage::EntryQuestion { index, term });
            return true;
        }
        task.asked.clear();
        task.rounds += 1;
        if task.rounds < MAX_ROUNDS {
            return true;
        }
        self.tasks.remove(&index);
        let text = format!("entry {index} is damaged or cannot be read, and no peer has it");
        out.notices.push(Notice::Failure { text });
        false
    }

    /// The peer `from` answered. Returns false when the entry is given up. Unlike a value, an entry cannot be compared
    /// with a checksum of this member's own, so only a peer that was asked is trusted.
    pub(crate) fn answered(
        &mut self,
        now_ns: u64,
        from: u64,
        entry: Result<Entry, (u64, u64)>,
        log: &Log,
        connected: &BTreeSet<u64>,
        out: &mut Output,
    ) -> bool {
        let (index, term) = entry.as_ref().map_or_else(|missing| *missing, |entry| (entry.index, entry.term));
        let is_wanted =
            |task: &&mut EntryTask| task.term == term && !task.is_written && task.asked.contains(&from);
        let Some(task) = self.tasks.get_mut(&index).filter(is_wanted) else { return true };
        let Ok(entry) = entry else { return self.ask(now_ns, index, connected, out) };
        match log.repair_entry(entry) {
            Ok(job) => {
                task.is_written = true;
                out.background.push(Job::RepairEntry { index, job });
                true
            }
            Err(JobError::Busy(_)) => {
                // Its file is being written: the damage is found again when the entry is read again.
                self.tasks.remove(&index);
                true
            }
            Err(_) => self.ask(now_ns, index, connected, out),
        }
    }

    /// The entry was written again, or could not be.
    ///
    /// # Errors
    /// The log can no longer be trusted.
    pub(crate) fn written(
        &mut self,
        index: u64,
        result: Result<(), JobError>,
        out: &mut Output,
    ) -> Result<(), MemberFatal> {
        let task = self.tasks.remove(&index);
        match (result, task) {
            (Ok(()), Some(task)) => {
                for is_damaged in [false, true] {
                    self.reported.remove(&(index, task.term, is_damaged));
                }
                if task.is_damaged {
                    let text = format!("entry {index}, with a peer's copy");
                    out.notices.push(Notice::Repaired { text });
                }
            }
            (Ok(()), None) => {}
            (Err(JobError::Fatal(fatal)), _) => return Err(fatal.into()),
            (Err(error), _) => {
                let text = format!("entry {index} cannot be repaired: {error}");
                out.notices.push(Notice::Failure { text });
            }
        }
        Ok(())
    }
}

/// The entry that an answer holds, or the (index, term) that the peer does not have.
pub(crate) fn from_answer(index: u64, term: u64, entry: Option<(u8, Bytes)>) -> Result<Entry, (u64, u64)> {
    entry.map(|(kind, payload)| Entry { term, index, kind, payload }).ok_or((index, term))
}
