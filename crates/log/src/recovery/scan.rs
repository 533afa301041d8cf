//! Reading a segment's records in order, and telling a torn tail from corruption.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::File;
use crate::error::OpenError;
use crate::header::HEADER_BYTES;
use crate::record::{ALIGNMENT, HEAD_BYTES, Head, NotRecord, read_u32};

/// Bytes read at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// A segment file being read.
pub(super) struct Scan<'a> {
    pub(super) path: &'a Path,
    pub(super) file: Arc<dyn File>,
    pub(super) number: u32,
    pub(super) salt: u32,
    /// Nothing is read from here on.
    pub(super) limit: u64,
    window: Bytes,
    window_start: u64,
}

/// What stands at an offset.
pub(super) enum Found {
    Record(Head, Bytes),
    Nothing(NotRecord),
}

impl<'a> Scan<'a> {
    pub(super) fn new(path: &'a Path, file: Arc<dyn File>, number: u32, salt: u32, limit: u64) -> Scan<'a> {
        Scan { path, file, number, salt, limit, window: Bytes::new(), window_start: 0 }
    }

    /// The record at an offset, whole and checked.
    pub(super) fn record(&mut self, offset: u64) -> Result<Found, OpenError> {
        if offset + HEAD_BYTES > self.limit {
            return Ok(Found::Nothing(NotRecord::Stale));
        }
        let head = match Head::decode(&self.bytes(offset, HEAD_BYTES)?, self.number, self.salt) {
            Ok(head) => head,
            Err(why) => return Ok(Found::Nothing(why)),
        };
        if offset + head.span() > self.limit {
            return Ok(Found::Nothing(NotRecord::CutShort));
        }
        let body = self.bytes(offset + HEAD_BYTES, u64::from(head.length))?;
        match crc32c::crc32c(&body) == head.checksum {
            true => Ok(Found::Record(head, body)),
            false => Ok(Found::Nothing(NotRecord::Damaged)),
        }
    }

    /// Whether a place where a record could be was never written under this number: zeros, or a record of the
    /// file's earlier life.
    pub(super) fn is_clean(&mut self, offset: u64) -> Result<bool, OpenError> {
        if offset + HEAD_BYTES > self.limit {
            return Ok(true);
        }
        let bytes = self.bytes(offset, HEAD_BYTES)?;
        let number = read_u32(&bytes, 4);
        let earlier = number != self.number && Head::decode(&bytes, number, self.salt).is_ok();
        Ok(earlier || bytes.iter().all(|byte| *byte == 0))
    }

    /// Whether any record of this segment behind `offset` says that `position` was durable.
    pub(super) fn proves_durable(&mut self, offset: u64, position: u64) -> Result<bool, OpenError> {
        let mut at = offset.next_multiple_of(ALIGNMENT).max(HEADER_BYTES);
        while at + HEAD_BYTES <= self.limit {
            let length = (self.limit - at).min(WINDOW_BYTES);
            let window = self.bytes(at, length)?;
            let mut within = 0;
            while within + HEAD_BYTES as usize <= window.len() {
                let head = Head::decode(&window[within..], self.number, self.salt);
                if head.is_ok_and(|head| head.synced > position) {
                    return Ok(true);
                }
                within += ALIGNMENT as usize;
            }
            at += within as u64;
        }
        Ok(false)
    }

    fn bytes(&mut self, offset: u64, length: u64) -> Result<Bytes, OpenError> {
        let end = offset + length;
        if offset < self.window_start || end > self.window_start + self.window.len() as u64 {
            let ahead = (self.limit - offset).min(WINDOW_BYTES).max(length);
            let mut window = vec![0; ahead as usize];
            let count = self.file.read_at(&mut window, offset).map_err(OpenError::io("read", self.path))?;
            if (count as u64) < length {
                return Err(OpenError::corrupt(self.path, offset, "the file is shorter than it was"));
            }
            window.truncate(count);
            self.window = Bytes::from(window);
            self.window_start = offset;
        }
        let from = (offset - self.window_start) as usize;
        Ok(self.window.slice(from..from + length as usize))
    }
}
