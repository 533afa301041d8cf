//! The replicated log on disk: segments of records, recovery, checkpoint files, value reads and relocation.
//!
//! The log is the database: a value is written once, in the entry that brought it, and stays there. This
//! crate keeps the files. It does not know what an entry means, which key a value belongs to, who leads, or
//! what time it is; those who do hand it bytes, and get *places* back.
//!
//! Three parties work with it:
//! - the *owner*, one thread that must never wait for a disk, plans with [`Log`] and gets jobs;
//! - whoever *runs jobs*: [`WriteJob::run_all`] on one thread in order, [`BackgroundJob`] and the others
//!   elsewhere;
//! - *readers*, any number, with a [`Pin`] from a [`Reader`].
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use log::{Disk, Entry, Identity, Log, MemDisk, Options, WriteJob};
//! let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
//! let options = Options::new("/data");
//! Log::create(&disk, &options, Identity { cluster_id: 1, member_id: 2, incarnation: 3 })?;
//! let mut opened = Log::open(&disk, &options)?;
//! let entry = Entry { term: 1, index: 1, kind: 0, payload: "hello".into() };
//! let append = opened.log.append(None, vec![entry]);
//! let done = WriteJob::run_all(vec![append.job], &|| Duration::ZERO);
//! assert_eq!(opened.log.complete(done)?.position, append.position);
//! let value = opened.reader.pin().read(append.places[0], 5, crc32c::crc32c(b"hello"))?;
//! assert_eq!(value, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Formats to the byte: `docs/internals/log.md`, `docs/internals/checkpoint.md`.

mod append;
mod background;
mod bulk_file;
mod cache;
mod checkpoint;
mod cursor;
mod data_segment;
mod disk;
mod entry_repair;
mod error;
mod files;
mod header;
mod index;
mod install;
mod layout;
mod log;
mod mover;
mod pins;
mod prepare;
mod read_slots;
mod reader;
mod record;
mod recovery;
mod relocate;
mod spares;
mod tail;
mod types;
mod writer;

pub use append::Append;
pub use background::{BackgroundDone, BackgroundError, BackgroundJob};
pub use cache::Access;
pub use checkpoint::{
    Checkpoint, CheckpointDone, CheckpointKind, CheckpointWriter, Chunk, Chunks, MAX_CHUNK_BYTES,
};
pub use cursor::{ReadJob, Replay};
pub use disk::{Disk, Fault, File, LockError, LockGuard, MemDisk, Operation, RealDisk, Unsynced};
pub use entry_repair::EntryRepairJob;
pub use error::{Fatal, JobError, OpenError, ReadError};
pub use install::{InstallDone, SnapshotInstaller};
pub use log::{Completed, Log, SEAL_AFTER, Space};
pub use read_slots::ReadSlot;
pub use reader::{Damage, Pin, Reader};
pub use recovery::{Opened, Recovered, Warning};
pub use relocate::{Candidate, Relocated, Relocation, RelocationDone};
pub use types::{
    CACHE_BYTES, Entry, HardState, Identity, LogId, MAX_PAYLOAD_BYTES, OPEN_FILES, Options, RESERVE_SEGMENTS,
    SEGMENT_BYTES, StoredValue, TAIL_BYTES, WAL_DIR_BYTES, entry_checksum, file_of, offset_of,
};
pub use writer::{WriteDone, WriteJob};
