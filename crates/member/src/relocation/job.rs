//! The relocation job: finds the live values of files by what the files say they hold, and copies them.
//!
//! ```text
//! file 2a: entry 90 { put a, put b }    look-up: a @ 2a -> revision 7     b @ 2a -> none      copy a
//!          entry 91 { txn { put c } }            c @ 2a -> revisions 9, 12 (ignore_value)     copy c, once
//! file 2c: footer (d) (e)                        d @ 2c -> none          e @ 2c -> revision 3 copy e
//! ```
//!
//! Runs on a background thread while commands are applied. What it finds live may be gone when the references are
//! switched, and nothing becomes live in a file that is not written any more.

use std::collections::VecDeque;

use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;
use log::{Content, FileContents, JobError, Relocation, RelocationDone, RelocationWriter, StoredValue};
use prost::Message;
use store::{Reader, Reference};

use crate::proposals::batch::{self, CommandKind};

/// Values looked up at once. Each look-up walks all versions of each key that it asks for, so a key with millions of
/// versions would make small look-ups of a file full of its values cost more than the copies.
const MAX_LOOK_UPS: usize = 16 << 10;

/// Bytes of values held for one look-up, unless a single entry has more.
const MAX_LOOK_UP_BYTES: usize = 4 << 20;

/// Values moved by one job: what is remembered of them meanwhile stays within some megabytes.
pub(super) const MAX_JOB_VALUES: usize = 50_000;

/// Bytes of values moved by one job, unless a single one is larger.
pub(super) const MAX_JOB_BYTES: u64 = 32 << 20;

/// Where to go on in a file: its number, and the position in its contents.
pub(super) type FilePosition = (u32, u64);

/// A job that copies values so that their files can be freed.
pub struct RelocationJob {
    /// Tells the job's result from that of an earlier one.
    pub(super) id: u64,
    pub(super) work: RelocationWork,
}

pub(super) enum RelocationWork {
    /// The live values of these files, by their contents.
    Files { files: VecDeque<(u32, FileContents)>, reader: Reader, writer: RelocationWriter },
    /// Values found by a search of the index.
    Found { references: Vec<Reference>, job: Relocation },
}

/// The result of a [`RelocationJob`].
pub struct RelocatedValues {
    pub(super) id: u64,
    /// The references of the values in `done`, in their order.
    pub(super) references: Vec<Reference>,
    pub(super) done: RelocationDone,
    /// Files whose contents were read to the end.
    pub(super) emptied: Vec<u32>,
    /// Files that are damaged, so that what lives in them must be searched for.
    pub(super) unreadable: Vec<u32>,
    /// Where the next job goes on.
    pub(super) rest: Option<FilePosition>,
    /// Keys and addresses of live values that are damaged.
    pub(super) damaged: Vec<(Bytes, u64)>,
}

impl RelocationJob {
    /// Copies the values; blocks on the disk.
    pub fn run(self) -> RelocatedValues {
        let id = self.id;
        match self.work {
            RelocationWork::Found { references, job } => {
                RelocatedValues { references, ..empty(id, job.run()) }
            }
            RelocationWork::Files { files, reader, writer } => {
                let mut copy = FileCopy { reader, writer, result: Copied::default() };
                let outcome = copy.files(files);
                let FileCopy { writer, result, .. } = copy;
                let done = match outcome {
                    Ok(()) => writer.finish(),
                    Err(error) => writer.abandon(error),
                };
                let Copied { references, emptied, unreadable, rest, damaged } = result;
                RelocatedValues { references, emptied, unreadable, rest, damaged, ..empty(id, done) }
            }
        }
    }
}

fn empty(id: u64, done: RelocationDone) -> RelocatedValues {
    let (emptied, unreadable, damaged) = (Vec::new(), Vec::new(), Vec::new());
    RelocatedValues { id, references: Vec::new(), done, emptied, unreadable, rest: None, damaged }
}

#[derive(Default)]
struct Copied {
    references: Vec<Reference>,
    emptied: Vec<u32>,
    unreadable: Vec<u32>,
    rest: Option<FilePosition>,
    damaged: Vec<(Bytes, u64)>,
}

/// A copy of the live values of files, under way.
struct FileCopy {
    reader: Reader,
    writer: RelocationWriter,
    result: Copied,
}

/// Values that a file says it holds: key, log address, and the bytes if they are at hand.
#[derive(Default)]
struct Held {
    wanted: Vec<(Bytes, u64)>,
    values: Vec<Option<Bytes>>,
    bytes: usize,
}

