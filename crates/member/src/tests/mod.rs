//! A log on a disk in memory and a store over it, for the unit tests of components that work with both.
//!
//! Entries are written, synced and applied at once, all of term 1. The first one is without commands; it stands for the
//! beginning of the cluster. Nothing stays in memory but the index, so every read of a value is one of the disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::etcdserverpb as pb;
use bytes::Bytes;
use consensus::{ConfState, Entry, EntryKind};
use log::{Disk, Identity, Log, LogId, MemDisk, Options, RecordSizes, WriteJob};
use prost::Message;
use store::{AppliedId, ClusterMember, Limits, Reader, Reference, Store, Values};

use crate::NEWEST_COMMAND_SET;
use crate::apply::replay;
use crate::conf_state;
use crate::jobs::CheckpointJob;
use crate::proposals::batch::{self, CommandKind, LogCommand, Origin};
use crate::values::LogValues;

const TERM: u64 = 1;

pub(crate) struct LogAndStore {
    pub(crate) disk: MemDisk,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) reader: Reader,
    pub(crate) values: Arc<LogValues>,
}

impl LogAndStore {
    /// A member of a cluster of `members`, with small segments.
    pub(crate) fn new(members: &[u64]) -> LogAndStore {
        LogAndStore::with_segments_of(1 << 16, members)
    }

    pub(crate) fn with_segments_of(segment_bytes: u64, members: &[u64]) -> LogAndStore {
        let disk = MemDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let options = Options { segment_bytes, tail_bytes: 0, cache_bytes: 0, ..Options::new("/data") };
        Log::create(&shared, &options, Identity { cluster_id: 7, member_id: members[0], incarnation: 9 })
            .expect("an empty disk takes a log");
        let opened = Log::open(&shared, &options).expect("a new log opens");
        let values = Arc::new(LogValues::new(opened.reader));
        let (mut store, reader) = Store::new(values.clone(), Limits::default());
        let member = |id: &u64| ClusterMember { id: *id, ..ClusterMember::default() };
        store.bootstrap(AppliedId { index: 1, term: TERM }, members.iter().map(member), NEWEST_COMMAND_SET);
        let mut made = LogAndStore { disk, log: opened.log, store, reader, values };
        made.append(EntryKind::Empty, Bytes::new());
        made.background();
        made
    }

    /// Appends and syncs an entry. Returns the address of its payload.
    fn append(&mut self, kind: EntryKind, payload: Bytes) -> u64 {
        let index = self.log.last_index() + 1;
        let mut sizes = RecordSizes::default();
        sizes.add_entry(payload.len() as u64);
        if !self.log.make_room(&sizes, None) {
            self.background();
        }
        let append = self.log.append(None, vec![log::Entry { term: TERM, index, kind: kind as u8, payload }]);
        self.write(append.job);
        append.addresses[0]
    }

    /// Runs a write job.
    pub(crate) fn write(&mut self, job: WriteJob) {
        let done = WriteJob::run_all(vec![job], &|| Duration::ZERO);
        self.log.complete(done).expect("the disk is intact");
    }

    /// Runs the background jobs of the log.
    pub(crate) fn background(&mut self) {
        while let Some(job) = self.log.next_job() {
            self.log.background_done(job.run()).expect("the disk is intact");
        }
    }

    /// Writes and applies one command.
    pub(crate) fn commit(&mut self, kind: CommandKind, request: &impl Message) {
        let origin = Origin { member: 1, run: 1 };
        let body = request.encode_to_vec().into();
        let payload = batch::encode(0, &[LogCommand { origin, sequence: 1, kind, auth: Bytes::new(), body }]);
        let address = self.append(EntryKind::Batch, payload.clone());
        let entry = Entry { term: TERM, index: self.log.last_index(), kind: EntryKind::Batch, payload };
        replay(&mut self.store, &mut ConfState::of_voters([1]), &entry, address)
            .expect("it is a command of this release");
    }

    pub(crate) fn put(&mut self, key: &str, value: impl Into<Bytes>) {
        let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), value.into());
        self.commit(CommandKind::Put, &pb::PutRequest { key, value, ..Default::default() });
    }

    /// Compacts at the newest revision, which it returns. The history stays until it is purged.
    pub(crate) fn compact(&mut self) -> i64 {
        let revision = self.reader.current_revision();
        self.commit(CommandKind::Compaction, &pb::CompactionRequest { revision, physical: false });
        revision
    }

    /// Compacts at the newest revision and purges the history.
    pub(crate) fn drop_history(&mut self) {
        self.compact();
        while !self.store.purge_step(1_000) {}
    }

    /// Ends the active segment.
    pub(crate) fn end_segment(&mut self) {
        let rolled = self.log.roll_over().expect("the next segment and the reserve are there");
        self.write(rolled.job);
        self.background();
    }

    /// Writes a base checkpoint of the applied state, forgets the entries before it, and frees what can be freed.
    pub(crate) fn checkpoint(&mut self) {
        let id = self.applied();
        let writer = self.log.begin_checkpoint(log::CheckpointKind::Base, id);
        let source = self.store.begin_checkpoint(store::CheckpointKind::Base);
        let head = conf_state::encode(&ConfState::of_voters([1]));
        let done = CheckpointJob { id, writer, head, source }.write();
        self.log.checkpoint_done(done).expect("the disk is intact");
        self.log.truncate_to(id.index);
        self.background();
    }

    pub(crate) fn applied(&self) -> LogId {
        let AppliedId { index, term } = self.reader.applied();
        LogId { index, term }
    }

    /// All retained references, in the order of keys.
    pub(crate) fn references(&self) -> Vec<Reference> {
        self.reader.live_references(|_| true, &Default::default(), usize::MAX).0
    }

    /// The newest reference of a key.
    pub(crate) fn reference(&self, key: &str) -> Reference {
        let references = self.references().into_iter();
        let newest = references.filter(|reference| reference.key == key.as_bytes());
        newest.max_by_key(|reference| reference.revision).expect("the key has a value")
    }

    /// Keys and values of all retained versions, in the order of keys.
    pub(crate) fn contents(&self) -> Vec<(Bytes, Bytes)> {
        let read = |reference: Reference| {
            let value = self.values.read(&reference.value).expect("the value is intact");
            (reference.key, value)
        };
        self.references().into_iter().map(read).collect()
    }

    /// Number of retained references into a file.
    pub(crate) fn values_in(&self, number: u32) -> usize {
        self.reader
            .live_references(|address| log::file_of(address) == number, &Default::default(), usize::MAX)
            .0
            .len()
    }

    /// Whether the disk has a file with this number that holds values.
    pub(crate) fn has_file(&self, number: u32) -> bool {
        paths(number).iter().any(|path| self.disk.exists(path).expect("the disk is intact"))
    }

    /// Damages what lies at a log address.
    pub(crate) fn damage(&self, address: u64) {
        let offset = u64::from(log::offset_of(address));
        let hit = paths(log::file_of(address)).iter().any(|path| self.disk.flip_bit(path, offset, 0).is_ok());
        assert!(hit, "there is a file to damage");
    }
}

/// Where a file with this number may be: a segment of the log, or a data segment.
fn paths(number: u32) -> [PathBuf; 2] {
    ["wal", "data"].map(|dir| {
        let suffix = if dir == "wal" { "seg" } else { "dat" };
        PathBuf::from(format!("/data/member/{dir}/{number:08x}.{suffix}"))
    })
}
