//! Damaged entries that a start must replay: fetched from peers before the member takes part in anything.
//!
//! The log knows index and term of these entries, and the checksum of each, but not their bodies (RFC 0022). This
//! member has acknowledged them, so it may neither forget them nor vote as if it had. Until each of them is written
//! again it does nothing but ask its peers, and answer theirs:
//!
//! ```text
//! log      checkpoint 90 | 91 ... 107 | 108 damaged | 109 ... 120       commit 115
//! start    applied 107; no consensus: for its peers it is down
//! ask      2: EntryQuestion(108, term 4)   no answer, or it has none: ask 3
//! 3        EntryAnswer(108, term 4, ..)    the checksum is that of the record's head: written in its place
//! go on    108 to 115 are replayed, consensus starts with the whole log, as after any restart
//! ```
//!
//! A peer that does not have an entry may get it later, for example when it has a leader. If all of them say for a
//! while that they do not have it, it is lost, and the process stops with an error. A peer that does not answer is
//! waited for: it may have the only copy. Once a minute a notice names the peers that this member waits for: only
//! operators know whether they are gone for good. Then the members that are left remove this one, which ends its
//! process, and add it again without data.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use consensus::{ConfState, Consensus};
use log::{Entry, JobError, Log, LogId};
use store::Store;

use super::ANSWER_NS;
use crate::apply::BatchBeingApplied;
use crate::config::MemberConfig;
use crate::io::{MemberFatal, Notice, Output};
use crate::jobs::Job;
use crate::peer_message::PeerMessage;

/// Entries asked for at the same time; a peer answers as many.
pub(super) const MAX_ASKED: usize = 16;

/// Time between two rounds over all peers, in nanoseconds, if none of them has the entry.
pub(super) const ROUND_NS: u64 = 500_000_000;

/// Rounds in which all peers say that they do not have an entry until it counts as lost: five seconds, in which a
/// cluster that starts as a whole elects a leader and commits.
pub(super) const MAX_LOST_ROUNDS: u32 = 10;

/// Time between two notices about peers that this member waits for, in nanoseconds.
const NOTICE_NS: u64 = 60_000_000_000;

/// Replays the rest of a log that is whole again, and starts consensus.
pub(crate) type FinishStart =
    fn(&mut Log, &mut Store, (LogId, ConfState), &MemberConfig) -> Result<FinishedStart, String>;

/// What a member goes on with.
pub(crate) struct FinishedStart {
    pub(crate) consensus: Consensus,
    /// The last entry that was replayed.
    pub(crate) applied: LogId,
    /// The entry after it, if it is applied in part, because it compares a damaged value.
    pub(crate) begun: Option<BatchBeingApplied>,
    /// What the operator should read.
    pub(crate) warning: Option<String>,
}

/// A start that is not finished.
pub(crate) struct UnfinishedStart {
    /// What is missing of the log.
    pub(crate) recovery: LogRecovery,
    /// The configuration after the last entry that was replayed.
    pub(crate) conf_state: ConfState,
    /// What follows when nothing is missing any more.
    pub(crate) finish: FinishStart,
}

/// One entry that is damaged.
struct MissingEntry {
    term: u64,
    /// The peer that was asked last.
    asked: u64,
    /// When the next peer is asked.
    until_ns: u64,
    /// Peers that do not have it, in this round.
    lacking: BTreeSet<u64>,
    /// Rounds in which no peer had it.
    rounds: u32,
    /// Whether a job writes it.
    is_written: bool,
}

/// See the module.
pub(crate) struct LogRecovery {
    missing: BTreeMap<u64, MissingEntry>,
    /// The other members.
    peers: BTreeSet<u64>,
    /// When the next notice names the peers that do not answer; set when it asks first.
    notice_at_ns: Option<u64>,
}

impl LogRecovery {
    /// These entries are damaged; `peers` are the other members.
    pub(crate) fn new(damaged: &[LogId], peers: BTreeSet<u64>) -> LogRecovery {
        let missing = |id: &LogId| MissingEntry {
            term: id.term,
            asked: 0,
            until_ns: 0,
            lacking: BTreeSet::new(),
            rounds: 0,
            is_written: false,
        };
        LogRecovery {
            missing: damaged.iter().map(|id| (id.index, missing(id))).collect(),
            peers,
            notice_at_ns: None,
        }
    }

