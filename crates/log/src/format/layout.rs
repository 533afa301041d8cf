//! Directories and file names.
//!
//! ```text
//! <data-dir>/member/LOCK                         held by the process that works here
//! <data-dir>/member/checkpoint/MANIFEST          identity and the checkpoint chain: the root of everything
//! <data-dir>/member/checkpoint/0000002a.base     a checkpoint; .delta = what changed since the one before it
//! <data-dir>/member/checkpoint/RESERVE           blocks for a checkpoint on a full disk; its bytes mean nothing
//! <data-dir>/member/wal/0000002b.seg             a log segment (or in --wal-dir)
//! <data-dir>/member/data/0000002c.dat            a data segment: values that relocation or a snapshot put there
//! <data-dir>/member/data/0000002b.seg            a log segment that moved out of a separate WAL directory
//! *.new                                          unfinished; removed when the log is opened
//! ```

use std::path::{Path, PathBuf};

use crate::disk::{Disk, LockError, LockGuard};
use crate::error::OpenError;
use crate::options::Options;

pub(crate) const SEGMENT_SUFFIX: &str = "seg";
pub(crate) const DATA_SUFFIX: &str = "dat";
pub(crate) const UNFINISHED_SUFFIX: &str = "new";

/// The directories of a log.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) data_dir: PathBuf,
    pub(crate) member: PathBuf,
    pub(crate) wal: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) checkpoint: PathBuf,
    /// The WAL directory is a separate one, and sealed segments move out of it.
    pub(crate) separate_wal: bool,
}

impl Layout {
    pub(crate) fn new(options: &Options) -> Layout {
        let member = options.data_dir.join("member");
        let wal = options.wal_dir.clone().unwrap_or_else(|| member.join("wal"));
        Layout {
            data_dir: options.data_dir.clone(),
            wal,
            data: member.join("data"),
            checkpoint: member.join("checkpoint"),
            member,
            separate_wal: options.wal_dir.is_some(),
        }
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.checkpoint.join("MANIFEST")
    }

    pub(crate) fn checkpoint_reserve(&self) -> PathBuf {
        self.checkpoint.join("RESERVE")
    }

    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.wal.join(file_name(number, SEGMENT_SUFFIX))
    }

    pub(crate) fn moved_segment(&self, number: u32) -> PathBuf {
        self.data.join(file_name(number, SEGMENT_SUFFIX))
    }

    pub(crate) fn data_segment(&self, number: u32) -> PathBuf {
        self.data.join(file_name(number, DATA_SUFFIX))
    }

    /// Refuses a directory that an etcd server has written.
    pub(crate) fn refuse_etcd(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        let database = self.member.join("snap").join("db");
        if disk.exists(&database).map_err(OpenError::io("look for", &database))? {
            return Err(OpenError::Etcd { path: database });
        }
        for name in list(disk, &self.wal)? {
            if name.ends_with(".wal") {
                return Err(OpenError::Etcd { path: self.wal.join(name) });
            }
        }
        Ok(())
    }

    pub(crate) fn create_directories(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        for dir in [&self.member, &self.wal, &self.data, &self.checkpoint] {
            disk.create_dir_all(dir).map_err(OpenError::io("create directory", dir))?;
        }
        Ok(())
    }

    pub(crate) fn lock(&self, disk: &dyn Disk) -> Result<Box<dyn LockGuard>, OpenError> {
        let path = self.member.join("LOCK");
        disk.lock(&path).map_err(|error| match error {
            LockError::Held(holder) => OpenError::Locked { path, holder },
            LockError::Io(source) => OpenError::Io { action: "lock", path, source },
        })
    }
}

/// `0000002a.seg`
pub(crate) fn file_name(number: u32, suffix: &str) -> String {
    format!("{number:08x}.{suffix}")
}

/// The number and suffix of a file of a log; `None` for any other name.
pub(crate) fn parse_name(name: &str) -> Option<(u32, &str)> {
    let (number, suffix) = name.split_once('.')?;
    let ours = number.len() == 8 && number.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    ours.then(|| Some((u32::from_str_radix(number, 16).ok()?, suffix)))?
}

/// The names in a directory; none if it does not exist.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>, OpenError> {
    match disk.exists(dir).map_err(OpenError::io("look for", dir))? {
        true => disk.list(dir).map_err(OpenError::io("list", dir)),
        false => Ok(Vec::new()),
    }
}
