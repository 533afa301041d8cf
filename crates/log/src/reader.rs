//! Reading values by reference, from any thread.
//!
//! A reader takes a [`Pin`] first, then looks at its index, then reads through the pin. What the index showed
//! stays readable for as long as the pin lives. What comes from a file is checked before it is handed out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;

use crate::cache::{Access, ValueCache};
use crate::disk::File;
use crate::error::ReadError;
use crate::files::{Files, ValueFile};
use crate::pins::Pins;
use crate::read_slots::ReadSlot;
use crate::tail::Tail;
use crate::types::{StoredValue, address_at, file_of, offset_of};

/// What readers, jobs and the owner have in common.
pub(crate) struct SharedFiles {
    pub(crate) files: Files,
    pub(crate) tail: RwLock<Tail>,
    pub(crate) cache: ValueCache,
    pub(crate) pins: Pins,
}

/// Hands out pins and keeps the accounts of references. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    pub(crate) shelf: Arc<SharedFiles>,
}

/// A part of a file that did not check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Place of its first byte.
    pub address: u64,
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
    pub fn retain(&self, address: u64, len: u32) {
        self.shelf.files.retain(file_of(address), u64::from(len));
    }

    /// Counts references to many values, given as place and length.
    pub fn retain_all(&self, values: impl Iterator<Item = (u64, u32)>) {
        let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
        for (address, len) in values {
            *bytes.entry(file_of(address)).or_default() += u64::from(len);
        }
        bytes.into_iter().for_each(|(file, bytes)| self.shelf.files.retain(file, bytes));
    }

    /// Takes a reference back. It must have been retained, with the same length.
    pub fn release(&self, address: u64, len: u32) {
        self.shelf.files.release(address, len);
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
    pub fn mark_damaged(&self, address: u64, len: u32) {
        if let Some(file) = self.shelf.files.get(file_of(address)) {
            file.mark_damaged(offset_of(address), len);
        }
    }

    /// Everything known damaged, by place. A value repaired elsewhere is listed until its old file is freed.
    pub fn damaged(&self) -> Vec<Damage> {
        let mut list = Vec::new();
        for file in self.shelf.files.all() {
            let path = file.shown_path();
            list.extend(file.damaged().into_iter().map(|(offset, len)| Damage {
                address: address_at(file.number, u64::from(offset)),
                len,
                path: path.clone(),
            }));
        }
        list
    }
}

/// Keeps files readable; see [`Reader::pin`].
pub struct Pin {
    shelf: Arc<SharedFiles>,
    era: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shelf.pins.unpin(self.era);
    }
}

impl Pin {
    /// Reads one value.
    pub fn read(&self, address: u64, len: u32, checksum: u32) -> Result<Bytes, ReadError> {
        self.shelf.read(StoredValue { address, len, checksum })
    }

    /// Reads many values, neighbours together; the answers are in the order of the question.
    pub fn read_many(&self, values: &[StoredValue]) -> Vec<Result<Bytes, ReadError>> {
        self.shelf.read_many(values)
    }

    /// Reads many values to where they are wanted, neighbours together. The order of `slots` may change. With
    /// [`Access::Query`] they are kept in memory, and looked for there first.
    ///
    /// # Errors
    /// That of one of the values which could not be read; what the slots hold then is nothing to rely on.
    pub fn read_into(&self, slots: &mut [ReadSlot<'_>], access: Access) -> Result<(), ReadError> {
        self.shelf.fill(slots, access)
    }
}

impl SharedFiles {
    pub(crate) fn read(&self, value: StoredValue) -> Result<Bytes, ReadError> {
        if let Some(bytes) = self.recent(value) {
            return Ok(bytes);
        }
        let bytes = self.read_range(value.address, u64::from(value.len))?;
        self.check(value, &bytes)?;
        Ok(bytes)
    }

    /// A value that is in memory. The tail's bytes were checked when they came in, so they are not checked again.
    fn recent(&self, value: StoredValue) -> Option<Bytes> {
        if value.len == 0 { Some(Bytes::new()) } else { self.tail.read().value(value.address, value.len) }
    }

