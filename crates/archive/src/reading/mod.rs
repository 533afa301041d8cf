//! Reads an archive, for a restore. Everything blocks. While the caller works on one part of a base, or on one log
//! object, the next one is read, checked and decrypted: a store far away takes as long for an answer as for its bytes.
//!
//! | file | holds |
//! |---|---|
//! | `base` | a base, read at any place |
//! | `source` | the archive, and the thread that reads ahead |
//! | `logs` | log objects, one after the other |

mod base;
mod logs;
mod source;

use api::stelepb::BackupPoint;

use crate::error::ArchiveError;
use crate::key::SecretKey;
use crate::names::BaseName;

pub use base::BaseReader;
pub use logs::LogReader;
use source::ArchiveSource;

/// An archive that is read.
pub struct ArchiveReader(ArchiveSource);

/// Consecutive states that can be restored, each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedSpan {
    /// The base that it begins with.
    pub base: BaseName,
    /// Its last entry.
    pub last_index: u64,
    /// The revision after it.
    pub revision: i64,
    /// Until when it is known to be the newest state, in milliseconds since 1970.
    pub time_ms: u64,
}

impl ArchiveReader {
    /// Opens an archive.
    ///
    /// # Errors
    /// There is none, it cannot be reached, or has another key.
    pub fn open(url: &str, key: Option<SecretKey>) -> Result<ArchiveReader, ArchiveError> {
        Ok(ArchiveReader(ArchiveSource::open(url, key)?))
    }

    /// Whose archive it is.
    pub fn owner(&self) -> &BackupPoint {
        &self.0.owner
    }

    /// All bases, oldest first.
    ///
    /// # Errors
    /// The store failed.
    pub fn bases(&self) -> Result<Vec<BaseName>, ArchiveError> {
        self.0.runtime.block_on(self.0.archive.bases())
    }

    /// The first entries of those log objects that hold entries from `next` on, in order.
    ///
    /// # Errors
    /// The store failed.
    pub fn logs_from(&self, next: u64) -> Result<Vec<u64>, ArchiveError> {
        let mut logs = self.0.runtime.block_on(self.0.archive.logs())?;
        let begin = logs.partition_point(|first| *first <= next).saturating_sub(1);
        logs.drain(..begin);
        Ok(logs)
    }

    /// Bytes of all bases and log objects, as they are stored.
    ///
    /// # Errors
    /// The store failed.
    pub fn stored_bytes(&self) -> Result<u64, ArchiveError> {
        self.0.runtime.block_on(self.0.archive.stored_bytes())
    }

    /// Reads the log objects that begin with these entries, in order.
    pub fn logs(&self, firsts: Vec<u64>) -> LogReader<'_> {
        LogReader::new(&self.0, firsts)
    }

    /// The last state that was noted as the newest one.
    ///
    /// # Errors
    /// It is damaged, or the store failed.
    pub fn progress(&self) -> Result<Option<BackupPoint>, ArchiveError> {
        self.0.runtime.block_on(self.0.archive.progress())
    }

    /// Opens a base.
    ///
    /// # Errors
    /// It is missing, damaged or foreign; the store failed.
    pub fn base(&self, name: &BaseName) -> Result<BaseReader<'_>, ArchiveError> {
        BaseReader::open(&self.0, name)
    }

    /// Reads every object, and returns what can be restored. `read` receives the bytes as they are read, and `damaged`
    /// what is wrong.
    ///
    /// # Errors
    /// The store failed.
    pub fn check(
        &self,
        read: &mut dyn FnMut(u64),
        damaged: &mut dyn FnMut(ArchiveError),
    ) -> Result<Vec<CheckedSpan>, ArchiveError> {
        let mut starts = Vec::new();
        for name in self.bases()? {
            match self.base(&name).and_then(|base| base.check(read)) {
                Ok(()) => starts.push(name),
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => damaged(error),
            }
        }
        let mut spans: Vec<CheckedSpan> = Vec::new();
        let start = |base: BaseName| CheckedSpan {
            base,
            last_index: base.index,
            revision: base.revision,
            time_ms: base.time_ms,
        };
        for (first, log) in self.logs(self.logs_from(0)?) {
            let log = match log {
                Ok(log) => log,
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => {
                    damaged(error);
                    continue;
                }
            };
            let payload = |entry: &api::stelepb::BackupEntry| entry.payload.len() as u64;
            read(log.answers.iter().flat_map(|answer| &answer.entries).map(payload).sum());
            let last = log.last_index().unwrap_or(first);
            let goes_on = spans.last().is_some_and(|span| (first..=last).contains(&(span.last_index + 1)));
            let from_base = || starts.iter().find(|base| (first..=last).contains(&(base.index + 1))).copied();
            if !goes_on {
                spans.extend(from_base().map(start));
            }
            if let Some(span) =
                spans.last_mut().filter(|span| (first..=last).contains(&(span.last_index + 1)))
            {
                span.last_index = last;
                if let Some(point) = log.point() {
                    (span.revision, span.time_ms) = (point.revision.max(span.revision), point.time_ms);
                }
            }
        }
        let is_within = |base: &BaseName, spans: &[CheckedSpan]| {
            spans.iter().any(|span| (span.base.index..=span.last_index).contains(&base.index))
        };
        let alone: Vec<_> = starts.into_iter().filter(|base| !is_within(base, &spans)).map(start).collect();
        spans.extend(alone);
        spans.sort_by_key(|span| span.base.index);
        if let (Some(progress), Some(last)) = (self.progress()?, spans.last_mut())
            && progress.index == last.last_index
        {
            last.time_ms = last.time_ms.max(progress.time_ms);
        }
        Ok(spans)
    }
}
