//! What a file of values says it holds: the entries of a segment, or the values that the footer of a data segment
//! names.
//!
//! Entries tell nothing of which of their values are referenced; the caller looks that up. Entries that were replaced
//! before they were committed are among them, and nothing refers to their values.

use std::sync::Arc;

use bytes::Bytes;

use super::footer::{FooterEntries, FooterLocation, TRAILER_BYTES};
use crate::error::ReadError;
use crate::format::{HEADER_BYTES, PAYLOAD_OFFSET, RecordKind};
use crate::read::{EntryCursor, Pin, SharedFiles, entry_of};
use crate::types::{Entry, StoredValue, address_at, offset_of};

/// One part of what a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// An entry, and the log address of its payload.
    Entry(Entry, u64),
    /// A value, and the tag it was written with.
    Value(StoredValue, Bytes),
}

/// Reads what a file holds, from its beginning or from where another left off. Reads the disk, off the owner's thread.
pub struct FileContents {
    source: ContentSource,
    /// Parts returned so far: where to go on.
    position: u64,
    pin: Pin,
}

enum ContentSource {
    /// A segment: the address of the next record.
    Segment(EntryCursor, u64),
    /// A data segment: what its footer names, once it is read.
    Data { shared: Arc<SharedFiles>, file: u32, entries: Option<FooterEntries> },
}

impl FileContents {
    /// The contents of a segment from a [position](FileContents::position) on.
    pub(super) fn of_segment(shared: &Arc<SharedFiles>, salt: u32, file: u32, position: u64) -> FileContents {
        let start = address_at(file, position.max(HEADER_BYTES));
        let cursor = EntryCursor::new(shared.clone(), salt, u64::MAX);
        FileContents { source: ContentSource::Segment(cursor, start), position, pin: Pin::new(shared) }
    }

    /// The contents of a data segment from a [position](FileContents::position) on.
    pub(super) fn of_data_segment(shared: &Arc<SharedFiles>, file: u32, position: u64) -> FileContents {
        let source = ContentSource::Data { shared: shared.clone(), file, entries: None };
        FileContents { source, position, pin: Pin::new(shared) }
    }

    /// Where another reader of this file can go on.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reads values of this file; see [`Pin::read_many`].
    pub fn read_many(&self, values: &[StoredValue]) -> Vec<Result<Bytes, ReadError>> {
        self.pin.read_many(values)
    }

    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged, or does not say what it holds.
    pub fn next_part(&mut self) -> Result<Option<Content>, ReadError> {
        match &mut self.source {
            ContentSource::Segment(cursor, address) => loop {
                let Some((head, body, after)) = cursor.record(*address)? else { return Ok(None) };
                let payload = *address + PAYLOAD_OFFSET;
                *address = after;
                self.position = u64::from(offset_of(after));
                if head.kind == RecordKind::Entry
                    && let Some(entry) = entry_of(&body)
                {
                    return Ok(Some(Content::Entry(entry, payload)));
                }
            },
            ContentSource::Data { shared, file, entries } => {
                let entries = match entries {
                    Some(entries) => entries,
                    None => {
                        let skipped = usize::try_from(self.position).unwrap_or(usize::MAX);
                        let mut found = read_footer(shared, *file)?;
                        if let Some(last) = skipped.checked_sub(1) {
                            found.nth(last);
                        }
                        entries.insert(found)
                    }
                };
                let next = entries.next();
                self.position += u64::from(next.is_some());
                Ok(next.map(|(value, tag)| Content::Value(value, tag)))
            }
        }
    }
}

/// The entries of a data segment's footer.
fn read_footer(shared: &SharedFiles, number: u32) -> Result<FooterEntries, ReadError> {
    let file = shared.files.get(number);
    let bytes = file.as_ref().map_or(0, |file| file.recorded());
    let no_footer = |at: u64| shared.damage(address_at(number, at), TRAILER_BYTES);
    let Some(trailer) = bytes.checked_sub(TRAILER_BYTES) else { return Err(no_footer(0)) };
    let location = shared.read_range(address_at(number, trailer), TRAILER_BYTES)?;
    let location = FooterLocation::decode(&location, bytes).ok_or_else(|| no_footer(trailer))?;
    let entries = shared.read_range(address_at(number, location.start), location.length)?;
    location.entries(entries, number).ok_or_else(|| no_footer(location.start))
}
