//! Reading frames out of a stream cut anywhere.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::Kind;

fn encode(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for body in bodies {
        let pieces = [Bytes::copy_from_slice(body)];
        bytes.extend_from_slice(&Header::of(Kind::Message, &pieces, u32::MAX).unwrap().encode());
        bytes.extend_from_slice(body);
    }
    bytes
}

/// Reads all of `bytes` in portions of the given lengths, again and again.
fn read_all(bytes: &[u8], portions: &[usize], max: u32) -> Result<Vec<Vec<u8>>, FrameError> {
    let mut reader = FrameReader::new(max);
    let mut frames = Vec::new();
    let (mut rest, mut turn) = (bytes, 0);
    loop {
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame.body.to_vec());
        }
        if rest.is_empty() {
            return Ok(frames);
        }
        let portion = portions[turn % portions.len()];
        turn += 1;
        let read = reader.fill(|room| {
            assert!(!room.is_empty(), "a read always has room");
            let count = portion.min(room.len()).min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        });
        rest = &rest[read.unwrap()..];
    }
}

#[test]
fn a_frame_longer_than_a_block_gets_its_own() {
    let bodies = [vec![1; 10], vec![2; 3 * BLOCK_BYTES + 5], vec![], vec![3; BLOCK_BYTES]];
    assert_eq!(read_all(&encode(&bodies), &[1000, BLOCK_BYTES], u32::MAX), Ok(bodies.to_vec()));
}

#[test]
fn small_frames_lie_densely_in_one_block() {
    let bytes = encode(&[vec![7; 100], vec![8; 100]]);
    let mut reader = FrameReader::new(1000);
    let mut rest = &bytes[..];
    reader.fill(|room| rest.read(room)).unwrap();
    let first = reader.next_frame().unwrap().unwrap().body;
    let second = reader.next_frame().unwrap().unwrap().body;
    assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, 100 + HEADER_BYTES);
}

#[test]
fn a_giant_frame_is_refused_by_its_header() {
    let bytes = encode(&[vec![0; 101]]);
    let refused = read_all(&bytes[..HEADER_BYTES], &[HEADER_BYTES], 100);
    assert_eq!(refused, Err(FrameError::TooLong { length: 101, max: 100 }));
}

proptest! {
    #[test]
    fn however_bytes_arrive_the_frames_are_the_same(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..40),
        portions in prop::collection::vec(1usize..700, 1..10),
    ) {
        prop_assert_eq!(read_all(&encode(&bodies), &portions, 300), Ok(bodies));
    }

    #[test]
    fn damage_ends_the_stream_and_never_panics(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..10),
        portion in 1usize..100,
        at: prop::sample::Index,
        flip in 1u8..,
    ) {
        let mut bytes = encode(&bodies);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(read_all(&bytes, &[portion], 300).is_err());
    }
}
