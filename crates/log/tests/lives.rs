//! A small store uses a log through crashes, checkpoints, relocation and freeing of files. Every value that it
//! references can always be read, and a pin keeps the values that were referenced when it was taken.

mod rig;

use std::collections::BTreeMap;

use bytes::Bytes;
use log::{
    CheckpointKind, CheckpointWriter, Entry, Fault, HardState, Log, LogId, MemDisk, Opened, Operation,
    Options, Pin, Reader, StoredValue, WriteJob, file_of,
};
use proptest::prelude::*;
use proptest::test_runner::Config;
use rig::{create, make_room, no_clock, open, options};

type Values = BTreeMap<u8, StoredValue>;
type Contents = BTreeMap<u8, Bytes>;

#[derive(Debug, Clone)]
enum Step {
    /// Sets a key to a value of this length.
    Put {
        key: u8,
        len: usize,
    },
    Delete {
        key: u8,
    },
    Sync,
    Seal,
    Checkpoint(CheckpointKind),
    Relocate,
    Background,
    Pin,
    Unpin,
    /// A read call fails; the bytes are intact.
    ReadFails,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(CheckpointKind::Base), Just(CheckpointKind::Delta)];
    prop_oneof![
        12 => (0..6_u8, 0..1200_usize).prop_map(|(key, len)| Step::Put { key, len }),
        3 => (0..6_u8).prop_map(|key| Step::Delete { key }),
        6 => Just(Step::Sync),
        1 => Just(Step::Seal),
        4 => kind.prop_map(Step::Checkpoint),
        3 => Just(Step::Relocate),
        5 => Just(Step::Background),
        1 => Just(Step::Pin),
        1 => Just(Step::Unpin),
        1 => Just(Step::ReadFails),
    ]
}

/// What a key holds after each index: the truth that survives every crash.
#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
}

impl Model {
    /// A payload is a key, and a value unless it deletes.
    fn contents(&self, index: u64) -> Contents {
        let mut contents = Contents::new();
        for entry in &self.entries[..index as usize] {
            match entry.kind {
                0 => contents.insert(entry.payload[0], entry.payload.slice(1..)),
                _ => contents.remove(&entry.payload[0]),
            };
        }
        contents
    }
}

struct Store {
    disk: MemDisk,
    log: Log,
    reader: Reader,
    values: Values,
    applied: u64,
    /// Keys changed since the last checkpoint.
    changed: Vec<u8>,
    unwritten: Vec<WriteJob>,
    unapplied: Vec<(Entry, u64)>,
    pinned: Option<(Pin, Values, u64)>,
    /// A checkpoint that has been begun.
    checkpoint: Option<CheckpointWriter>,
    /// Copied values whose references are not switched yet: key, old and new value.
    copied: Vec<(u8, StoredValue, StoredValue)>,
    copies: Vec<u32>,
}

fn settings(separate_wal: bool) -> Options {
    let wal_dir = separate_wal.then(|| "/wal".into());
    Options { wal_dir, wal_dir_bytes: 8000, ..options() }
}

fn stored(entry: &Entry, address: u64) -> StoredValue {
    let value = &entry.payload[1..];
    StoredValue { address: address + 1, len: value.len() as u32, checksum: crc32c::crc32c(value) }
}

impl Store {
    fn start(disk: MemDisk, options: &Options, model: &mut Model) -> Store {
        let Opened { log, reader, recovered } = open(&disk, options).expect("a crash is not corruption");
        assert!(recovered.warnings.len() < 3);
        let mut store = Store {
            disk,
            log,
            reader,
            values: Values::new(),
            applied: 0,
            changed: Vec::new(),
            unwritten: Vec::new(),
            unapplied: Vec::new(),
            pinned: None,
            checkpoint: None,
            copied: Vec::new(),
            copies: Vec::new(),
        };
        if let Some(checkpoint) = &recovered.checkpoint {
            for chunk in checkpoint.files().expect("an intact checkpoint").into_iter().flatten() {
                store.load(&chunk.expect("an intact checkpoint"));
            }
            store.applied = checkpoint.id.index;
        }
        for item in store.log.entries_from(store.applied + 1) {
            let (entry, address) = item.expect("an intact entry");
            store.apply(&entry, address);
        }
        store.log.loaded().expect("every file is there");
        model.entries.truncate(recovered.last_index as usize);
        store.check(model);
        store
    }

