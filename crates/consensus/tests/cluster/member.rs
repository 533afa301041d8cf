//! One member of the test cluster: a node, its disk, the writes under way, and what it applied.

use std::collections::VecDeque;

use consensus::{
    ConfChange, ConfState, Config, Consensus, Entry, EntryKind, HardState, SnapshotMeta, Start, Write,
};

pub(crate) const ELECTION_TICK: usize = 10;

/// What survives a crash.
#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) hard_state: HardState,
    pub(crate) previous: (u64, u64),
    pub(crate) entries: Vec<Entry>,
    pub(crate) checkpoint: SnapshotMeta,
}

impl Disk {
    pub(crate) fn from_start(start: &Start) -> Disk {
        let checkpoint = SnapshotMeta {
            index: start.previous.0,
            term: start.previous.1,
            conf_state: start.conf_state.clone(),
        };
        Disk { hard_state: start.hard_state, previous: start.previous, entries: Vec::new(), checkpoint }
    }

    pub(crate) fn last(&self) -> u64 {
        self.previous.0 + self.entries.len() as u64
    }

    pub(crate) fn entry(&self, index: u64) -> Option<&Entry> {
        self.entries.get(index.checked_sub(self.previous.0 + 1)? as usize)
    }

    pub(crate) fn write(&mut self, write: &Write) {
        if let Some(meta) = &write.snapshot {
            self.previous = (meta.index, meta.term);
            self.entries.clear();
            self.checkpoint = meta.clone();
        }
        if let Some(first) = write.entries.first() {
            assert!(first.index > self.previous.0 && first.index <= self.last() + 1, "a gap in the log");
            self.entries.truncate((first.index - self.previous.0 - 1) as usize);
            self.entries.extend(write.entries.iter().cloned());
        }
        if let Some(hard_state) = write.hard_state {
            self.hard_state = hard_state;
        }
    }

    pub(crate) fn truncate(&mut self, index: u64) {
        let term = self.entry(index).expect("only held entries are truncated").term;
        self.entries.drain(..(index - self.previous.0) as usize);
        self.previous = (index, term);
    }

    /// What the next run starts from: replays to the newest applied index, keeping few entries in memory.
    fn start(&self) -> Start {
        let applied = self.hard_state.commit.max(self.checkpoint.index);
        let mut conf_state = self.checkpoint.conf_state.clone();
        for index in self.checkpoint.index + 1..=applied {
            let entry = self.entry(index).expect("the log reaches back to the checkpoint");
            if entry.kind == EntryKind::ConfChange {
                let change = ConfChange::decode(entry.payload.clone()).unwrap();
                conf_state = conf_state.after(&change).unwrap_or(conf_state);
            }
        }
        let recent = self.entries.iter().filter(|entry| entry.index > applied).cloned().collect();
        Start {
            hard_state: self.hard_state,
            conf_state,
            applied,
            previous: self.previous,
            terms: self.entries.iter().map(|entry| (entry.index, entry.term)).collect(),
            recent,
        }
    }
}

pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) disk: Disk,
    /// `None` while it is down.
    pub(crate) node: Option<Consensus>,
    pub(crate) writes: VecDeque<Write>,
    pub(crate) applied: u64,
    pub(crate) conf_state: ConfState,
    pub(crate) is_disk_stalled: bool,
}

impl Member {
    pub(crate) fn new(id: u64, start: &Start, seed: u64) -> Member {
        let mut member = Member {
            id,
            disk: Disk::from_start(start),
            node: None,
            writes: VecDeque::new(),
            applied: 0,
            conf_state: ConfState::default(),
            is_disk_stalled: false,
        };
        member.start(seed);
        member
    }

    pub(crate) fn start(&mut self, seed: u64) {
        assert!(self.node.is_none());
        let start = self.disk.start();
        self.applied = start.applied;
        self.conf_state = start.conf_state.clone();
        let config = Config {
            id: self.id,
            election_tick: ELECTION_TICK,
            heartbeat_tick: 2,
            pre_vote: true,
            check_quorum: true,
            seed,
        };
        self.node = Some(Consensus::new(&config, start).expect("a sound disk starts"));
    }

    /// Loses what is not written; `written` of the writes under way made it to disk unnoticed.
    pub(crate) fn crash(&mut self, written: usize) {
        for write in self.writes.drain(..).take(written) {
            self.disk.write(&write);
        }
        self.node = None;
        self.is_disk_stalled = false;
    }

    /// Takes a checkpoint of what is applied.
    pub(crate) fn checkpoint(&mut self) {
        if let Some(entry) = self.disk.entry(self.applied) {
            self.disk.checkpoint =
                SnapshotMeta { index: entry.index, term: entry.term, conf_state: self.conf_state.clone() };
        }
    }
}
