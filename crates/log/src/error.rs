//! Errors, one type for each party that handles them.
//!
//! | type | who handles it | what to do |
//! |---|---|---|
//! | [`OpenError`] | the operator, at the start of the process | what its text says; nothing was changed |
//! | [`ReadError`] | the reader of a value or an entry | fetch the bytes from a peer |
//! | [`Fatal`] | the process | stop; recovery restores everything durable |
//! | [`JobError`] | the owner of a background job | retry later; the log is as before |

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a log could not be created or opened. Nothing was changed, except that unfinished files may be gone.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A call of the operating system failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process uses this directory.
    #[error("{} is in use by {holder}; stop it, or choose another data directory", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds the lock.
        holder: String,
    },
    /// The directory belongs to etcd.
    #[error("{} holds the data of an etcd server, whose format is another; stop etcd, let `stele utl import` read it \
             into an empty data directory, and start with that: see docs/operating/migrate.md", path.display())]
    Etcd {
        /// The file that says so.
        path: PathBuf,
    },
    /// There is no log here yet.
    #[error("{} holds no log", path.display())]
    Absent {
        /// The data directory.
        path: PathBuf,
    },
    /// There is a log here already.
    #[error("{} already holds a log", path.display())]
    Present {
        /// The data directory.
        path: PathBuf,
    },
    /// Segments without a manifest.
    #[error("{} is missing although {} exists; restore the whole data directory from a copy, or remove the member \
             and add it again with an empty one", manifest.display(), segment.display())]
    NoManifest {
        /// What should be there.
        manifest: PathBuf,
        /// What shows that it was.
        segment: PathBuf,
    },
    /// A file that is too short for its header.
    #[error("{} has {length} bytes, too few for the header of {what}; {ADVICE}", path.display())]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Its length.
        length: u64,
        /// What it should be.
        what: &'static str,
    },
    /// A file that does not begin like a file of a log.
    #[error("{} is not {what}: its first bytes are {found:02x?}; {ADVICE}", path.display())]
    BadMagic {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// What it begins with.
        found: [u8; 8],
    },
    /// A file of a newer (or unknown) format.
    #[error("{} has format version {found}, this release reads version {known}; use the release that wrote it",
            path.display())]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A file of another cluster, member or data directory.
    #[error("{} belongs to {what} {found:016x}, this data directory is of {expected:016x}; take it out, and put \
             back the one that belongs here", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Which of the three differs.
        what: &'static str,
        /// As the file has it.
        found: u64,
        /// As the manifest has it.
        expected: u64,
    },
    /// A file whose header names another number than its name does.
    #[error("{} says it is file {found:08x}; it was renamed or copied: put back the original", path.display())]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// The number in its header.
        found: u32,
    },
    /// A segment between two others is missing.
    #[error("segment {number:08x} is missing: {} continues it; put it back, or {ADVICE}", path.display())]
    MissingSegment {
        /// Which.
        number: u32,
        /// The segment after it.
        path: PathBuf,
    },
    /// Values are referenced in files that are not there.
    #[error("files {numbers:08x?} of {} are missing, but hold live values; put them back, or {ADVICE}",
            path.display())]
    MissingFiles {
        /// Which.
        numbers: Vec<u32>,
        /// The data directory.
        path: PathBuf,
    },
    /// Durable bytes have changed.
    #[error("{} is corrupt at offset {offset}: {what}; {ADVICE}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// What does not hold.
        what: String,
    },
}

const ADVICE: &str = "check the device, then restore the data directory from a copy, or remove this member and add it again with \
     an empty one";

impl OpenError {
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> OpenError + 'a {
        move |source| OpenError::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> OpenError {
        OpenError::Corrupt { path: path.to_owned(), offset, what: what.into() }
    }
}

impl OpenError {
    /// Whether the disk failed to read: nothing is known of the bytes.
    pub fn is_of_the_disk(&self) -> bool {
        matches!(self, OpenError::Io { .. })
    }

    /// Whether it failed only because no more files may be opened.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, OpenError::Io { source, .. } if is_out_of_descriptors(source))
    }
}

/// Why bytes could not be read. After `Damaged`, the caller fetches them from a peer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The bytes have changed since they were written.
    #[error("{} is damaged at offset {offset} ({len} bytes)", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the value or record begins.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// A read call of the operating system failed.
    #[error("cannot read {} at offset {offset}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The file was freed, or the log address was never valid.
    #[error("no file {file:08x} in this log (address {address:016x})")]
    NoFile {
        /// The file number.
        file: u32,
        /// The log address.
        address: u64,
    },
    /// The log does not hold this entry.
    #[error("entry {index} is not in the log, which holds {first} to {last}")]
    NoEntry {
        /// The one asked for.
        index: u64,
        /// First one there.
        first: u64,
        /// Last one there.
        last: u64,
    },
}

impl ReadError {
    /// Whether the disk failed to read: nothing is known of the bytes.
    pub fn is_of_the_disk(&self) -> bool {
        matches!(self, ReadError::Io { .. })
    }

    /// Whether it failed only because no more files may be opened: the bytes may be intact, and a later read succeed.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, ReadError::Io { source, .. } if is_out_of_descriptors(source))
    }
}

/// A write or sync of a log file failed, so what is on disk is unknown. Stop the process; recovery restores everything
/// durable.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot {action} {}: {source}; the log stops here, a restart recovers what is durable", path.display())]
pub struct Fatal {
    /// What failed.
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: Arc<io::Error>,
}

impl Fatal {
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Fatal + 'a {
        move |source| Fatal { action, path: path.to_owned(), source: Arc::new(source) }
    }
}

/// A background job failed: checkpoint, installation, relocation, repair, preparing, moving or removing a file. The log
/// is as before; the job can be retried.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JobError {
    /// A call of the operating system failed, for example because the disk is full.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// A checkpoint to be merged is unreadable.
    #[error("cannot read a checkpoint to merge: {0}")]
    Unreadable(String),
    /// Another checkpoint replaced the one that this job extends.
    #[error("another checkpoint took its place meanwhile")]
    Superseded,
    /// Its owner gave it up, for something more urgent.
    #[error("given up for something more urgent")]
    GivenUp,
    /// A value to be copied cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A write into a file of the log failed: stop the process, as after a failed append.
    #[error(transparent)]
    Fatal(#[from] Fatal),
    /// Not now; try again later.
    #[error("not now: {0}")]
    Busy(&'static str),
    /// Bytes from a peer do not match their checksum or their entry.
    #[error("the bytes for {0} do not match what was written")]
    Mismatch(String),
}

impl JobError {
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> JobError + 'a {
        move |source| JobError::Io { action, path: path.to_owned(), source: Arc::new(source) }
    }

    /// Whether it failed for want of space.
    pub fn is_full(&self) -> bool {
        matches!(self, JobError::Io { source, .. } if is_full(source))
    }

    /// Whether it failed because no more files may be opened.
    pub fn is_out_of_descriptors(&self) -> bool {
        match self {
            JobError::Io { source, .. } => is_out_of_descriptors(source),
            JobError::Read(error) => error.is_out_of_descriptors(),
            _ => false,
        }
    }
}

/// Whether an error means that the process, or the system, may open no more files.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether an error means that the disk or the quota of its user is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
