//! Reads the records of a segment in order, and distinguishes a torn write from corruption.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::File;
use crate::error::OpenError;
use crate::format::{ALIGNMENT, HEAD_BYTES, HEADER_BYTES, NotRecord, RecordHead, read_u32};

/// Bytes read at once of a segment whose records are read.
const WINDOW_BYTES: u64 = 1 << 20;

/// Bytes read of a segment of which only the opening is wanted: a block of the file system. There may be thousands of
/// segments.
const OPENING_WINDOW_BYTES: u64 = 4096;

/// A segment file being read.
pub(super) struct SegmentScan<'a> {
    pub(super) path: &'a Path,
    pub(super) file: Arc<dyn File>,
    pub(super) number: u32,
    pub(super) salt: u32,
    /// Nothing is read at or after this offset.
    pub(super) limit: u64,
    /// Bytes read at once.
    ahead: u64,
    window: Bytes,
    window_start: u64,
}

/// What is at an offset.
pub(super) enum ScannedRecord {
    /// A record with its body; all checksums match.
    Valid(RecordHead, Bytes),
    /// A record whose head is intact; its body is not the one that was written.
    DamagedBody(RecordHead, Bytes),
    Invalid(NotRecord),
}

impl<'a> SegmentScan<'a> {
    pub(super) fn new(
        path: &'a Path,
        file: Arc<dyn File>,
        number: u32,
        salt: u32,
        limit: u64,
    ) -> SegmentScan<'a> {
        let window = Bytes::new();
        SegmentScan { path, file, number, salt, limit, ahead: WINDOW_BYTES, window, window_start: 0 }
    }

    /// Only the first record will be read.
    pub(super) fn of_opening(self) -> SegmentScan<'a> {
        SegmentScan { ahead: OPENING_WINDOW_BYTES, ..self }
    }

    /// The record at an offset, whole and checked.
    pub(super) fn record(&mut self, offset: u64) -> Result<ScannedRecord, OpenError> {
        if offset + HEAD_BYTES > self.limit {
            return Ok(ScannedRecord::Invalid(NotRecord::Stale));
        }
        let head = match RecordHead::decode(&self.bytes(offset, HEAD_BYTES)?, self.number, self.salt) {
            Ok(head) => head,
            Err(why) => return Ok(ScannedRecord::Invalid(why)),
        };
        if offset + head.span() > self.limit {
            return Ok(ScannedRecord::Invalid(NotRecord::CutShort));
        }
        let body = self.bytes(offset + HEAD_BYTES, u64::from(head.length))?;
        match crc32c::crc32c(&body) == head.checksum {
            true => Ok(ScannedRecord::Valid(head, body)),
            false => Ok(ScannedRecord::DamagedBody(head, body)),
        }
    }

    /// Whether no record was written at an offset under this number: it holds zeros, or a record from before the file
    /// was recycled.
    pub(super) fn is_clean(&mut self, offset: u64) -> Result<bool, OpenError> {
        if offset + HEAD_BYTES > self.limit {
            return Ok(true);
        }
        let bytes = self.bytes(offset, HEAD_BYTES)?;
        let number = read_u32(&bytes, 4);
        let earlier = number != self.number && RecordHead::decode(&bytes, number, self.salt).is_ok();
        Ok(earlier || bytes.iter().all(|byte| *byte == 0))
    }

    /// Whether any record of this segment after `offset` says that `position` was durable.
    pub(super) fn proves_durable(&mut self, offset: u64, position: u64) -> Result<bool, OpenError> {
        let mut at = offset.next_multiple_of(ALIGNMENT).max(HEADER_BYTES);
        while let Some(written) = self.next_written(at)? {
            // A head may begin in zeros, if not a whole one.
            at = at.max(written.saturating_sub(HEAD_BYTES).next_multiple_of(ALIGNMENT));
            if at + HEAD_BYTES > self.limit {
                break;
            }
            let length = (self.limit - at).min(WINDOW_BYTES);
            let window = self.bytes(at, length)?;
            let mut within = 0;
            while within + HEAD_BYTES as usize <= window.len() {
                let head = RecordHead::decode(&window[within..], self.number, self.salt);
                if head.is_ok_and(|head| head.synced > position) {
                    return Ok(true);
                }
                within += ALIGNMENT as usize;
            }
            at += within as u64;
        }
        Ok(false)
    }

    /// Most of a segment may never have been written: blocks of which the file system knows that are not read.
    fn next_written(&self, offset: u64) -> Result<Option<u64>, OpenError> {
        self.file.next_written(offset).map_err(OpenError::io("look for data in", self.path))
    }

    fn bytes(&mut self, offset: u64, length: u64) -> Result<Bytes, OpenError> {
        let end = offset + length;
        if offset < self.window_start || end > self.window_start + self.window.len() as u64 {
            let ahead = (self.limit - offset).min(self.ahead).max(length);
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
