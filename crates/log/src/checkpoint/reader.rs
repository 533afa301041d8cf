//! Reads checkpoints: the base first, then the deltas in order, with a check of each chunk.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::manifest::ManifestLink;
use super::writer::{END_MARK, MAX_CHUNK_BYTES, description, frame_checksum};
use crate::disk::{Disk, File};
use crate::error::OpenError;
use crate::format::{FileHeader, FileType, HEADER_BYTES, Layout, read_u32, read_u64};
use crate::segments::SegmentFactory;
use crate::types::{Identity, LogId};

/// Bytes of a frame before its data: length, checksum.
const FRAME_HEAD_BYTES: u64 = 8;
/// Bytes read at once. A chain may have hundreds of files, and each is read at up to three places at a time.
const WINDOW_BYTES: u64 = 256 << 10;

/// A durable checkpoint, for reading.
pub struct Checkpoint {
    /// The state after applying this entry.
    pub id: LogId,
    disk: Arc<dyn Disk>,
    layout: Arc<Layout>,
    identity: Identity,
    links: Vec<ManifestLink>,
}

impl Checkpoint {
    /// The state at the end of a chain, if the chain is not empty.
    pub(super) fn of_chain(factory: &SegmentFactory, chain: &[ManifestLink]) -> Option<Checkpoint> {
        let newest = chain.last()?;
        Some(Checkpoint {
            id: newest.id,
            disk: factory.disk.clone(),
            layout: factory.layout.clone(),
            identity: factory.identity,
            links: chain.to_vec(),
        })
    }

    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.links.iter().map(|link| link.length).sum()
    }

    /// Opens all its files, base first. They stay readable when others take their place.
    ///
    /// # Errors
    /// A file cannot be opened, or is not what the manifest says.
    pub fn files(&self) -> Result<Vec<FileChunks>, OpenError> {
        let open = |link: &ManifestLink| {
            let file = CheckpointFileReader::open(self.disk.as_ref(), &self.layout, &self.identity, *link)?;
            Ok(FileChunks { file, failed: false })
        };
        self.links.iter().map(open).collect()
    }
}

/// One file of the chain, for reading.
pub struct CheckpointFile {
    disk: Arc<dyn Disk>,
    layout: Arc<Layout>,
    identity: Identity,
    link: ManifestLink,
}

impl CheckpointFile {
    pub(super) fn new(factory: &SegmentFactory, link: ManifestLink) -> CheckpointFile {
        let (disk, layout, identity) = (factory.disk.clone(), factory.layout.clone(), factory.identity);
        CheckpointFile { disk, layout, identity, link }
    }

    /// Its number, which no other file of the data directory has.
    pub fn number(&self) -> u32 {
        self.link.number
    }

    /// Opens it. It stays readable when another takes its place.
    ///
    /// # Errors
    /// It cannot be opened, or is not what the manifest says.
    pub fn open(&self) -> Result<FileChunks, OpenError> {
        let file = CheckpointFileReader::open(self.disk.as_ref(), &self.layout, &self.identity, self.link)?;
        Ok(FileChunks { file, failed: false })
    }
}

/// Iterates over the chunks of a file of a checkpoint. A clone goes on at the same place.
#[derive(Clone)]
pub struct FileChunks {
    file: CheckpointFileReader,
    failed: bool,
}

impl Iterator for FileChunks {
    /// The first error ends it.
    type Item = Result<Bytes, OpenError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.file.next().transpose();
        self.failed = matches!(next, None | Some(Err(_)));
        next
    }
}

/// The frames of one file.
#[derive(Clone)]
struct CheckpointFileReader {
    link: ManifestLink,
    path: PathBuf,
    file: Arc<dyn File>,
    offset: u64,
    window: Bytes,
    window_start: u64,
    ordinal: u64,
}

impl CheckpointFileReader {
    fn open(
        disk: &dyn Disk,
        layout: &Layout,
        identity: &Identity,
        link: ManifestLink,
    ) -> Result<CheckpointFileReader, OpenError> {
        let path = link.path(layout);
        let file = disk.open(&path).map_err(OpenError::io("open", &path))?;
        let length = file.length().map_err(OpenError::io("measure", &path))?;
        if length != link.length {
            let what = format!("it has {length} bytes where the manifest says {}", link.length);
            return Err(OpenError::corrupt(&path, length.min(link.length), what));
        }
        let window = Bytes::new();
        let mut frames =
            CheckpointFileReader { link, path, file, offset: 0, window, window_start: 0, ordinal: 0 };
        let header = frames.bytes(HEADER_BYTES)?;
        FileHeader::decode(&header, FileType::Checkpoint, &frames.path)?.check(
            identity,
            link.number,
            &frames.path,
        )?;
        match frames.next()? {
            Some(found) if found == description(link.kind, link.id)[..] => Ok(frames),
            _ => Err(OpenError::corrupt(
                &frames.path,
                HEADER_BYTES,
                "it is not the checkpoint of the manifest",
            )),
        }
    }

    /// The data of the next frame, or nothing after the last.
    fn next(&mut self) -> Result<Option<Bytes>, OpenError> {
        let start = self.offset;
        let head = self.bytes(FRAME_HEAD_BYTES)?;
        let (length, checksum) = (read_u32(&head, 0), read_u32(&head, 4));
        let is_end = length == END_MARK;
        let length = if is_end { 8 } else { u64::from(length) };
        if length > MAX_CHUNK_BYTES as u64 {
            return Err(OpenError::corrupt(&self.path, start, "a chunk is too long"));
        }
        let data = self.bytes(length)?;
        let intact = frame_checksum(self.ordinal, &data) == checksum;
        if !intact || (is_end && read_u64(&data, 0) != self.ordinal) {
            return Err(OpenError::corrupt(&self.path, start, "the checksum of a chunk does not match"));
        }
        self.ordinal += 1;
        match is_end {
            true if self.offset == self.link.length => Ok(None),
            true => Err(OpenError::corrupt(&self.path, self.offset, "something follows its end")),
            false => Ok(Some(data)),
        }
    }

    /// The next bytes of the file.
    fn bytes(&mut self, length: u64) -> Result<Bytes, OpenError> {
        let end = self.offset + length;
        if end > self.link.length {
            return Err(OpenError::corrupt(&self.path, self.offset, "a chunk reaches beyond the end"));
        }
        if end > self.window_start + self.window.len() as u64 {
            let ahead = (self.link.length - self.offset).min(WINDOW_BYTES).max(length);
            let mut window = vec![0; ahead as usize];
            let count =
                self.file.read_at(&mut window, self.offset).map_err(OpenError::io("read", &self.path))?;
            if (count as u64) < length {
                return Err(OpenError::corrupt(&self.path, self.offset, "the file is shorter than it was"));
            }
            window.truncate(count);
            self.window = Bytes::from(window);
            self.window_start = self.offset;
        }
        let from = (self.offset - self.window_start) as usize;
        self.offset = end;
        Ok(self.window.slice(from..from + length as usize))
    }
}
