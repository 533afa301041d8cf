//! The sums of the library equal those of the polynomial's definition, and published ones.

use crc32c::{crc32c, crc32c_append};
use proptest::prelude::*;

/// One bit after the other, as the sum is defined: 0x1EDC6F41 with its bits reversed.
fn by_definition(bytes: &[u8]) -> u32 {
    let feed = |crc: u32, byte: &u8| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 },
        )
    };
    !bytes.iter().fold(!0, feed)
}

/// RFC 3720, appendix B.4, and the usual check value.
#[test]
fn published_sums() {
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    let published: [(&[u8], u32); 6] = [
        (b"", 0),
        (b"123456789", 0xE306_9283),
        (&[0; 32], 0x8A91_36AA),
        (&[0xFF; 32], 0x62A8_AB43),
        (&ascending, 0x46DD_794E),
        (&descending, 0x113F_DB5C),
    ];
    for (bytes, sum) in published {
        assert_eq!(crc32c(bytes), sum, "of {bytes:02x?}");
        assert_eq!(by_definition(bytes), sum, "the definition, of {bytes:02x?}");
    }
}

/// The library chooses its way by length and alignment.
#[test]
fn every_length_and_alignment() {
    let bytes: Vec<u8> = (0..2_300_u32).map(|at| ((at * at) >> 3) as u8).collect();
    for start in 0..64 {
        for len in (0..900).chain([1023, 1024, 1025, 2047, 2048, 2200]) {
            let bytes = &bytes[start..start + len];
            assert_eq!(crc32c(bytes), by_definition(bytes), "{len} bytes from {start}");
        }
    }
}

#[test]
fn a_long_one_and_nothing_more() {
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|at| (at.wrapping_mul(at) >> 5) as u8).collect();
    let sum = by_definition(&bytes);
    assert_eq!(crc32c(&bytes), sum);
    assert_eq!(crc32c_append(sum, b""), sum);
}

proptest! {
    #[test]
    fn parts_sum_to_the_whole(
        bytes in prop::collection::vec(any::<u8>(), 0..5_000),
        cuts in [0..5_000_usize, 0..5_000],
    ) {
        let [mut first, mut second] = cuts.map(|cut| cut.min(bytes.len()));
        if first > second {
            std::mem::swap(&mut first, &mut second);
        }
        let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
        let sum = parts.iter().fold(0, |crc, part| crc32c_append(crc, part));
        prop_assert_eq!(sum, by_definition(&bytes));
        prop_assert_eq!(crc32c(&bytes), sum);
    }
}
