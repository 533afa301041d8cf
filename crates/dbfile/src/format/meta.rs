//! The meta page: where the rest of the file is found.
//!
//! The first two pages are meta pages. bbolt writes them in turns, one with each transaction, and the intact one with
//! the higher transaction number counts.
//!
//! ```text
//! | page header 16 | magic 4 | version 4 | page size 4 | flags 4 | root bucket: page 8, sequence 8 |
//! | freelist page 8 | number of pages 8 | transaction 8 | FNV-64a of the 56 bytes before 8 |
//! ```
//!
//! etcd does not write the list of free pages: its freelist page is 2^64 - 1.

use super::page::{PAGE_HEADER_BYTES, PageHeader, PageKind, u32_at, u64_at};

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

/// Bytes of a meta page that mean something.
pub(crate) const META_BYTES: usize = PAGE_HEADER_BYTES + SUMMED_BYTES + 8;

/// Bytes that the checksum covers.
const SUMMED_BYTES: usize = 56;

/// The sizes of a page that bbolt looks for.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 1 << 10..=1 << 24;

/// A meta page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetaPage {
    pub(crate) page_size: u32,
    /// The page of the root bucket, whose records are the buckets.
    pub(crate) root: u64,
    pub(crate) freelist: u64,
    /// The number of pages; bbolt's high water mark.
    pub(crate) pages: u64,
    /// The number of the transaction that wrote it.
    pub(crate) transaction: u64,
}

impl MetaPage {
    /// The bytes of meta page 0 or 1, without the zeros up to the end of the page.
    pub(crate) fn encode(&self, page: u64) -> Vec<u8> {
        let header = PageHeader { page, kind: PageKind::Meta, count: 0, overflow: 0 };
        let mut bytes = header.encode().to_vec();
        for number in [MAGIC, VERSION, self.page_size, 0] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [self.root, 0, self.freelist, self.pages, self.transaction] {
            bytes.extend(number.to_le_bytes());
        }
        let sum = fnv_64a(&bytes[PAGE_HEADER_BYTES..]);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// `None` for anything but an intact meta page.
    pub(crate) fn decode(bytes: &[u8; META_BYTES]) -> Option<MetaPage> {
        let body = &bytes[PAGE_HEADER_BYTES..];
        let page_size = u32_at(body, 8);
        let is_intact = u32_at(body, 0) == MAGIC
            && u32_at(body, 4) == VERSION
            && PAGE_SIZES.contains(&page_size)
            && page_size.is_power_of_two()
            && u64_at(body, SUMMED_BYTES) == fnv_64a(&body[..SUMMED_BYTES]);
        is_intact.then(|| MetaPage {
            page_size,
            root: u64_at(body, 16),
            freelist: u64_at(body, 32),
            pages: u64_at(body, 40),
            transaction: u64_at(body, 48),
        })
    }
}

/// The checksum of a meta page.
fn fnv_64a(bytes: &[u8]) -> u64 {
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, add)
}

#[cfg(test)]
mod tests {
    //! The published values of the checksum, and what is refused.
    use super::*;

    #[test]
    fn the_checksum_is_fnv_64a() {
        assert_eq!(fnv_64a(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(fnv_64a(b"foobar"), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn a_meta_page_with_any_bit_changed_is_refused() {
        let meta = MetaPage { page_size: 4096, root: 3, freelist: 2, pages: 9, transaction: 1 };
        let bytes: [u8; META_BYTES] = meta.encode(1).try_into().unwrap();
        assert_eq!(MetaPage::decode(&bytes), Some(meta));
        for bit in PAGE_HEADER_BYTES * 8..META_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(MetaPage::decode(&changed), None, "bit {bit}");
        }
    }
}