    /// Whether all entries are written again.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// When the next peer is to be asked.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let asked = self.missing.values().filter(|entry| !entry.is_written).take(MAX_ASKED);
        asked.map(|entry| entry.until_ns).min()
    }

    /// Asks the next peer for each of the first entries whose peer did not answer.
    ///
    /// # Errors
    /// No member has an entry.
    pub(crate) fn ask(
        &mut self,
        now_ns: u64,
        connected: &BTreeSet<u64>,
        out: &mut Output,
    ) -> Result<(), MemberFatal> {
        self.note_silent_peers(now_ns, out);
        let waiting = self.missing.iter_mut().filter(|(_, entry)| !entry.is_written).take(MAX_ASKED);
        for (index, entry) in waiting.filter(|(_, entry)| entry.until_ns <= now_ns) {
            if self.peers.is_subset(&entry.lacking) {
                entry.rounds += 1;
                entry.lacking.clear();
                if entry.rounds == 1 {
                    let text = format!("no peer has entry {index}; retrying");
                    out.notices.push(Notice::Failure { text });
                }
                if entry.rounds == MAX_LOST_ROUNDS {
                    return Err(MemberFatal::LostEntry { index: *index });
                }
                entry.until_ns = now_ns + ROUND_NS;
                continue;
            }
            entry.until_ns = now_ns + ANSWER_NS;
            let may_have = || connected.iter().filter(|peer| !entry.lacking.contains(peer)).copied();
            let next = may_have().find(|peer| *peer > entry.asked).or_else(|| may_have().next());
            if let Some(peer) = next {
                entry.asked = peer;
                out.send(peer, &PeerMessage::EntryQuestion { index: *index, term: entry.term });
            }
        }
        Ok(())
    }

    /// Tells operators now and then which peers have not said whether they have the first entry.
    fn note_silent_peers(&mut self, now_ns: u64, out: &mut Output) {
        let Some((index, entry)) = self.missing.iter().find(|(_, entry)| !entry.is_written) else { return };
        if now_ns < *self.notice_at_ns.get_or_insert(now_ns + NOTICE_NS) {
            return;
        }
        self.notice_at_ns = Some(now_ns + NOTICE_NS);
        let silent: Vec<String> = self.peers.difference(&entry.lacking).map(|id| format!("{id:x}")).collect();
        let text = format!(
            "this member does not take part yet: entry {index} of its log is damaged, and it waits for members that \
             may have a copy and do not answer ({}); if they are gone for good, remove this member from the cluster \
             and add it again with an empty data directory",
            silent.join(", ")
        );
        out.notices.push(Notice::Failure { text });
    }

    /// The peer `from` answered with an entry, or that it does not have it.
    pub(crate) fn answered(
        &mut self,
        from: u64,
        (index, term): (u64, u64),
        answer: Option<(u8, Bytes)>,
        log: &Log,
        out: &mut Output,
    ) {
        let is_asked = |entry: &&mut MissingEntry| entry.term == term && !entry.is_written;
        let Some(entry) = self.missing.get_mut(&index).filter(is_asked) else { return };
        let planned = answer.map(|(kind, payload)| log.repair_entry(Entry { term, index, kind, payload }));
        match planned {
            Some(Ok(job)) => {
                entry.is_written = true;
                entry.asked = from;
                out.background.push(Job::RepairEntry { index, job });
            }
            // Bytes of another length are not that entry.
            Some(Err(_)) | None => {
                entry.lacking.insert(from);
                entry.until_ns = 0;
            }
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
        let Some(entry) = self.missing.get_mut(&index) else { return Ok(()) };
        match result {
            Ok(()) => {
                let text = format!("entry {index}, with the copy of member {:x}", entry.asked);
                self.missing.remove(&index);
                out.notices.push(Notice::Repaired { text });
            }
            Err(JobError::Fatal(fatal)) => return Err(fatal.into()),
            Err(error) => {
                let text = format!("entry {index} cannot be repaired: {error}");
                out.notices.push(Notice::Failure { text });
                entry.is_written = false;
                entry.lacking.insert(entry.asked);
                entry.until_ns = 0;
            }
        }
        Ok(())
    }
}
