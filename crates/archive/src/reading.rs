//! Reads an archive, for a restore. Everything blocks. While the caller works on one part of a base, or on one log
//! object, the next one is read, checked and decrypted: a store far away takes as long for an answer as for its bytes.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use api::stelepb::BackupPoint;
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::error::ArchiveError;
use crate::key::SecretKey;
use crate::names::BaseName;
use crate::objects::{Archive, LogObject, check_owner};
use crate::sealed::{CHUNK_BYTES, HEADER_BYTES, MAX_POINT_BYTES, ObjectKind, Opener, PREFIX_BYTES};

/// Frames of a base that are read together: a store is asked for 8 MiB at a time.
const READ_FRAMES: u64 = 8;

/// Groups of frames that are kept: the pages of a database file are read nearly in order, from a few places.
const MAX_KEPT_GROUPS: usize = 4;

/// An archive that is read.
pub struct ArchiveReader {
    runtime: Runtime,
    archive: Archive,
    owner: BackupPoint,
}

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
        // A thread of its own reads ahead.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("stele-archive").enable_all().build();
        let runtime =
            runtime.map_err(|error| ArchiveError::Wrong(format!("cannot begin to read: {error}")))?;
        let archive = Archive::open(url, key, false)?;
        let owner = runtime.block_on(archive.owner())?;
        let owner = owner.ok_or_else(|| {
            ArchiveError::Wrong(format!("{url} holds no archive: `stele ctl backup {url}` makes one"))
        })?;
        Ok(ArchiveReader { runtime, archive, owner })
    }

    /// Whose archive it is.
    pub fn owner(&self) -> &BackupPoint {
        &self.owner
    }

    /// All bases, oldest first.
    ///
    /// # Errors
    /// The store failed.
    pub fn bases(&self) -> Result<Vec<BaseName>, ArchiveError> {
        self.runtime.block_on(self.archive.bases())
    }

    /// The first entries of those log objects that hold entries from `next` on, in order.
    ///
    /// # Errors
    /// The store failed.
    pub fn logs_from(&self, next: u64) -> Result<Vec<u64>, ArchiveError> {
        let mut logs = self.runtime.block_on(self.archive.logs())?;
        let begin = logs.partition_point(|first| *first <= next).saturating_sub(1);
        logs.drain(..begin);
        Ok(logs)
    }

    /// Bytes of all bases and log objects, as they are stored.
    ///
    /// # Errors
    /// The store failed.
    pub fn stored_bytes(&self) -> Result<u64, ArchiveError> {
        self.runtime.block_on(self.archive.stored_bytes())
    }

    /// Reads the log objects that begin with these entries, in order.
    pub fn logs(&self, firsts: Vec<u64>) -> LogReader<'_> {
        LogReader { reader: self, firsts: firsts.into_iter(), ahead: None }
    }

    /// The last state that was noted as the newest one.
    ///
    /// # Errors
    /// It is damaged, or the store failed.
    pub fn progress(&self) -> Result<Option<BackupPoint>, ArchiveError> {
        self.runtime.block_on(self.archive.progress())
    }

    /// Opens a base.
    ///
    /// # Errors
    /// It is missing, damaged or foreign; the store failed.
    pub fn base(&self, name: &BaseName) -> Result<BaseReader<'_>, ArchiveError> {
        let path = name.path();
        let damaged = |why: String| ArchiveError::damaged(&path, why);
        let length = self.runtime.block_on(self.archive.length(&path))?;
        let head = (HEADER_BYTES + PREFIX_BYTES + MAX_POINT_BYTES) as u64;
        // Stores refuse a range without bytes.
        let head = match length.min(head) {
            0 => Bytes::new(),
            bytes => self.runtime.block_on(self.archive.part(&path, 0..bytes))?,
        };
        let (opener, point, frames_at) =
            Opener::begin(ObjectKind::Base, &head, self.archive.key()).map_err(damaged)?;
        check_owner(&self.owner, &point)?;
        if BaseName::of(&point) != *name {
            return Err(damaged(format!("it is the state after entry {}, under another name", point.index)));
        }
        let frames = length.saturating_sub(frames_at as u64);
        let bytes = opener.content_bytes(frames).ok_or_else(|| damaged("it is cut off".to_owned()))?;
        let (kept, ahead, last_read, is_damaged) = Default::default();
        let base = BaseReader {
            reader: self,
            path,
            point,
            opener: Arc::new(opener),
            frames_at: frames_at as u64,
            bytes,
            length,
            kept,
            ahead,
            last_read,
            is_damaged,
        };
        // The last frame says that it is whole.
        base.group(base.bytes / CHUNK_BYTES as u64 / READ_FRAMES)?;
        Ok(base)
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

/// Reads log objects, each while the caller works on the one before it.
pub struct LogReader<'a> {
    reader: &'a ArchiveReader,
    firsts: std::vec::IntoIter<u64>,
    /// The next one.
    ahead: Option<LogAhead>,
}

/// A log object on its way.
struct LogAhead {
    first: u64,
    log: JoinHandle<Result<LogObject, ArchiveError>>,
}

