//! A log on a disk in memory, with a model of what it must hold.

#![allow(dead_code, unreachable_pub, reason = "each test file is a crate of its own and uses its part")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use log::{
    BackgroundJob, CheckpointKind, Disk, Entry, HardState, Identity, Log, LogId, MemDisk, OpenError, Opened,
    Options, Reader, RecordSizes, WriteJob,
};

pub const IDENTITY: Identity = Identity { cluster_id: 0xc1, member_id: 0xa2, incarnation: 0x1f };

pub fn no_clock() -> Duration {
    Duration::ZERO
}

pub fn options() -> Options {
    Options { segment_bytes: 4096, tail_bytes: 2048, open_files: 3, ..Options::new("/data") }
}

/// Makes segments ready until these records fit; false if the disk fails.
pub fn make_room(log: &mut Log, hard_state: Option<HardState>, entries: &[Entry]) -> bool {
    let mut sizes = RecordSizes::default();
    hard_state.iter().for_each(|_| sizes.add_hard_state());
    entries.iter().for_each(|entry| sizes.add_entry(entry.payload.len() as u64));
    // Each job makes progress; the limit is for a disk that fails all of them.
    for _ in 0..100 {
        if log.make_room(&sizes, None) {
            return true;
        }
        let Some(job) = log.next_job() else { return false };
        let _ = log.background_done(BackgroundJob::run(job));
    }
    false
}

/// What the log holds after some number of records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub hard_state: HardState,
    pub entries: Vec<Entry>,
}

impl State {
    fn push(&mut self, entry: &Entry) {
        self.entries.truncate(entry.index as usize - 1);
        self.entries.push(entry.clone());
    }
}

pub struct Rig {
    pub disk: MemDisk,
    pub log: Log,
    pub reader: Reader,
    /// The state after each record planned, oldest first.
    pub states: Vec<State>,
    /// How many records are known durable.
    pub durable: usize,
    pub checkpoint: LogId,
    unwritten: Vec<WriteJob>,
}

pub fn open(disk: &MemDisk, options: &Options) -> Result<Opened, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(&disk, options)
}

