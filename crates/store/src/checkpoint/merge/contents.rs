//! One checkpoint of a chain, opened: its head, and a cursor over each of its sections.
//!
//! The sections of a file lie one behind the other, but a merge needs them side by side, key by key. So each section is
//! read by a copy of the chunks' iterator, which skips the sections before:
//!
//! ```text
//! header small leases | removed b | relocated a c | keys a b d | end
//! head                  ^           ^               ^                  three positions in one file
//! ```

use bytes::Bytes;

use super::decoded_keys::{DecodedKeys, OUT_OF_ORDER};
use crate::checkpoint::codec::FieldReader;
use crate::checkpoint::error::RestoreError;
use crate::checkpoint::frame::{FrameKind, FrameOrder, Frames};
use crate::checkpoint::header::{CheckpointHeader, Predecessor};
use crate::lessor::LeaseInfo;
use crate::types::Revision;

/// A lease as a checkpoint has it: `None` if it ended.
pub(in crate::checkpoint) type LeaseEntry = (i64, Option<LeaseInfo>);

/// An opened checkpoint.
pub(in crate::checkpoint) struct CheckpointContents<I> {
    pub(in crate::checkpoint) header: CheckpointHeader,
    /// The body of the frame of small state.
    pub(in crate::checkpoint) small: Bytes,
    pub(in crate::checkpoint) leases: Vec<LeaseEntry>,
    pub(in crate::checkpoint) removed: ListCursor<I>,
    pub(in crate::checkpoint) relocated: ListCursor<I>,
    pub(in crate::checkpoint) keys: KeysReader<I>,
}

impl<I: Iterator<Item = Bytes> + Clone> CheckpointContents<I> {
    /// Reads the head of a checkpoint that must follow what is `before`.
    pub(in crate::checkpoint) fn open(
        chunks: I,
        before: Predecessor<'_>,
    ) -> Result<CheckpointContents<I>, RestoreError> {
        let mut frames = OrderedFrames { frames: Frames::new(chunks), order: FrameOrder::default() };
        let (_, body) = frames.next()?;
        let header = CheckpointHeader::read(&mut FieldReader(&body), before)?;
        let (_, small) = frames.next()?;
        let mut leases = Vec::new();
        let content = loop {
            let here = frames.clone();
            match frames.next()? {
                (FrameKind::Leases, body) => read_leases(&body, &mut leases)?,
                _ => break here,
            }
        };
        let section = |kind| SectionReader { frames: content.clone(), kind, ended: false, keys: None };
        Ok(CheckpointContents {
            header,
            small,
            leases,
            removed: ListCursor::new(section(FrameKind::Removed))?,
            relocated: ListCursor::new(section(FrameKind::Relocated))?,
            keys: KeysReader::new(section(FrameKind::Keys)),
        })
    }
}

/// Reads the leases of a frame. A TTL of 0 means that the lease has ended.
pub(in crate::checkpoint) fn read_leases(
    body: &[u8],
    leases: &mut Vec<LeaseEntry>,
) -> Result<(), RestoreError> {
    let mut fields = FieldReader(body);
    while !fields.is_empty() {
        let id = fields.signed()?;
        let ttl: i64 = fields.small()?;
        let lease = match ttl {
            0 => None,
            _ => Some(LeaseInfo { id, ttl, remaining: fields.small()? }),
        };
        leases.push((id, lease));
    }
    Ok(())
}

/// The frames of a checkpoint, in their order. A clone goes on at the same place.
#[derive(Clone)]
struct OrderedFrames<I> {
    frames: Frames<I>,
    order: FrameOrder,
}

impl<I: Iterator<Item = Bytes>> OrderedFrames<I> {
    /// The next frame.
    fn next(&mut self) -> Result<(FrameKind, Bytes), RestoreError> {
        let (kind, body) = self.frames.next()?.ok_or(RestoreError::Truncated)?;
        self.order.next(kind)?;
        Ok((kind, body))
    }

    /// Checks that no frame follows.
    fn end(&mut self) -> Result<(), RestoreError> {
        self.frames.next()?.map_or(Ok(()), |(kind, _)| self.order.next(kind))
    }
}

/// The frames of one kind.
struct SectionReader<I> {
    frames: OrderedFrames<I>,
    kind: FrameKind,
    ended: bool,
    /// The number of keys that the last frame of the checkpoint says, if it was read.
    keys: Option<u64>,
}