impl LogReader<'_> {
    /// Begins to read the next one.
    fn begin(&mut self) -> Option<LogAhead> {
        let first = self.firsts.next()?;
        let (archive, owner) = (self.reader.archive.clone(), self.reader.owner);
        let log = self.reader.runtime.spawn(async move { archive.log(first, &owner).await });
        Some(LogAhead { first, log })
    }
}

impl Iterator for LogReader<'_> {
    /// The first entry of an object, and the object, unless it is missing, damaged or foreign, or the store failed.
    type Item = (u64, Result<LogObject, ArchiveError>);

    fn next(&mut self) -> Option<Self::Item> {
        let LogAhead { first, log } = self.ahead.take().or_else(|| self.begin())?;
        let read = self.reader.runtime.block_on(log);
        let read = read.unwrap_or_else(|why| Err(ArchiveError::Wrong(format!("cannot read the log: {why}"))));
        self.ahead = self.begin();
        Some((first, read))
    }
}

impl Drop for LogReader<'_> {
    /// What nobody waits for any more is not read.
    fn drop(&mut self) {
        if let Some(ahead) = &self.ahead {
            ahead.log.abort();
        }
    }
}

/// A base, whose content can be read at any place.
pub struct BaseReader<'a> {
    reader: &'a ArchiveReader,
    path: String,
    point: BackupPoint,
    opener: Arc<Opener>,
    /// Where frame 1 begins.
    frames_at: u64,
    /// Bytes of the content.
    bytes: u64,
    /// Bytes of the object.
    length: u64,
    /// Groups of frames that were read lately, the newest last.
    kept: RefCell<Vec<(u64, Bytes)>>,
    /// The group that is read ahead.
    ahead: RefCell<Option<GroupAhead>>,
    /// The group that was read last.
    last_read: Cell<Option<u64>>,
    /// A part that was read was damaged.
    is_damaged: Cell<bool>,
}

/// A group of frames on its way.
struct GroupAhead {
    number: u64,
    content: JoinHandle<Result<Bytes, ArchiveError>>,
}

/// Where the frames of a group are, and what opens them.
struct GroupFrames {
    opener: Arc<Opener>,
    /// The number of the first.
    first: u64,
    /// Their bytes in the object.
    range: Range<u64>,
    /// Bytes of the object.
    length: u64,
}

impl BaseReader<'_> {
    /// What it is of.
    pub fn point(&self) -> &BackupPoint {
        &self.point
    }

    /// Its name in the archive.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of its content: a database file and its SHA-256.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a read failed because the object is not what was written.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.get()
    }

    /// Fills `into` with content from `offset` on.
    ///
    /// # Errors
    /// There is not so much, the base is damaged, or the store failed.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let group_bytes = READ_FRAMES * CHUNK_BYTES as u64;
        let mut filled = 0;
        while filled < into.len() {
            let at = offset + filled as u64;
            let group = self.group(at / group_bytes).map_err(|error| io::Error::other(error.to_string()))?;
            let within = (at % group_bytes) as usize;
            let found = group.get(within..).filter(|found| !found.is_empty());
            let found = found.ok_or(io::ErrorKind::UnexpectedEof)?;
            let count = found.len().min(into.len() - filled);
            into[filled..filled + count].copy_from_slice(&found[..count]);
            filled += count;
        }
        Ok(())
    }

    /// Reads all of it, and tells the bytes.
    fn check(&self, read: &mut dyn FnMut(u64)) -> Result<(), ArchiveError> {
        let groups = self.bytes / CHUNK_BYTES as u64 / READ_FRAMES;
        (0..=groups).try_for_each(|number| self.group(number).map(|group| read(group.len() as u64)))
    }

    /// The content of a group of frames.
    fn group(&self, number: u64) -> Result<Bytes, ArchiveError> {
        let mut kept = self.kept.borrow_mut();
        if let Some(at) = kept.iter().position(|(kept, _)| *kept == number) {
            let found = kept.remove(at);
            let content = found.1.clone();
            kept.push(found);
            return Ok(content);
        }
        let content = self.read_group(number)?;
        if kept.len() == MAX_KEPT_GROUPS {
            kept.remove(0);
        }
        kept.push((number, content.clone()));
        Ok(content)
    }

    fn read_group(&self, number: u64) -> Result<Bytes, ArchiveError> {
        let group = self.frames(number);
        if group.range.is_empty() {
            return Ok(Bytes::new());
        }
        let content = self.fetch(number, group);
        self.is_damaged.set(self.is_damaged.get() || matches!(content, Err(ArchiveError::Damaged { .. })));
        content
    }

    /// A group; its range is empty behind the last.
    fn frames(&self, number: u64) -> GroupFrames {
        let (opener, range) = (self.opener.clone(), self.group_range(number));
        GroupFrames { opener, first: number * READ_FRAMES + 1, range, length: self.length }
    }

    /// Where a group is in the object; empty behind the last.
    fn group_range(&self, number: u64) -> Range<u64> {
        let group_bytes = READ_FRAMES * self.opener.frame_bytes();
        let begin = self.frames_at + number * group_bytes;
        begin..(begin + group_bytes).min(self.length)
    }

    /// Reads a group, and begins to read the next one if this one followed the one before.
    fn fetch(&self, number: u64, group: GroupFrames) -> Result<Bytes, ArchiveError> {
        let ArchiveReader { runtime, archive, .. } = self.reader;
        let before = self.last_read.replace(Some(number));
        let follows = before.is_some_and(|before| before + 1 == number);
        let content = match self.ahead.take() {
            Some(ahead) if ahead.number == number => {
                let read = runtime.block_on(ahead.content);
                read.map_err(|error| ArchiveError::Wrong(format!("cannot read {}: {error}", self.path)))??
            }
            other => {
                if let Some(other) = other {
                    other.content.abort();
                }
                runtime.block_on(group.read(archive, &self.path))?
            }
        };
        let next = self.frames(number + 1);
        if follows && !next.range.is_empty() {
            let (archive, path) = (archive.clone(), self.path.clone());
            let content = runtime.spawn(async move { next.read(&archive, &path).await });
            self.ahead.replace(Some(GroupAhead { number: number + 1, content }));
        }
        Ok(content)
    }
}

