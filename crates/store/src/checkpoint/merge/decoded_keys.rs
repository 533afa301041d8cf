//! The keys of a frame, decoded: made by the tasks that read a chain, consumed by the one that merges it.

use std::ops::Range;

use crate::checkpoint::codec::FieldReader;
use crate::checkpoint::error::RestoreError;
use crate::index::Version;

/// Bytes of an entry with one version in a checkpoint, about: for how many entries memory is reserved.
const ENTRY_BYTES: usize = 24;

pub(in crate::checkpoint) const OUT_OF_ORDER: RestoreError =
    RestoreError::Malformed("versions or keys are out of order");

/// The entries of one frame of keys, in order.
#[derive(Default)]
pub(in crate::checkpoint) struct DecodedKeys {
    /// All keys, one after the other.
    bytes: Vec<u8>,
    versions: Vec<Version>,
    entries: Vec<DecodedKey>,
}

/// Where the parts of an entry lie.
#[derive(Clone, Default)]
struct DecodedKey {
    key: Range<usize>,
    versions: Range<usize>,
    whole: bool,
}

/// A key in a checkpoint.
#[derive(Clone, Copy)]
pub(in crate::checkpoint) struct KeyWithVersions<'a> {
    pub(in crate::checkpoint) key: &'a [u8],
    /// Whether these are all versions of the key; otherwise they follow those of the checkpoints before.
    pub(in crate::checkpoint) whole: bool,
    /// Oldest first; at least one.
    pub(in crate::checkpoint) versions: &'a [Version],
}

impl DecodedKeys {
    /// Decodes the body of a frame of keys. Whether keys ascend is for the caller to check, across frames, too.
    ///
    /// # Errors
    /// It is malformed, versions do not ascend, or the keys have more than `max_key_bytes` bytes together.
    pub(in crate::checkpoint) fn decode(
        body: &[u8],
        max_key_bytes: usize,
    ) -> Result<DecodedKeys, RestoreError> {
        let expected = body.len() / ENTRY_BYTES;
        let mut decoded = DecodedKeys {
            bytes: Vec::with_capacity(body.len() / 2),
            versions: Vec::with_capacity(expected),
            entries: Vec::with_capacity(expected),
        };
        let mut fields = FieldReader(body);
        while !fields.is_empty() {
            decoded.read_entry(&mut fields, max_key_bytes)?;
        }
        Ok(decoded)
    }

    fn read_entry(&mut self, fields: &mut FieldReader<'_>, max_key_bytes: usize) -> Result<(), RestoreError> {
        let before = self.entries.last().map_or(0..0, |entry| entry.key.clone());
        let (shared, rest) = fields.key_after(before.len())?;
        let start = self.bytes.len();
        if start + shared + rest.len() > max_key_bytes {
            return Err(RestoreError::Malformed("the keys of a frame are too long"));
        }
        self.bytes.extend_from_within(before.start..before.start + shared);
        self.bytes.extend_from_slice(rest);
        let key = start..self.bytes.len();
        let count_and_whole: u64 = fields.number()?;
        let first = self.versions.len();
        for _ in 0..count_and_whole >> 1 {
            let version = fields.version()?;
            if self.versions[first..].last().is_some_and(|last| last.revision >= version.revision) {
                return Err(OUT_OF_ORDER);
            }
            self.versions.push(version);
        }
        let versions = first..self.versions.len();
        if versions.is_empty() {
            return Err(RestoreError::Malformed("a key without versions"));
        }
        self.entries.push(DecodedKey { key, versions, whole: count_and_whole & 1 == 1 });
        Ok(())
    }

    /// The number of entries.
    pub(in crate::checkpoint) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry at a position below `len`.
    pub(in crate::checkpoint) fn entry(&self, at: usize) -> KeyWithVersions<'_> {
        let DecodedKey { key, versions, whole } = &self.entries[at];
        KeyWithVersions {
            key: &self.bytes[key.clone()],
            whole: *whole,
            versions: &self.versions[versions.clone()],
        }
    }
}
