//! The replicated log on disk: segments of records, recovery, checkpoint files, value reads and relocation.
//!
//! The log is the database. A value is written once, in the entry of its put, and stays there; the store remembers its
//! *log address*. This crate keeps the files. It does not know what an entry means, which key a value belongs to, who
//! is the leader, or what time it is.
//!
//! Three parties work with it:
//! - the *owner*, one thread that never waits for a disk, plans with [`Log`] and gets jobs;
//! - other threads run the jobs: [`WriteJob::run_all`] on one thread in order, [`BackgroundJob`] and the others on any;
//! - *readers*, on any thread, read values with a [`Pin`] from a [`Reader`].
//!
//! ```text
//!   put k = "hello"
//!
//!   owner       Log::append([entry 7])       -> WriteJob, address 0x2b_000000c5
//!   log thread  WriteJob::run_all(jobs)      writes the records of many entries, one sync
//!   owner       Log::complete(done)          entry 7 is durable
//!   owner       store: k -> (0x2b_000000d1, 5 bytes, checksum)      the value lies 12 bytes into the payload
//!   reader      Pin::read(0x2b_000000d1, 5, checksum)  -> "hello"
//! ```
//!
//! # Where to read on
//!
//! | folder | what |
//! |---|---|
//! | `log/` | [`Log`]: the composition of all parts, and its public methods |
//! | `types.rs` | log addresses, entries, hard states |
//! | `error.rs` | errors, one type for each audience |
//! | `options.rs` | sizes and directories of a log |
//! | `format/` | file headers, records, names of files |
//! | `write/` | planning records, writing and syncing them |
//! | `read/` | the tail, the value cache, files, pins and epochs |
//! | `entry_index.rs` | the index of entries: term, address and length of each |
//! | `segments/` | the life of a segment file: preallocated, in the log, retired, recycled |
//! | `background.rs` | background jobs on files: prepare, move, remove |
//! | `relocation/` | copying live values out of nearly empty files |
//! | `checkpoint/` | checkpoint files, the manifest, installing snapshots |
//! | `recovery/` | creating and opening a log |
//! | `disk/` | the file system behind a trait, and one in memory for tests |
//!
//! Folders only import folders below them: `log/`, `recovery`, `checkpoint`, `relocation`, `write`, `segments`,
//! `read`, `format`, `disk`.
//!
//! # Example
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use log::{Disk, Entry, Identity, Log, MemDisk, Options, RecordSizes, WriteJob};
//! let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
//! let options = Options::new("/data");
//! Log::create(&disk, &options, Identity { cluster_id: 1, member_id: 2, incarnation: 3 })?;
//! let mut opened = Log::open(&disk, &options)?;
//! let entry = Entry { term: 1, index: 1, kind: 0, payload: "hello".into() };
//! let mut sizes = RecordSizes::default();
//! sizes.add_entry(5);
//! while !opened.log.make_room(&sizes, None) {
//!     let job = opened.log.next_job().expect("a segment is to be made ready");
//!     opened.log.background_done(job.run())?;
//! }
//! let append = opened.log.append(None, vec![entry]);
//! let done = WriteJob::run_all(vec![append.job], &|| Duration::ZERO);
//! assert_eq!(opened.log.complete(done)?.position, append.position);
//! let value = opened.reader.pin().read(append.addresses[0], 5, crc32c::crc32c(b"hello"))?;
//! assert_eq!(value, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Formats to the byte: `docs/internals/log.md`, `docs/internals/checkpoint.md`.

mod background;
mod checkpoint;
mod disk;
mod entry_index;
mod error;
mod format;
mod log;
mod options;
mod read;
mod recovery;
mod relocation;
mod segments;
#[cfg(test)]
mod testing;
mod types;
mod write;

pub use background::{BackgroundDone, BackgroundJob};
pub use checkpoint::{
    Checkpoint, CheckpointDone, CheckpointFile, CheckpointKind, CheckpointWriter, FileChunks, InstallDone,
    InstallWaiting, MAX_CHUNK_BYTES, ShorterManifest, SnapshotInstaller,
};
pub use disk::{Disk, Fault, File, LockError, LockGuard, MemDisk, Operation, RealDisk, Unsynced};
pub use error::{Fatal, JobError, OpenError, ReadError};
pub use log::{Log, LogMemory, Opened};
pub use options::{
    CACHE_BYTES, OPEN_FILES, Options, RESERVE_SEGMENTS, SEGMENT_BYTES, TAIL_BYTES, WAL_DIR_BYTES,
};
pub use read::{Access, Damage, Entries, Pin, ReadJob, ReadSlot, Reader, ReferenceCounts};
pub use recovery::{Recovered, Warning};
pub use relocation::{
    Candidate, Content, FileContents, Relocated, Relocation, RelocationDone, RelocationWriter,
};
pub use segments::{RecordSizes, Space};
pub use types::{
    Entry, HardState, Identity, LogId, MAX_PAYLOAD_BYTES, StoredValue, entry_checksum, file_of, offset_of,
};
pub use write::{Append, Completed, EntryRepairJob, SEAL_AFTER, WriteDone, WriteJob};