impl GroupFrames {
    /// Reads the group, and returns its content.
    async fn read(self, archive: &Archive, path: &str) -> Result<Bytes, ArchiveError> {
        let damaged = |why: String| ArchiveError::damaged(path, why);
        let begin = self.range.start;
        let bytes = archive.part(path, self.range).await?;
        let (mut content, mut at, mut frame) = (Vec::with_capacity(bytes.len()), 0, self.first);
        while at < bytes.len() {
            let (body, is_last) = self.opener.next(frame, &bytes, &mut at).map_err(damaged)?;
            content.extend_from_slice(&body);
            frame += 1;
            if is_last != (begin + at as u64 == self.length) {
                return Err(damaged("its end is not where it should be".to_owned()));
            }
        }
        Ok(content.into())
    }
}

#[cfg(test)]
mod tests {
    use api::stelepb::{BackupEntriesResponse, BackupEntry};

    use super::*;

    #[test]
    fn groups_that_follow_each_other_are_read_ahead() {
        let dir = tempfile::tempdir().expect("a directory");
        let url = dir.path().display().to_string();
        let archive = Archive::open(&url, None, true).expect("it is made");
        let point = BackupPoint { cluster_id: 7, index: 9, revision: 5, time_ms: 1, ..Default::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let groups = 4;
        runtime.block_on(async {
            archive.claim(&point).await.expect("it is ours");
            let mut writer = archive.begin_base(&point).await.expect("it begins");
            for frame in 0..groups * READ_FRAMES {
                writer.frame(&vec![frame as u8; CHUNK_BYTES], false).await.expect("it is written");
            }
            writer.frame(b"end", true).await.expect("it is written");
            writer.finish().await.expect("it is whole");
        });
        let reader = ArchiveReader::open(&url, None).expect("there is one");
        let base = reader.base(&BaseName::of(&point)).expect("it is whole");
        let ahead = || base.ahead.borrow().as_ref().map(|ahead| ahead.number);
        let first = |number: u64| {
            let mut byte = [0];
            base.read_at(number * READ_FRAMES * CHUNK_BYTES as u64, &mut byte).expect("it is there");
            byte[0]
        };
        assert_eq!((first(0), ahead()), (0, None), "nothing says yet that the next one follows");
        assert_eq!((first(1), ahead()), (8, Some(2)));
        assert_eq!((first(2), ahead()), (16, Some(3)));
        assert_eq!((first(0), ahead()), (0, Some(3)), "it is kept");
        assert_eq!((first(3), ahead()), (24, Some(4)));
        // The end was read first of all, and is kept no longer.
        assert_eq!(first(4), b'e');
        assert_eq!(ahead(), None);
    }

    #[test]
    fn the_next_log_object_is_read_while_one_is_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let url = dir.path().display().to_string();
        let archive = Archive::open(&url, None, true).expect("it is made");
        let owner = BackupPoint { cluster_id: 7, index: 1, ..Default::default() };
        let object = |index| {
            let entries = vec![BackupEntry { index, term: 1, ..Default::default() }];
            LogObject { answers: vec![BackupEntriesResponse { entries, ..Default::default() }] }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            archive.claim(&owner).await.expect("it is ours");
            for first in 1..=3 {
                archive.put_log(first, &owner, &object(first)).await.expect("it is written");
            }
        });
        let reader = ArchiveReader::open(&url, None).expect("there is one");
        let mut logs = reader.logs(vec![1, 2, 9, 3]);
        let ahead = |logs: &LogReader<'_>| logs.ahead.as_ref().map(|ahead| ahead.first);
        let mut next = || (logs.next().map(|(first, log)| (first, log.ok())), ahead(&logs));
        assert_eq!(next(), (Some((1, Some(object(1)))), Some(2)));
        assert_eq!(next(), (Some((2, Some(object(2)))), Some(9)));
        assert_eq!(next(), (Some((9, None)), Some(3)), "there is no such object");
        assert_eq!(next(), (Some((3, Some(object(3)))), None));
        assert_eq!(next(), (None, None));
    }
}