impl FileCopy {
    fn files(&mut self, mut files: VecDeque<(u32, FileContents)>) -> Result<(), JobError> {
        while let Some((file, mut contents)) = files.pop_front() {
            loop {
                let mut held = Held::default();
                let is_readable = held.fill(&mut contents);
                let is_end = held.wanted.is_empty();
                self.copy_live(held, &contents)?;
                match is_readable {
                    Err(_) => {
                        self.result.unreadable.push(file);
                        break;
                    }
                    Ok(()) if is_end => {
                        self.result.emptied.push(file);
                        break;
                    }
                    Ok(()) if self.is_full() => {
                        self.result.rest = Some((file, contents.position()));
                        return Ok(());
                    }
                    Ok(()) => {}
                }
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.result.references.len() >= MAX_JOB_VALUES || self.writer.bytes() >= MAX_JOB_BYTES
    }

    /// Copies those of the values that are referenced.
    fn copy_live(&mut self, held: Held, contents: &FileContents) -> Result<(), JobError> {
        let found = self.reader.references_to(&held.wanted);
        let live =
            found.into_iter().zip(held.values).filter_map(|(reference, bytes)| Some((reference?, bytes)));
        let (at_hand, on_disk): (Vec<_>, Vec<_>) = live.partition(|(_, bytes)| bytes.is_some());
        for (reference, bytes) in at_hand {
            self.push(reference, bytes.unwrap_or_default())?;
        }
        let stored: Vec<StoredValue> =
            on_disk.iter().map(|(reference, _)| crate::values::stored(&reference.value)).collect();
        for (read, (reference, _)) in contents.read_many(&stored).into_iter().zip(on_disk) {
            match read {
                Ok(bytes) => self.push(reference, bytes)?,
                Err(_) => self.result.damaged.push((reference.key, reference.value.address)),
            }
        }
        Ok(())
    }

    fn push(&mut self, reference: Reference, bytes: Bytes) -> Result<(), JobError> {
        let value = &reference.value;
        if bytes.len() != value.len as usize || crc32c::crc32c(&bytes) != value.checksum {
            self.result.damaged.push((reference.key.clone(), value.address));
            return Ok(());
        }
        self.writer.push(&bytes, value.checksum, &reference.key)?;
        self.result.references.push(reference);
        Ok(())
    }
}

impl Held {
    /// Reads on until there are enough values for a look-up, or the file ends.
    fn fill(&mut self, contents: &mut FileContents) -> Result<(), log::ReadError> {
        while self.wanted.len() < MAX_LOOK_UPS && self.bytes < MAX_LOOK_UP_BYTES {
            match contents.next_part()? {
                Some(Content::Entry(entry, address)) => self.add_entry(&entry, address),
                Some(Content::Value(value, key)) => {
                    self.bytes += value.len as usize;
                    self.wanted.push((key, value.address));
                    self.values.push(None);
                }
                None => break,
            }
        }
        Ok(())
    }

    /// The values of an entry whose payload is at `address`. An entry of a kind or a version without values has none.
    fn add_entry(&mut self, entry: &log::Entry, address: u64) {
        if entry.kind != consensus::EntryKind::Batch as u8 {
            return;
        }
        let Ok(batch) = batch::decode(&entry.payload) else { return };
        let payload = entry.payload.as_ptr() as usize;
        let mut add = |put: pb::PutRequest| {
            // Values share the payload's buffer.
            if let Some(offset) = (put.value.as_ptr() as usize).checked_sub(payload)
                && !put.value.is_empty()
            {
                self.bytes += put.value.len();
                self.wanted.push((put.key, address + offset as u64));
                self.values.push(Some(put.value));
            }
        };
        for command in batch.commands {
            match command.kind {
                CommandKind::Put => pb::PutRequest::decode(command.body).into_iter().for_each(&mut add),
                CommandKind::Txn => {
                    pb::TxnRequest::decode(command.body).into_iter().for_each(|txn| each_put(txn, &mut add));
                }
                _ => {}
            }
        }
    }
}

/// Calls `visit` with each put of a transaction, of both branches and nested ones.
fn each_put(txn: pb::TxnRequest, visit: &mut impl FnMut(pb::PutRequest)) {
    let mut ops: Vec<pb::RequestOp> = txn.success.into_iter().chain(txn.failure).collect();
    while let Some(op) = ops.pop() {
        match op.request {
            Some(Request::RequestPut(put)) => visit(put),
            Some(Request::RequestTxn(nested)) => ops.extend(nested.success.into_iter().chain(nested.failure)),
            Some(Request::RequestRange(_) | Request::RequestDeleteRange(_)) | None => {}
        }
    }
}
