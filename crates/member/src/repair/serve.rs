//! Helping others: values and entries that a peer's disk has lost, read off the deciding thread.

use bytes::Bytes;
use log::ReadJob;
use store::Revision;

use crate::background::{Job, PeerRead};
use crate::io::Output;
use crate::member::Member;
use crate::peer_message::{PeerMessage, ValueName};

/// Reads for peers at a time; beyond it the answer is that we have nothing, and the peer asks the next one.
const MAX_SERVING: usize = 64;

impl Member {
    pub(crate) fn on_value_ask(&mut self, from: u64, name: ValueName, out: &mut Output) {
        // The pin comes first: it keeps what the index shows.
        let pin = self.log.reader().pin();
        let revision = Revision { main: name.main, sub: name.sub };
        let value = self.reader.reference(&name.key, revision);
        let value = value.filter(|value| value.len == name.len && value.checksum == name.checksum);
        match value.filter(|_| self.repair.serving < MAX_SERVING) {
            Some(value) => {
                self.repair.serving += 1;
                let read = PeerRead::Value { name, value, values: self.values.clone(), pin };
                out.background.push(Job::ReadForPeer { to: from, read });
            }
            None => self.send(from, &PeerMessage::ValueAnswer(name, None), out),
        }
    }

    pub(crate) fn on_entry_ask(&mut self, from: u64, index: u64, term: u64, out: &mut Output) {
        let is_ours = index <= self.backlog.applied() && self.log.term(index) == Some(term);
        let job: Option<ReadJob> = match is_ours && self.repair.serving < MAX_SERVING {
            true => self.log.read_entries(index, index + 1, 0).ok(),
            false => None,
        };
        match job {
            Some(job) => {
                self.repair.serving += 1;
                out.background
                    .push(Job::ReadForPeer { to: from, read: PeerRead::Entry { index, term, job } });
            }
            None => self.send(from, &PeerMessage::EntryAnswer { index, term, entry: None }, out),
        }
    }

    /// A read for a peer is done.
    pub(crate) fn on_read_for_peer(&mut self, to: u64, answer: &PeerMessage, out: &mut Output) {
        self.repair.serving -= 1;
        self.send(to, answer, out);
    }
}

impl PeerRead {
    /// Reads; what is damaged here too is answered as if it were not there.
    pub(crate) fn run(self) -> PeerMessage {
        match self {
            PeerRead::Value { name, value, values, pin } => {
                let read: Option<Bytes> = values.read(&value).ok();
                drop(pin);
                PeerMessage::ValueAnswer(name, read)
            }
            PeerRead::Entry { index, term, job } => {
                let entry = job.run().ok().and_then(|entries| entries.into_iter().next());
                PeerMessage::EntryAnswer {
                    index,
                    term,
                    entry: entry.map(|entry| (entry.kind, entry.payload)),
                }
            }
        }
    }
}