    fn set(&mut self, key: u8, value: Option<StoredValue>) {
        if let Some(value) = value {
            self.reader.retain(value.address, value.len);
        }
        let before = match value {
            Some(value) => self.values.insert(key, value),
            None => self.values.remove(&key),
        };
        if let Some(before) = before {
            self.reader.release(before.address, before.len);
        }
    }

    fn apply(&mut self, entry: &Entry, address: u64) {
        assert_eq!(entry.index, self.applied + 1);
        let key = entry.payload[0];
        self.set(key, (entry.kind == 0).then(|| stored(entry, address)));
        self.changed.push(key);
        self.applied = entry.index;
    }

    fn load(&mut self, chunk: &[u8]) {
        for item in chunk.chunks(17) {
            let word = |at: usize| u32::from_le_bytes(item[at..at + 4].try_into().expect("four bytes"));
            let address = u64::from(word(1)) | u64::from(word(5)) << 32;
            let value = (address > 0).then(|| StoredValue { address, len: word(9), checksum: word(13) });
            self.set(item[0], value);
        }
    }

    fn chunk(&self, keys: impl Iterator<Item = u8>) -> Vec<u8> {
        let mut chunk = Vec::new();
        for key in keys {
            let value =
                self.values.get(&key).copied().unwrap_or(StoredValue { address: 0, len: 0, checksum: 0 });
            chunk.push(key);
            chunk.extend(value.address.to_le_bytes());
            chunk.extend(value.len.to_le_bytes());
            chunk.extend(value.checksum.to_le_bytes());
        }
        chunk
    }

    /// Appends an entry; false if there is no room and none can be made.
    fn append(&mut self, model: &mut Model, kind: u8, payload: Vec<u8>) -> bool {
        let index = model.entries.len() as u64 + 1;
        let entry = Entry { term: 1, index, kind, payload: payload.into() };
        let state = HardState { term: 1, vote: 1, commit: self.applied };
        if !make_room(&mut self.log, Some(state), std::slice::from_ref(&entry)) {
            return false;
        }
        model.entries.push(entry.clone());
        let append = self.log.append(Some(state), vec![entry.clone()]);
        self.unwritten.push(append.job);
        self.unapplied.push((entry, append.addresses[0]));
        true
    }

    fn sync(&mut self) -> bool {
        let jobs = std::mem::take(&mut self.unwritten);
        if self.log.complete(WriteJob::run_all(jobs, &no_clock)).is_err() {
            return false;
        }
        for (entry, address) in std::mem::take(&mut self.unapplied) {
            self.apply(&entry, address);
        }
        true
    }

    /// Begins a checkpoint, or finishes the one that has been begun.
    fn checkpoint(&mut self, kind: CheckpointKind) {
        let Some(writer) = self.checkpoint.take() else {
            let kind = if self.log.checkpoint_id().is_none() { CheckpointKind::Base } else { kind };
            if self.applied == 0 {
                return;
            }
            let chunk = match kind {
                CheckpointKind::Base => self.chunk(0..6),
                CheckpointKind::Delta => self.chunk(self.changed.iter().copied()),
            };
            self.changed.clear();
            let mut writer = self.log.begin_checkpoint(kind, LogId { index: self.applied, term: 1 });
            writer.write(&chunk).expect("small chunks wait in memory");
            self.checkpoint = Some(writer);
            return;
        };
        match self.log.checkpoint_done(writer.finish()) {
            Ok(()) => {
                let index = self.log.checkpoint_id().expect("the one just written").index;
                self.log.truncate_to(index);
            }
            // What the lost checkpoint held must be in the next.
            Err(_) => self.changed.extend(0..6),
        }
    }

