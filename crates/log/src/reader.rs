//! Reading values by reference, from any thread.
//!
//! A reader takes a [`Pin`] first, then looks at its index, then reads through the pin. What the index showed
//! stays readable for as long as the pin lives. Every value is checked before it is handed out.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;

use crate::error::ReadError;
use crate::files::{Files, ValueFile};
use crate::pins::Pins;
use crate::tail::Tail;
use crate::types::{Stored, file_of, offset_of, place_at};

/// Values this close together are read at once: reading a gap of a page costs less than another system call.
const COALESCE_GAP_BYTES: u64 = 4096;
/// Most bytes read at once, gaps included, unless a single value is longer.
const COALESCE_BYTES_MAX: u64 = 1 << 20;

/// What readers, jobs and the owner have in common.
pub(crate) struct Shelf {
    pub(crate) files: Files,
    pub(crate) tail: RwLock<Tail>,
    pub(crate) pins: Pins,
}

/// Hands out pins and keeps the accounts of references. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    pub(crate) shelf: Arc<Shelf>,
}

/// A part of a file that did not check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Place of its first byte.
    pub place: u64,
    /// Bytes.
    pub len: u32,
    /// The file.
    pub path: PathBuf,
}

impl Reader {
    /// Keeps every file that is referenced now until the pin is dropped. Take it before looking at the index.
    pub fn pin(&self) -> Pin {
        Pin { era: self.shelf.pins.pin(), shelf: self.shelf.clone() }
    }

    /// Counts a reference to a value: its file stays.
    pub fn retain(&self, place: u64, len: u32) {
        self.shelf.files.retain(place, len);
    }

    /// Takes a reference back. It must have been retained, with the same length.
    pub fn release(&self, place: u64, len: u32) {
        self.shelf.files.release(place, len);
    }

    /// Bytes of values referenced (etcd's `dbSizeInUse`).
    pub fn live_bytes(&self) -> u64 {
        self.shelf.files.live_bytes()
    }

    /// Bytes written in files that exist, without preallocation (etcd's `dbSize`).
    pub fn file_bytes(&self) -> u64 {
        self.shelf.files.recorded_bytes()
    }

    /// Notes that a value does not check, so that it is neither served nor copied. Reads that fail do so
    /// themselves.
    pub fn mark_damaged(&self, place: u64, len: u32) {
        if let Some(file) = self.shelf.files.get(file_of(place)) {
            file.mark_damaged(offset_of(place), len);
        }
    }

    /// Everything known damaged, by place. A value healed elsewhere is listed until its old file is freed.
    pub fn damaged(&self) -> Vec<Damage> {
        let mut list = Vec::new();
        for file in self.shelf.files.all() {
            let path = file.shown_path();
            list.extend(file.damaged().into_iter().map(|(offset, len)| Damage {
                place: place_at(file.number, u64::from(offset)),
                len,
                path: path.clone(),
            }));
        }
        list
    }
}

/// Keeps files readable; see [`Reader::pin`].
pub struct Pin {
    shelf: Arc<Shelf>,
    era: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shelf.pins.unpin(self.era);
    }
}

impl Pin {
    /// Reads one value.
    pub fn read(&self, place: u64, len: u32, checksum: u32) -> Result<Bytes, ReadError> {
        self.shelf.read(Stored { place, len, checksum })
    }

    /// Reads many values, neighbours together; the answers are in the order of the question.
    pub fn read_many(&self, values: &[Stored]) -> Vec<Result<Bytes, ReadError>> {
        self.shelf.read_many(values)
    }
}

impl Shelf {
    pub(crate) fn read(&self, value: Stored) -> Result<Bytes, ReadError> {
        if value.len == 0 {
            return self.check(value, Bytes::new());
        }
        let recent = self.tail.read().value(value.place, value.len);
        match recent {
            Some(bytes) => self.check(value, bytes),
            None => {
                let bytes = self.read_range(value.place, u64::from(value.len))?;
                self.check(value, bytes)
            }
        }
    }

