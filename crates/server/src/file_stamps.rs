//! Whether files have changed since they were read: their inode, length and times are compared, not what they hold.

use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file that was changed less than this before it was read may change again without a new time: it is read again.
const UNSETTLED: Duration = Duration::from_secs(1);

/// What some files differ in when they are replaced or rewritten.
pub(crate) struct FileStamps {
    stamps: Vec<Option<FileStamp>>,
    is_unsettled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    length: u64,
    modified: SystemTime,
    changed: (i64, i64),
}

impl FileStamps {
    /// Those of now. To be taken before the files are read.
    pub(crate) fn of<'a>(paths: impl Iterator<Item = &'a Path>) -> FileStamps {
        let stamps: Vec<_> = paths.map(FileStamp::of).collect();
        let now = SystemTime::now();
        let is_new = |stamp: &FileStamp| now.duration_since(stamp.modified).is_ok_and(|age| age < UNSETTLED);
        let is_unsettled = stamps.iter().flatten().any(is_new);
        FileStamps { stamps, is_unsettled }
    }

    /// Whether a file has another stamp here.
    pub(crate) fn differ_from(&self, other: &FileStamps) -> bool {
        self.stamps != other.stamps
    }

    /// Whether a file was changed so lately that its stamp does not say whether it has changed since.
    pub(crate) fn are_unsettled(&self) -> bool {
        self.is_unsettled
    }
}

impl FileStamp {
    fn of(path: &Path) -> Option<FileStamp> {
        use std::os::unix::fs::MetadataExt as _;
        let found = std::fs::metadata(path).ok()?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some(FileStamp { inode: found.ino(), length: found.len(), modified: found.modified().ok()?, changed })
    }
}
