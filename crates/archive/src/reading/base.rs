//! A base: its frames are read in groups, and while groups follow each other the next one is read ahead.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use api::stelepb::BackupPoint;
use bytes::Bytes;

use super::source::{ArchiveSource, PartAhead};
use crate::error::ArchiveError;
use crate::names::BaseName;
use crate::objects::{Archive, check_owner};
use crate::sealed::{CHUNK_BYTES, HEADER_BYTES, MAX_POINT_BYTES, ObjectKind, Opener, PREFIX_BYTES};

/// Frames of a base that are read together: a store is asked for 8 MiB at a time.
const READ_FRAMES: u64 = 8;

/// Groups of frames that are kept: the pages of a database file are read nearly in order, from a few places.
const MAX_KEPT_GROUPS: usize = 4;

/// A base, whose content can be read at any place.
pub struct BaseReader<'a> {
    source: &'a ArchiveSource,
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
    ahead: RefCell<Option<PartAhead<Bytes>>>,
    /// The group that was read last.
    last_read: Cell<Option<u64>>,
    /// A part that was read was damaged.
    is_damaged: Cell<bool>,
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

impl<'a> BaseReader<'a> {
    /// Opens a base. As `ArchiveReader::base`.
    pub(super) fn open(source: &'a ArchiveSource, name: &BaseName) -> Result<BaseReader<'a>, ArchiveError> {
        let path = name.path();
        let damaged = |why: String| ArchiveError::damaged(&path, why);
        let length = source.runtime.block_on(source.archive.length(&path))?;
        let head = (HEADER_BYTES + PREFIX_BYTES + MAX_POINT_BYTES) as u64;
        // Stores refuse a range without bytes.
        let head = match length.min(head) {
            0 => Bytes::new(),
            bytes => source.runtime.block_on(source.archive.part(&path, 0..bytes))?,
        };
        let (opener, point, frames_at) =
            Opener::begin(ObjectKind::Base, &head, source.archive.key()).map_err(damaged)?;
        check_owner(&source.owner, &point)?;
        if BaseName::of(&point) != *name {
            return Err(damaged(format!("it is the state after entry {}, under another name", point.index)));
        }
        let frames = length.saturating_sub(frames_at as u64);
        let bytes = opener.content_bytes(frames).ok_or_else(|| damaged("it is cut off".to_owned()))?;
        let (kept, ahead, last_read, is_damaged) = Default::default();
        let base = BaseReader {
            source,
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
    pub(super) fn check(&self, read: &mut dyn FnMut(u64)) -> Result<(), ArchiveError> {
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
        let ArchiveSource { runtime, archive, .. } = self.source;
        let before = self.last_read.replace(Some(number));
        let follows = before.is_some_and(|before| before + 1 == number);
        let content = match self.ahead.take().filter(|ahead| ahead.number == number) {
            Some(ahead) => self.source.wait(ahead)?,
            None => runtime.block_on(group.read(archive, &self.path))?,
        };
        let next = self.frames(number + 1);
        if follows && !next.range.is_empty() {
            let (archive, path) = (archive.clone(), self.path.clone());
            let read = async move { next.read(&archive, &path).await };
            self.ahead.replace(Some(self.source.begin(number + 1, read)));
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
        let source = ArchiveSource::open(&url, None).expect("there is one");
        let base = BaseReader::open(&source, &BaseName::of(&point)).expect("it is whole");
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
}