impl<I: Iterator<Item = Bytes>> SectionReader<I> {
    /// The body of the next frame; `None` behind the last one, also if called again.
    fn next(&mut self) -> Result<Option<Bytes>, RestoreError> {
        while !self.ended {
            let (kind, body) = self.frames.next()?;
            if kind == self.kind {
                return Ok(Some(body));
            }
            self.ended = kind > self.kind;
            if kind == FrameKind::End {
                self.keys = Some(u64::from_le_bytes(FieldReader(&body).array()?));
            }
        }
        Ok(None)
    }
}

/// An entry of the list of removed keys, or of relocated values.
pub(in crate::checkpoint) struct ListEntry {
    pub(in crate::checkpoint) key: Bytes,
    /// Of a relocated value: the version and its new address.
    pub(in crate::checkpoint) relocated: (Revision, u64),
}

/// Walks the removed keys, or the relocated values, in the order of keys.
pub(in crate::checkpoint) struct ListCursor<I> {
    section: SectionReader<I>,
    /// What is left of the frame.
    body: Bytes,
    head: Option<ListEntry>,
}

impl<I: Iterator<Item = Bytes>> ListCursor<I> {
    fn new(section: SectionReader<I>) -> Result<ListCursor<I>, RestoreError> {
        let mut cursor = ListCursor { section, body: Bytes::new(), head: None };
        cursor.advance()?;
        Ok(cursor)
    }

    /// The entry at which the cursor stands; `None` behind the last.
    pub(in crate::checkpoint) fn head(&self) -> Option<&ListEntry> {
        self.head.as_ref()
    }

    /// Goes to the next entry.
    pub(in crate::checkpoint) fn advance(&mut self) -> Result<(), RestoreError> {
        while self.body.is_empty() {
            match self.section.next()? {
                Some(body) => self.body = body,
                None => {
                    self.head = None;
                    return Ok(());
                }
            }
        }
        let mut fields = FieldReader(&self.body);
        let key = self.body.slice_ref(fields.bytes()?);
        let mut relocated = (Revision::default(), 0);
        if self.section.kind == FrameKind::Relocated {
            relocated = (fields.revision()?, u64::from_le_bytes(fields.array()?));
            if relocated.1 == 0 {
                return Err(RestoreError::Malformed("a relocated value has no address"));
            }
        }
        if self.head.as_ref().is_some_and(|head| head.key > key) {
            return Err(OUT_OF_ORDER);
        }
        self.body = self.body.slice_ref(fields.0);
        self.head = Some(ListEntry { key, relocated });
        Ok(())
    }
}

/// Reads and decodes frames of keys ahead of the merge.
pub(in crate::checkpoint) struct KeysReader<I> {
    section: SectionReader<I>,
    /// Keys decoded so far.
    keys: u64,
    /// Bytes to read at the next [`read`](Self::read).
    pub(in crate::checkpoint) wanted: usize,
    /// What was read and not taken yet.
    batch: KeysBatch,
}

/// Frames that were read together.
#[derive(Default)]
pub(in crate::checkpoint) struct KeysBatch {
    /// With the bytes that each had in the file.
    pub(in crate::checkpoint) frames: Vec<(DecodedKeys, usize)>,
    /// Whether these are the last of the checkpoint.
    pub(in crate::checkpoint) is_last: bool,
    failed: Option<RestoreError>,
}

impl<I: Iterator<Item = Bytes>> KeysReader<I> {
    fn new(section: SectionReader<I>) -> KeysReader<I> {
        KeysReader { section, keys: 0, wanted: 0, batch: KeysBatch::default() }
    }

    /// Reads as many bytes as are wanted, but whole frames.
    pub(in crate::checkpoint) fn read(&mut self) {
        let result = self.try_read();
        self.batch.failed = result.err();
        self.wanted = 0;
    }

    fn try_read(&mut self) -> Result<(), RestoreError> {
        let mut bytes = 0;
        while bytes < self.wanted {
            let Some(body) = self.section.next()? else { return self.end() };
            let decoded = DecodedKeys::decode(&body, usize::MAX)?;
            bytes += body.len();
            self.keys += decoded.len() as u64;
            self.batch.frames.push((decoded, body.len()));
        }
        Ok(())
    }

    /// All keys were read, and nothing follows.
    fn end(&mut self) -> Result<(), RestoreError> {
        if self.section.keys != Some(self.keys) {
            return Err(RestoreError::Malformed("keys are missing"));
        }
        self.section.frames.end()?;
        self.batch.is_last = true;
        Ok(())
    }

    /// What was read since this was called last.
    pub(in crate::checkpoint) fn take(&mut self) -> Result<KeysBatch, RestoreError> {
        let batch = std::mem::take(&mut self.batch);
        match batch.failed {
            Some(error) => Err(error),
            None => Ok(batch),
        }
    }
}