    pub(crate) fn read_many(&self, values: &[Stored]) -> Vec<Result<Bytes, ReadError>> {
        let mut answers: Vec<Option<Result<Bytes, ReadError>>> = vec![None; values.len()];
        let mut rest = Vec::new();
        {
            let tail = self.tail.read();
            for (at, value) in values.iter().enumerate() {
                let empty = (value.len == 0).then(Bytes::new);
                match empty.or_else(|| tail.value(value.place, value.len)) {
                    Some(bytes) => answers[at] = Some(Ok(bytes)),
                    None => rest.push(at),
                }
            }
        }
        for (value, answer) in values.iter().zip(&mut answers) {
            if let Some(Ok(bytes)) = answer.take() {
                *answer = Some(self.check(*value, bytes));
            }
        }
        rest.sort_by_key(|at| values[*at].place);
        let mut run = 0;
        while run < rest.len() {
            let end = run + neighbours(&rest[run..], values);
            self.read_run(&rest[run..end], values, &mut answers);
            run = end;
        }
        answers.into_iter().map(|answer| answer.expect("every value was read")).collect()
    }

    /// Reads values that lie close together with one call. If that fails, each is tried alone.
    fn read_run(&self, run: &[usize], values: &[Stored], answers: &mut [Option<Result<Bytes, ReadError>>]) {
        let start = values[run[0]].place;
        let end = run.iter().map(|at| end_of(&values[*at])).max().expect("a run is not empty");
        let Ok(all) = self.read_range(start, end - start) else {
            for at in run {
                answers[*at] = Some(self.read(values[*at]));
            }
            return;
        };
        for at in run {
            let value = values[*at];
            let from = (value.place - start) as usize;
            answers[*at] = Some(self.check(value, all.slice(from..from + value.len as usize)));
        }
    }

    /// Bytes of one file, unchecked. A file too short is damage.
    pub(crate) fn read_range(&self, place: u64, len: u64) -> Result<Bytes, ReadError> {
        let (number, offset) = (file_of(place), u64::from(offset_of(place)));
        let file = self.files.get(number).ok_or(ReadError::NoFile { file: number, place })?;
        let io = |source| read_error(&file, offset, source);
        let handle = self.files.open(&file).map_err(io)?;
        let mut buffer = BytesMut::zeroed(len as usize);
        let count = handle.read_at(&mut buffer, offset).map_err(io)?;
        match count as u64 == len {
            true => Ok(buffer.freeze()),
            false => Err(self.damage(place, len)),
        }
    }

    fn check(&self, value: Stored, bytes: Bytes) -> Result<Bytes, ReadError> {
        match crc32c::crc32c(&bytes) == value.checksum {
            true => Ok(bytes),
            false => Err(self.damage(value.place, u64::from(value.len))),
        }
    }

    /// Marks a range damaged and says so.
    pub(crate) fn damage(&self, place: u64, len: u64) -> ReadError {
        let Some(file) = self.files.get(file_of(place)) else {
            return ReadError::NoFile { file: file_of(place), place };
        };
        file.mark_damaged(offset_of(place), u32::try_from(len).unwrap_or(u32::MAX));
        ReadError::Damaged { path: file.shown_path(), offset: u64::from(offset_of(place)), len }
    }
}

fn read_error(file: &ValueFile, offset: u64, source: std::io::Error) -> ReadError {
    match source.kind() {
        std::io::ErrorKind::NotFound => {
            ReadError::NoFile { file: file.number, place: u64::from(file.number) << 32 | offset }
        }
        _ => ReadError::Io { path: file.shown_path(), offset, source: Arc::new(source) },
    }
}

fn end_of(value: &Stored) -> u64 {
    value.place + u64::from(value.len)
}

/// How many of the values, sorted by place, are worth reading at once from the first on.
fn neighbours(sorted: &[usize], values: &[Stored]) -> usize {
    let start = values[sorted[0]].place;
    let mut end = end_of(&values[sorted[0]]);
    let mut count = 1;
    for at in &sorted[1..] {
        let value = &values[*at];
        let reach = end_of(value).max(end);
        let close = value.place <= end + COALESCE_GAP_BYTES && reach - start <= COALESCE_BYTES_MAX;
        if file_of(value.place) != file_of(start) || !close {
            break;
        }
        end = reach;
        count += 1;
    }
    count
}
