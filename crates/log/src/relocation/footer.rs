//! The footer of a data segment: which values it holds, so that relocation need not search the whole index for them.
//!
//! ```text
//!   header | v1 | v2 | v3 | (v1, "a") (v2, "b") (v3, "c") | trailer
//!                         ^ footer                        ^ magic, version, count, where the footer begins, checksums
//! ```
//!
//! A *tag* is what the owner of the values finds a value's references by; the log does not look inside. The footer is a
//! hint: whether a value is still referenced is looked up by its tag, and nothing is freed on the footer's word. A data
//! segment without a footer, or with a damaged one, is relocated by searching the index. Releases that know no footers
//! see bytes that nothing refers to, so they can read these files too.
//!
//! Numbers are little-endian. An entry is the offset, length and CRC-32C of a value (4 bytes each), the length of its
//! tag (4), and the tag. The trailer is [`TRAILER_BYTES`] long.

use bytes::{Buf, BufMut, Bytes};

use crate::format::{read_u32, read_u64};
use crate::types::{StoredValue, address_at, offset_of};

/// Bytes of the trailer, which ends the file.
pub(crate) const TRAILER_BYTES: u64 = 40;

/// Bytes of an entry beside its tag.
pub(crate) const FOOTER_ENTRY_BYTES: u64 = 16;

const MAGIC: &[u8; 8] = b"STELEFTR";
const VERSION: u32 = 1;

/// The entries of a footer being collected.
#[derive(Default)]
pub(crate) struct FooterBuilder {
    entries: Vec<u8>,
    count: u32,
}

impl FooterBuilder {
    pub(crate) fn push(&mut self, value: StoredValue, tag: &[u8]) {
        self.entries.put_u32_le(offset_of(value.address));
        self.entries.put_u32_le(value.len);
        self.entries.put_u32_le(value.checksum);
        self.entries.put_u32_le(u32::try_from(tag.len()).expect("a tag is far below 4 GiB"));
        self.entries.extend_from_slice(tag);
        self.count += 1;
    }

    /// Bytes that the footer takes in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.len() as u64 + TRAILER_BYTES
    }

    /// Entries and trailer, for a file whose values end at `start`.
    pub(crate) fn finish(self, start: u64) -> Vec<u8> {
        let checksum = crc32c::crc32c(&self.entries);
        let mut bytes = self.entries;
        let trailer = bytes.len();
        bytes.extend_from_slice(MAGIC);
        bytes.put_u32_le(VERSION);
        bytes.put_u32_le(self.count);
        bytes.put_u64_le(start);
        bytes.put_u64_le(trailer as u64);
        bytes.put_u32_le(checksum);
        let checksum = crc32c::crc32c(&bytes[trailer..]);
        bytes.put_u32_le(checksum);
        debug_assert_eq!(bytes.len() - trailer, TRAILER_BYTES as usize, "the trailer has its length");
        bytes
    }
}

/// Where the footer of a file is, as its trailer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FooterLocation {
    /// Offset of the first entry, where the values end.
    pub(crate) start: u64,
    /// Bytes of the entries.
    pub(crate) length: u64,
    count: u32,
    checksum: u32,
}

impl FooterLocation {
    /// Decodes the last [`TRAILER_BYTES`] of a file of `file_bytes`. `None` if they are no trailer of a known version.
    pub(crate) fn decode(trailer: &[u8], file_bytes: u64) -> Option<FooterLocation> {
        let is_trailer = trailer.len() as u64 == TRAILER_BYTES
            && &trailer[..8] == MAGIC
            && read_u32(trailer, 8) == VERSION
            && crc32c::crc32c(&trailer[..36]) == read_u32(trailer, 36);
        if !is_trailer {
            return None;
        }
        let location = FooterLocation {
            start: read_u64(trailer, 16),
            length: read_u64(trailer, 24),
            count: read_u32(trailer, 12),
            checksum: read_u32(trailer, 32),
        };
        let end = location.start.checked_add(location.length)?.checked_add(TRAILER_BYTES)?;
        (end == file_bytes).then_some(location)
    }

    /// The entries of the footer in file `number`. `None` if they are damaged.
    pub(crate) fn entries(&self, entries: Bytes, number: u32) -> Option<FooterEntries> {
        let is_whole = entries.len() as u64 == self.length && crc32c::crc32c(&entries) == self.checksum;
        is_whole.then_some(FooterEntries { rest: entries, left: self.count, number })
    }
}

/// The entries of a footer whose checksum was right.
pub(crate) struct FooterEntries {
    rest: Bytes,
    left: u32,
    number: u32,
}

impl Iterator for FooterEntries {
    /// The value, and its tag.
    type Item = (StoredValue, Bytes);

    fn next(&mut self) -> Option<(StoredValue, Bytes)> {
        if self.left == 0 || (self.rest.len() as u64) < FOOTER_ENTRY_BYTES {
            return None;
        }
        self.left -= 1;
        let address = address_at(self.number, u64::from(self.rest.get_u32_le()));
        let (len, checksum) = (self.rest.get_u32_le(), self.rest.get_u32_le());
        let tag = self.rest.get_u32_le() as usize;
        let tag = (tag <= self.rest.len()).then(|| self.rest.split_to(tag))?;
        Some((StoredValue { address, len, checksum }, tag))
    }
}

#[cfg(test)]
mod tests {
    //! What is written is read back, and damage is noticed.
    use super::*;

    const NUMBER: u32 = 0x31;

    fn value(offset: u64, len: u32) -> StoredValue {
        StoredValue { address: address_at(NUMBER, offset), len, checksum: len ^ 0x55 }
    }

    fn footer(start: u64) -> Vec<u8> {
        let mut footer = FooterBuilder::default();
        footer.push(value(64, 5), b"a");
        footer.push(value(69, 7), b"");
        let bytes = footer.bytes();
        let encoded = footer.finish(start);
        assert_eq!(encoded.len() as u64, bytes);
        encoded
    }

    fn decode(bytes: &[u8], start: u64) -> Option<Vec<(StoredValue, Bytes)>> {
        let trailer = &bytes[bytes.len() - TRAILER_BYTES as usize..];
        let location = FooterLocation::decode(trailer, start + bytes.len() as u64)?;
        assert_eq!(location.start, start);
        let entries = Bytes::copy_from_slice(&bytes[..location.length as usize]);
        Some(location.entries(entries, NUMBER)?.collect())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let expected = vec![(value(64, 5), Bytes::from("a")), (value(69, 7), Bytes::new())];
        assert_eq!(decode(&footer(76), 76), Some(expected));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for bit in 0..footer(76).len() * 8 {
            let mut bytes = footer(76);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, 76), None, "bit {bit}");
        }
    }

    #[test]
    fn a_trailer_that_does_not_end_its_file_is_none() {
        let bytes = footer(76);
        let trailer = &bytes[bytes.len() - TRAILER_BYTES as usize..];
        assert_eq!(FooterLocation::decode(trailer, 76 + bytes.len() as u64 + 1), None);
    }
}