pub fn create(disk: &MemDisk, options: &Options) -> Result<(), OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::create(&disk, options, IDENTITY)
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(&options())
    }

    pub fn with(options: &Options) -> Rig {
        let disk = MemDisk::new();
        create(&disk, options).expect("an empty disk takes a log");
        let Opened { log, reader, .. } = open(&disk, options).expect("a new log opens");
        let states = vec![State::default()];
        Rig { disk, log, reader, states, durable: 0, checkpoint: LogId::default(), unwritten: Vec::new() }
    }

    pub fn state(&self) -> &State {
        self.states.last().expect("there is a first state")
    }

    pub fn entry(&self, index: u64, term: u64, len: usize) -> Entry {
        let payload = (0..len).map(|at| (at as u64 * 31 + index * 7 + term) as u8).collect::<Vec<u8>>();
        Entry { term, index, kind: (index % 3) as u8, payload: Bytes::from(payload) }
    }

    pub fn append(&mut self, hard_state: Option<HardState>, entries: Vec<Entry>) -> Vec<u64> {
        self.try_append(hard_state, entries).expect("segments can be made ready")
    }

    /// Appends, unless there is no room and none can be made.
    pub fn try_append(&mut self, hard_state: Option<HardState>, entries: Vec<Entry>) -> Option<Vec<u64>> {
        if !make_room(&mut self.log, hard_state, &entries) {
            return None;
        }
        let mut state = self.state().clone();
        if let Some(hard_state) = hard_state {
            state.hard_state = hard_state;
            self.states.push(state.clone());
        }
        // Replaced entries may disappear before their replacements are durable: they were never committed.
        if let Some(first) = entries.first().filter(|first| first.index as usize <= state.entries.len()) {
            state.entries.truncate(first.index as usize - 1);
            self.states.push(state.clone());
        }
        for entry in &entries {
            state.push(entry);
            self.states.push(state.clone());
        }
        let append = self.log.append(hard_state, entries);
        self.unwritten.push(append.job);
        self.log.check();
        Some(append.addresses)
    }

    pub fn seal(&mut self) {
        if self.log.is_seal_due() {
            self.unwritten.extend(self.log.seal());
        }
    }

    /// Writes and syncs what was planned; false if the disk failed.
    pub fn sync(&mut self) -> bool {
        let done = WriteJob::run_all(std::mem::take(&mut self.unwritten), &no_clock);
        let ok = self.log.complete(done).is_ok();
        if ok {
            self.durable = self.states.len() - 1;
        }
        self.log.check_all();
        ok
    }

    /// Returns the planned jobs, for the caller to run.
    pub fn take_jobs(&mut self) -> Vec<WriteJob> {
        std::mem::take(&mut self.unwritten)
    }

    pub fn background(&mut self) {
        // Each job makes progress; the limit is for a disk that fails all of them.
        for _ in 0..100 {
            let Some(job) = self.log.next_job() else { return };
            let _ = self.log.background_done(BackgroundJob::run(job));
            self.log.check_all();
        }
    }

    /// A checkpoint of everything durable; false if the disk failed.
    pub fn checkpoint(&mut self, kind: CheckpointKind) -> bool {
        // An applied entry is committed. It is never replaced, neither by durable entries nor by planned ones.
        let durable = &self.states[self.durable].entries;
        let kept = self.states[self.durable..].iter().map(|state| {
            state.entries.iter().zip(durable).take_while(|(planned, durable)| planned == durable).count()
        });
        let Some(applied) = kept.min().and_then(|count| count.checked_sub(1)) else { return true };
        let last = &durable[applied];
        if last.index < self.checkpoint.index {
            return true;
        }
        let id = LogId { index: last.index, term: last.term };
        let kind = if self.log.checkpoint_id().is_none() { CheckpointKind::Base } else { kind };
        let mut writer = self.log.begin_checkpoint(kind, id);
        let done = match writer.write(&id.index.to_le_bytes()) {
            Ok(()) => writer.finish(),
            Err(error) => writer.abandon(error),
        };
        let ok = self.log.checkpoint_done(done).is_ok();
        if ok {
            self.checkpoint = id;
        }
        self.log.check_all();
        ok
    }

    /// Asserts that a recovered log holds everything durable, and of the rest a prefix.
    pub fn check(&self, recovered: Opened) {
        let Opened { log, recovered, .. } = recovered;
        log.check_all();
        let found = found(&log, recovered.hard_state);
        let first = recovered.first_index;
        assert!(first <= self.checkpoint_floor(&recovered) + 1, "entries after the checkpoint are missing");
        let possible = self.states[self.durable..].iter().any(|state| matches(state, &found, first));
        let summary = |state: &State| {
            let entries: Vec<_> = state.entries.iter().map(|entry| (entry.index, entry.term)).collect();
            format!("{:?} {entries:?}", state.hard_state)
        };
        let durable = summary(&self.states[self.durable]);
        assert!(possible, "recovered {} from {first}, durable {durable}", summary(&found));
    }

    fn checkpoint_floor(&self, recovered: &log::Recovered) -> u64 {
        let floor = recovered.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.id.index);
        assert!(floor >= self.checkpoint.index, "a durable checkpoint is lost");
        let files = |checkpoint: &log::Checkpoint| checkpoint.files().expect("its files are there");
        let chunks = recovered.checkpoint.iter().flat_map(files).flatten();
        let last = chunks.map(|chunk| chunk.expect("a durable checkpoint is readable")).last();
        if let Some(chunk) = last {
            assert_eq!(chunk, floor.to_le_bytes()[..]);
        }
        floor
    }
}

/// Everything in a log.
pub fn found(log: &Log, hard_state: HardState) -> State {
    let entries = log.entries_from(0).map(|item| item.expect("an intact entry").0).collect();
    State { hard_state, entries }
}

fn matches(state: &State, found: &State, first: u64) -> bool {
    let entries = state.entries.get(first as usize - 1..).unwrap_or_default();
    let (hard, soft) = (state.hard_state, found.hard_state);
    entries == found.entries && hard.term <= soft.term && (hard.vote == soft.vote || hard.term < soft.term)
}
