//! Moves sealed segments out of a separate WAL directory, so that it stays small.
//!
//! The segment being written belongs on the fast WAL device; old segments with live values do not. A move keeps the
//! number and the bytes of a segment, and therefore all log addresses into it. Only its directory changes:
//!
//! ```text
//!   1. copy   wal-dir/2b.seg -> data/2b.new       sync, then compare with the original
//!   2. rename data/2b.new -> data/2b.seg          sync the directory; a crash now finds two equal files, recovery
//!                                                 removes the original
//!   3. new readers open data/2b.seg; wal-dir/2b.seg is freed when the pins of its epoch are released
//! ```
//!
//! A move leaves free on the data disk what is kept there for copies and checkpoints, without which nothing is freed.
//! One that would not, or failed, is tried again when there is another segment, or space may be available.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use super::chain::SegmentChain;
use super::factory::SegmentFactory;
use crate::disk::File;
use crate::error::JobError;
use crate::format::{UNFINISHED_SUFFIX, file_name};
use crate::read::{SharedFiles, ValueFile};

/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Which segments leave the WAL directory, one at a time.
pub(crate) struct WalDirMoves {
    shared: Arc<SharedFiles>,
    factory: SegmentFactory,
    /// Bytes that sealed segments may take in the WAL directory.
    max_bytes: u64,
    /// The segment of the running job.
    moving: Option<u32>,
    /// The newest segment when there was last found to be nothing to move, or a move began that has not succeeded:
    /// until there is another one, no segment is sealed, and the sealed ones do not grow. This is asked for in every
    /// step of the owner.
    settled_at: Option<u32>,
}

/// Copies a segment into the data directory; runs on a background thread.
pub(crate) struct WalDirMove {
    factory: SegmentFactory,
    file: Arc<ValueFile>,
    from: PathBuf,
    length: u64,
}

/// The result of a [`WalDirMove`].
pub(crate) struct WalDirMoveDone {
    file: Arc<ValueFile>,
    from: PathBuf,
    result: io::Result<(PathBuf, Arc<dyn File>)>,
}

impl WalDirMoves {
    pub(crate) fn new(shared: Arc<SharedFiles>, factory: SegmentFactory, max_bytes: u64) -> WalDirMoves {
        WalDirMoves { shared, factory, max_bytes, moving: None, settled_at: None }
    }

    /// Whether a next move may begin: the WAL directory is a separate one, and no move is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.factory.layout.separate_wal && self.moving.is_none()
    }

    /// The segment that is being moved: its file must not be freed or written.
    pub(crate) fn moving(&self) -> Option<u32> {
        self.moving
    }

    /// Plans to move the oldest sealed segment if the WAL directory holds too much. `active` is the segment being
    /// written, `durable` the end of what is durable. While space is low (`is_low`), any sealed segment is too much:
    /// the disk of the directory may be smaller than the limit.
    pub(crate) fn next_move(
        &mut self,
        chain: &SegmentChain,
        active: Option<u32>,
        durable: u64,
        is_low: bool,
    ) -> Option<WalDirMove> {
        assert!(self.is_idle(), "one segment is moved at a time");
        let newest = chain.newest_number();
        if newest.is_some() && newest == self.settled_at {
            return None;
        }
        let sealed = chain.iter().filter(|segment| Some(segment.number) != active);
        let here: Vec<Arc<ValueFile>> = sealed
            .filter_map(|segment| self.shared.files.get(segment.number))
            .filter(|file| file.path() == Some(self.factory.layout.segment(file.number)))
            .collect();
        // A segment keeps what was allocated for it, however little it holds.
        let bytes: u64 = here.iter().map(|file| file.recorded().max(self.factory.segment_bytes)).sum();
        if bytes <= if is_low { 0 } else { self.max_bytes } {
            self.settled_at = newest;
            return None;
        }
        let oldest = here.first()?;
        // A segment is durable to its end when the opening of a later one is durable.
        let next = chain.iter().find(|segment| segment.number > oldest.number)?;
        if next.opened_at > durable {
            return None;
        }
        self.moving = Some(oldest.number);
        self.settled_at = newest;
        Some(WalDirMove {
            factory: self.factory.clone(),
            file: oldest.clone(),
            from: oldest.path()?,
            length: oldest.recorded(),
        })
    }

    /// Takes the result of a move. Returns the file and its old path, which is to be retired.
    pub(crate) fn moved(&mut self, done: WalDirMoveDone) -> Result<(Arc<ValueFile>, PathBuf), JobError> {
        let WalDirMoveDone { file, from, result } = done;
        assert!(self.moving == Some(file.number), "the move of {:08x} is not the running one", file.number);
        self.moving = None;
        match result {
            Ok((path, handle)) => {
                self.settled_at = None;
                file.set_location(&path, Some(handle));
                self.shared.files.note_opened(&file);
                Ok((file, from))
            }
            Err(source) => Err(JobError::Io { action: "move", path: from, source: Arc::new(source) }),
        }
    }

    /// Space may be available, or has become low: looks again for a segment to move.
    pub(crate) fn retry(&mut self) {
        self.settled_at = None;
    }
}

impl WalDirMove {
    pub(crate) fn run(self) -> WalDirMoveDone {
        let result = self.copy();
        WalDirMoveDone { file: self.file, from: self.from, result }
    }

    fn copy(&self) -> io::Result<(PathBuf, Arc<dyn File>)> {
        if !self.factory.has_space_to_move(self.length)? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let (disk, layout, number) = (&self.factory.disk, &self.factory.layout, self.file.number);
        let unfinished = layout.data.join(file_name(number, UNFINISHED_SUFFIX));
        if disk.exists(&unfinished)? {
            disk.remove(&unfinished)?;
        }
        let source = disk.open(&self.from)?;
        let target = disk.create_new(&unfinished)?;
        let copied = copy(source.as_ref(), target.as_ref(), self.length)
            .and_then(|()| target.sync_data())
            .and_then(|()| compare(source.as_ref(), target.as_ref(), self.length));
        if let Err(error) = copied {
            // Best effort: the next open removes unfinished files.
            let _ = disk.remove(&unfinished);
            return Err(error);
        }
        let path = layout.moved_segment(number);
        disk.rename(&unfinished, &path)?;
        disk.sync_dir(&layout.data)?;
        Ok((path, target))
    }
}

fn copy(source: &dyn File, target: &dyn File, length: u64) -> io::Result<()> {
    each_chunk(length, |offset, buffer| {
        read_all(source, buffer, offset)?;
        target.write_at(&[IoSlice::new(buffer)], offset)
    })
}

fn compare(source: &dyn File, target: &dyn File, length: u64) -> io::Result<()> {
    let mut original = vec![0; COPY_BYTES.min(length) as usize];
    each_chunk(length, |offset, buffer| {
        let original = &mut original[..buffer.len()];
        read_all(source, original, offset)?;
        read_all(target, buffer, offset)?;
        match original == buffer {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the copy differs from the original")),
        }
    })
}

fn each_chunk(length: u64, mut run: impl FnMut(u64, &mut [u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES.min(length) as usize];
    let mut offset = 0;
    while offset < length {
        let count = COPY_BYTES.min(length - offset) as usize;
        run(offset, &mut buffer[..count])?;
        offset += count as u64;
    }
    Ok(())
}

fn read_all(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    match file.read_at(buffer, offset)? == buffer.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests;
