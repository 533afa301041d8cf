//! Frame headers: golden bytes, limits and garbage.

use proptest::prelude::*;

use super::*;

/// The bytes `docs/internals/transport.md` shows.
#[test]
fn a_frame_is_these_bytes() {
    let pieces = [Bytes::from_static(b"stele"), Bytes::from_static(b" 1")];
    let header = Header::of(Kind::Message, &pieces, 100).unwrap();
    let golden =
        [0x07, 0x00, 0x00, 0x00, 0xfe, 0x58, 0x70, 0x84, 0x01, 0x00, 0x00, 0x00, 0xcc, 0x68, 0x83, 0x5b];
    assert_eq!(header.encode(), golden);
}

#[test]
fn what_does_not_fit_is_named() {
    let header = Header { kind: Kind::Ping, length: 8, checksum: 1 };
    let bytes = header.encode();
    assert_eq!(Header::decode(&bytes, 7), Err(FrameError::TooLong { length: 8, max: 7 }));
    assert_eq!(
        Header::of(Kind::Message, &[Bytes::from_static(b"123456789")], 8),
        Err(FrameError::TooLong { length: 9, max: 8 })
    );
    assert!(matches!(header.check(b"12345678"), Err(FrameError::BodyChecksum { stored: 1, .. })));
    for at in 0..HEADER_BYTES {
        let mut damaged = bytes;
        damaged[at] ^= 0x10;
        assert!(matches!(Header::decode(&damaged, 8), Err(FrameError::HeaderChecksum { .. })), "byte {at}");
    }
    assert_eq!(Header::decode(&resealed(bytes, 8, 99), 8), Err(FrameError::Kind(99)));
    assert_eq!(Header::decode(&resealed(bytes, 10, 1), 8), Err(FrameError::Reserved));
}

/// The header with one byte changed and a checksum that fits.
fn resealed(mut bytes: [u8; HEADER_BYTES], at: usize, value: u8) -> [u8; HEADER_BYTES] {
    bytes[at] = value;
    let checksum = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

proptest! {
    #[test]
    fn headers_round_trip(code in 1u8..=9, length: u32, checksum: u32) {
        let header = Header { kind: Kind::from_code(code).unwrap(), length, checksum };
        prop_assert_eq!(Header::decode(&header.encode(), u32::MAX), Ok(header));
    }

    #[test]
    fn garbage_never_panics(mut bytes: [u8; HEADER_BYTES], sealed: bool, max: u32) {
        if sealed {
            bytes = resealed(bytes, 0, bytes[0]);
        }
        if let Ok(header) = Header::decode(&bytes, max) {
            prop_assert!(header.length <= max);
        }
    }
}
