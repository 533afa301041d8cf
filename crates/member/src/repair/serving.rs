//! Reads for peers whose disk has lost a value or an entry, done by a background job.

use std::sync::Arc;

use consensus::Consensus;
use log::Log;
use store::{Reader, Revision, Values};

use crate::io::Output;
use crate::jobs::{Job, PeerRead};
use crate::peer_message::{PeerMessage, ValueName};

/// Reads for peers at a time. Beyond it the answer is that this member does not have it, and the peer asks the next.
pub(super) const MAX_RUNNING_READS: usize = 64;

/// The reads under way.
#[derive(Debug, Default)]
pub(crate) struct RepairServer {
    running: usize,
}

impl RepairServer {
    /// A peer's copy of a value is damaged.
    pub(crate) fn value_asked(
        &mut self,
        from: u64,
        name: ValueName,
        log: &Log,
        reader: &Reader,
        values: &Arc<impl Values + 'static>,
        out: &mut Output,
    ) {
        // The pin comes first: it keeps the file of whatever the index shows.
        let pin = log.reader().pin();
        let revision = Revision { main: name.main, sub: name.sub };
        let value = reader.reference(&name.key, revision);
        let value = value.filter(|value| value.len == name.len && value.checksum == name.checksum);
        match value.filter(|_| self.running < MAX_RUNNING_READS) {
            Some(value) => {
                self.running += 1;
                let read = PeerRead::Value { name, value, values: values.clone(), pin };
                out.background.push(Job::ReadForPeer { to: from, read });
            }
            None => out.send(from, &PeerMessage::ValueAnswer(name, None)),
        }
    }

    /// A peer's copy of an entry is damaged. There is one entry of that index and term, whether it is committed or not.
    pub(crate) fn entry_asked(&mut self, from: u64, (index, term): (u64, u64), log: &Log, out: &mut Output) {
        let has_it = log.term(index) == Some(term);
        let job = match has_it && self.running < MAX_RUNNING_READS {
            true => log.read_entries(index, index + 1, 0).ok(),
            false => None,
        };
        match job {
            Some(job) => {
                self.running += 1;
                let read = PeerRead::Entry { index, term, job };
                out.background.push(Job::ReadForPeer { to: from, read });
            }
            None => out.send(from, &PeerMessage::EntryAnswer { index, term, entry: None }),
        }
    }

    /// A read is done.
    pub(crate) fn read_done(&mut self, to: u64, answer: &PeerMessage, out: &mut Output) {
        assert!(self.running > 0, "a read for a peer ends once");
        self.running -= 1;
        out.send(to, answer);
    }
}

/// Reads entries for followers that lag behind the entries in memory.
pub(crate) fn fetch_entries(
    fetches: Vec<consensus::Fetch>,
    log: &Log,
    consensus: &mut Consensus,
    out: &mut Output,
) {
    for fetch in fetches {
        match log.read_entries(fetch.from, fetch.to, fetch.max_bytes) {
            Ok(job) => out.background.push(Job::ReadEntries { from: fetch.from, single: false, job }),
            Err(_) => consensus.fetch_failed(fetch.from),
        }
    }
}