    /// Copies values out of files that hold little else, or switches to the copies made before.
    fn relocate(&mut self) {
        if !self.copies.is_empty() {
            for (key, old, new) in std::mem::take(&mut self.copied) {
                if self.values.get(&key) == Some(&old) {
                    self.set(key, Some(new));
                    self.changed.push(key);
                }
            }
            for file in std::mem::take(&mut self.copies) {
                self.log.relocation_switched(file);
            }
            return;
        }
        for candidate in self.log.relocation_candidates(90).into_iter().take(2) {
            let inside = self.values.iter().filter(|(_, value)| file_of(value.address) == candidate.file);
            let (keys, values): (Vec<u8>, Vec<StoredValue>) =
                inside.filter(|(_, value)| value.len > 0).unzip();
            let done = self.log.relocate(values.iter().map(|value| (*value, "tag".into())).collect()).run();
            let Ok(moved) = self.log.relocated(done) else { continue };
            for ((key, value), address) in keys.into_iter().zip(values).zip(moved.addresses) {
                if let Ok(address) = address {
                    self.copied.push((key, value, StoredValue { address, ..value }));
                }
            }
            self.copies.extend(moved.file);
        }
    }

    /// Runs a step; false once the disk has failed for good.
    fn run(&mut self, model: &mut Model, step: &Step) -> bool {
        match step {
            Step::Put { key, len } => {
                let mut payload = vec![(len % 251) as u8 ^ model.entries.len() as u8; len + 1];
                payload[0] = *key;
                return self.append(model, 0, payload);
            }
            Step::Delete { key } => return self.append(model, 1, vec![*key]),
            Step::Sync => return self.sync(),
            Step::Seal if self.log.is_seal_due() => self.unwritten.extend(self.log.seal()),
            Step::Seal => {}
            Step::Checkpoint(kind) => self.checkpoint(*kind),
            Step::Relocate => self.relocate(),
            Step::Background => {
                for _ in 0..50 {
                    let Some(job) = self.log.next_job() else { break };
                    let _ = self.log.background_done(job.run());
                }
            }
            Step::Pin => self.pinned = Some((self.reader.pin(), self.values.clone(), self.applied)),
            Step::Unpin => {
                if let Some((pin, values, applied)) = self.pinned.take() {
                    check_values(&pin, &values, &model.contents(applied));
                }
            }
            Step::ReadFails => {
                let kind = std::io::ErrorKind::Other;
                self.disk.inject(Fault { operation: Operation::Read, after: 0, kind });
            }
        }
        true
    }

    fn check(&self, model: &Model) {
        check_values(&self.reader.pin(), &self.values, &model.contents(self.applied));
        let live: u64 = self.values.values().map(|value| u64::from(value.len)).sum();
        assert_eq!(self.reader.live_bytes(), live);
    }
}

fn check_values(pin: &Pin, values: &Values, contents: &Contents) {
    assert!(values.keys().eq(contents.keys()));
    let references: Vec<StoredValue> = values.values().copied().collect();
    for (read, value) in pin.read_many(&references).into_iter().zip(contents.values()) {
        match read {
            // An injected fault may fail the single read after a failed read of a run.
            Err(log::ReadError::Io { .. }) => {}
            read => assert_eq!(read.expect("a live value"), value),
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 192, max_shrink_iters: 500, ..Config::default() })]

    #[test]
    fn live_values_survive_many_lives(
        lives in prop::collection::vec((prop::collection::vec(step(), 1..60), 0..120_u64), 1..5),
        separate_wal in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let options = settings(separate_wal);
        let mut disk = MemDisk::new();
        create(&disk, &options).expect("an empty disk takes a log");
        let mut model = Model::default();
        let mut random = seed | 1;
        for (steps, stop) in lives {
            let mut store = Store::start(disk, &options, &mut model);
            store.disk.stop_after(stop);
            for step in &steps {
                let is_running = store.run(&mut model, step);
                store.log.check_all();
                if !is_running {
                    break;
                }
            }
            let applied = store.applied;
            disk = store.disk.crash(&mut |below| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 33) % below
            });
            let mut after = Model { entries: model.entries.clone() };
            let again = Store::start(disk.clone(), &options, &mut after);
            prop_assert!(again.applied >= applied, "an acknowledged entry is lost");
            drop(again);
        }
    }
}
