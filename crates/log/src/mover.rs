//! Moving sealed segments out of a separate WAL directory, so that it stays small.
//!
//! A segment keeps its number and bytes; only its directory changes. The copy gets its name when it is
//! durable and was read back, so wherever a crash strikes, one whole file of that number is found.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use crate::background::BackgroundError;
use crate::disk::{Disk, File};
use crate::files::ValueFile;
use crate::layout::{Layout, UNFINISHED_SUFFIX, file_name};
use crate::log::Log;

/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

pub(crate) struct Move {
    disk: Arc<dyn Disk>,
    layout: Arc<Layout>,
    file: Arc<ValueFile>,
    from: PathBuf,
    length: u64,
}

pub(crate) struct Moved {
    file: Arc<ValueFile>,
    from: PathBuf,
    result: io::Result<(PathBuf, Arc<dyn File>)>,
}

impl Move {
    pub(crate) fn run(self) -> Moved {
        let result = self.copy();
        Moved { file: self.file, from: self.from, result }
    }

    fn copy(&self) -> io::Result<(PathBuf, Arc<dyn File>)> {
        let number = self.file.number;
        let unfinished = self.layout.data.join(file_name(number, UNFINISHED_SUFFIX));
        if self.disk.exists(&unfinished)? {
            self.disk.remove(&unfinished)?;
        }
        let source = self.disk.open(&self.from)?;
        let target = self.disk.create_new(&unfinished)?;
        let copied = copy(source.as_ref(), target.as_ref(), self.length)
            .and_then(|()| target.sync_data())
            .and_then(|()| compare(source.as_ref(), target.as_ref(), self.length));
        if let Err(error) = copied {
            // Best effort: the next open removes what stays.
            let _ = self.disk.remove(&unfinished);
            return Err(error);
        }
        let path = self.layout.moved_segment(number);
        self.disk.rename(&unfinished, &path)?;
        self.disk.sync_dir(&self.layout.data)?;
        Ok((path, target))
    }
}

fn copy(source: &dyn File, target: &dyn File, length: u64) -> io::Result<()> {
    each_piece(length, |offset, buffer| {
        read_all(source, buffer, offset)?;
        target.write_at(&[IoSlice::new(buffer)], offset)
    })
}

fn compare(source: &dyn File, target: &dyn File, length: u64) -> io::Result<()> {
    let mut original = vec![0; COPY_BYTES.min(length) as usize];
    each_piece(length, |offset, buffer| {
        let original = &mut original[..buffer.len()];
        read_all(source, original, offset)?;
        read_all(target, buffer, offset)?;
        match original == buffer {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the copy differs from the original")),
        }
    })
}

fn each_piece(length: u64, mut piece: impl FnMut(u64, &mut [u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES.min(length) as usize];
    let mut offset = 0;
    while offset < length {
        let count = COPY_BYTES.min(length - offset) as usize;
        piece(offset, &mut buffer[..count])?;
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

impl Log {
    /// Moves the oldest sealed segment when the WAL directory holds more than it should.
    pub(crate) fn move_job(&mut self) -> Option<Move> {
        if !self.workshop.layout.separate_wal || self.moving.is_some() {
            return None;
        }
        let active = self.active.as_ref().map(|active| active.file.number);
        let sealed = self.segments.iter().filter(|segment| Some(segment.number) != active);
        let here: Vec<Arc<ValueFile>> = sealed
            .filter_map(|segment| self.shelf.files.get(segment.number))
            .filter(|file| file.path() == Some(self.workshop.layout.segment(file.number)))
            .collect();
        let bytes: u64 = here.iter().map(|file| file.recorded()).sum();
        let oldest = here.first()?;
        // A segment moves only when it is durable to its end: when a later one has been begun and is durable.
        let next = self.segments.iter().find(|segment| segment.number > oldest.number)?;
        if bytes <= self.wal_dir_bytes || next.opened_at > self.durable {
            return None;
        }
        self.moving = Some(oldest.number);
        Some(Move {
            disk: self.workshop.disk.clone(),
            layout: self.workshop.layout.clone(),
            file: oldest.clone(),
            from: oldest.path()?,
            length: oldest.recorded(),
        })
    }

    pub(crate) fn moved(&mut self, moved: Moved) -> Result<(), BackgroundError> {
        self.moving = None;
        let Moved { file, from, result } = moved;
        match result {
            Ok((path, handle)) => {
                file.set_location(&path, Some(handle));
                self.shelf.files.note_opened(file.number);
                self.retire(file, from);
                Ok(())
            }
            Err(source) => Err(BackgroundError { action: "move", path: from, source }),
        }
    }
}