    pub(crate) fn read_many(&self, values: &[StoredValue]) -> Vec<Result<Bytes, ReadError>> {
        let answers: Vec<_> = values.iter().map(|value| self.recent(*value)).collect();
        let rest =
            || values.iter().zip(&answers).filter(|(_, answer)| answer.is_none()).map(|(value, _)| *value);
        let mut buffer = BytesMut::zeroed(rest().map(|value| value.len as usize).sum());
        let mut room = &mut buffer[..];
        let mut slots = Vec::new();
        for value in rest() {
            let (into, left) = std::mem::take(&mut room).split_at_mut(value.len as usize);
            room = left;
            slots.push(ReadSlot { value, into });
        }
        let mut failed = Vec::new();
        self.fill_from_files(&mut slots, &mut |value, error| failed.push((value, error)));
        let mut read = buffer.freeze();
        let answer = |(value, answer): (&StoredValue, Option<Bytes>)| {
            let bytes = answer.unwrap_or_else(|| read.split_to(value.len as usize));
            match failed.iter().find(|(other, _)| other == value) {
                Some((_, error)) => Err(error.clone()),
                None => Ok(bytes),
            }
        };
        values.iter().zip(answers).map(answer).collect()
    }

    /// Bytes of one file, unchecked. A file too short is damage.
    pub(crate) fn read_range(&self, address: u64, len: u64) -> Result<Bytes, ReadError> {
        let mut buffer = BytesMut::zeroed(len as usize);
        self.open(address)?.read(address, &mut buffer)?;
        Ok(buffer.freeze())
    }

    /// The file that a place is in, open.
    pub(crate) fn open(&self, address: u64) -> Result<OpenFile<'_>, ReadError> {
        let number = file_of(address);
        let file = self.files.get(number).ok_or(ReadError::NoFile { file: number, address })?;
        let opened = self.files.open(&file);
        let handle = opened.map_err(|source| read_error(&file, u64::from(offset_of(address)), source))?;
        Ok(OpenFile { shelf: self, file, handle })
    }

    /// Checks what was read from a file.
    pub(crate) fn check(&self, value: StoredValue, bytes: &[u8]) -> Result<(), ReadError> {
        match crc32c::crc32c(bytes) == value.checksum {
            true => Ok(()),
            false => Err(self.damage(value.address, u64::from(value.len))),
        }
    }

    /// Marks a range damaged and says so.
    pub(crate) fn damage(&self, address: u64, len: u64) -> ReadError {
        let Some(file) = self.files.get(file_of(address)) else {
            return ReadError::NoFile { file: file_of(address), address };
        };
        file.mark_damaged(offset_of(address), u32::try_from(len).unwrap_or(u32::MAX));
        ReadError::Damaged { path: file.shown_path(), offset: u64::from(offset_of(address)), len }
    }
}

/// A file that several values may be read from.
pub(crate) struct OpenFile<'s> {
    shelf: &'s SharedFiles,
    file: Arc<ValueFile>,
    handle: Arc<dyn File>,
}

impl OpenFile<'_> {
    pub(crate) fn number(&self) -> u32 {
        self.file.number
    }

    /// Fills `into` from a place in this file, unchecked. A file too short is damage.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), ReadError> {
        let offset = u64::from(offset_of(address));
        let read = self.handle.read_at(into, offset);
        match read.map_err(|source| read_error(&self.file, offset, source))? == into.len() {
            true => Ok(()),
            false => Err(self.shelf.damage(address, into.len() as u64)),
        }
    }
}

fn read_error(file: &ValueFile, offset: u64, source: std::io::Error) -> ReadError {
    match source.kind() {
        std::io::ErrorKind::NotFound => {
            ReadError::NoFile { file: file.number, address: u64::from(file.number) << 32 | offset }
        }
        _ => ReadError::Io { path: file.shown_path(), offset, source: Arc::new(source) },
    }
}
