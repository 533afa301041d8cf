//! What the owner of the log, its jobs and all readers share: files, caches and pins.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;

use super::cache::ValueCache;
use super::pins::Pins;
use super::tail::Tail;
use super::value_files::{ValueFile, ValueFiles};
use crate::disk::File;
use crate::error::ReadError;
use crate::types::{StoredValue, file_of, offset_of};

/// The files and caches of a log. Values are read in `read_values.rs`, entries in `entry_cursor.rs`.
pub(crate) struct SharedFiles {
    pub(crate) files: ValueFiles,
    pub(crate) tail: RwLock<Tail>,
    pub(crate) cache: ValueCache,
    pub(crate) pins: Pins,
}

impl SharedFiles {
    /// Reads a range of one file, unchecked. A file that is too short is damaged.
    pub(crate) fn read_range(&self, address: u64, len: u64) -> Result<Bytes, ReadError> {
        let mut buffer = BytesMut::zeroed(len as usize);
        self.open(address)?.read(address, &mut buffer)?;
        Ok(buffer.freeze())
    }

    /// Opens the file of an address.
    pub(crate) fn open(&self, address: u64) -> Result<OpenFile<'_>, ReadError> {
        let number = file_of(address);
        let file = self.files.get(number).ok_or(ReadError::NoFile { file: number, address })?;
        let opened = self.files.open(&file);
        let handle = opened.map_err(|source| read_error(&file, u64::from(offset_of(address)), source))?;
        Ok(OpenFile { shared: self, file, handle })
    }

    /// Checks a value that was read from a file.
    pub(crate) fn check(&self, value: StoredValue, bytes: &[u8]) -> Result<(), ReadError> {
        match crc32c::crc32c(bytes) == value.checksum {
            true => Ok(()),
            false => Err(self.damage(value.address, u64::from(value.len))),
        }
    }

    /// Notes that a range is damaged and returns the error for it.
    pub(crate) fn damage(&self, address: u64, len: u64) -> ReadError {
        let Some(file) = self.files.get(file_of(address)) else {
            return ReadError::NoFile { file: file_of(address), address };
        };
        file.mark_damaged(offset_of(address), u32::try_from(len).unwrap_or(u32::MAX));
        ReadError::Damaged { path: file.shown_path(), offset: u64::from(offset_of(address)), len }
    }
}

/// An open file, for reading several values.
pub(crate) struct OpenFile<'s> {
    shared: &'s SharedFiles,
    file: Arc<ValueFile>,
    handle: Arc<dyn File>,
}

impl OpenFile<'_> {
    pub(crate) fn number(&self) -> u32 {
        self.file.number
    }

    /// Fills `into` from an address in this file, unchecked. A file that is too short is damaged.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), ReadError> {
        let offset = u64::from(offset_of(address));
        let read = self.handle.read_at(into, offset);
        match read.map_err(|source| read_error(&self.file, offset, source))? == into.len() {
            true => Ok(()),
            false => Err(self.shared.damage(address, into.len() as u64)),
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
