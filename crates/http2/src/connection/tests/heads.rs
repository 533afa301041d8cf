//! What is recognised is what would be decoded.
use std::collections::VecDeque;

use proptest::prelude::*;

use super::super::heads::HeadDecoder;
use crate::ErrorCode;
use crate::head::{HeadBuilder, HeadOutcome};
use crate::hpack::{HpackDecoder, UndecodableBlock, integer};

/// A field of a block: how it is written, and a choice among the table's fields or among these texts.
type Written = (u8, u8, u8);

const NAMES: [&[u8]; 6] = [b"grpc-timeout", b"te", b"x", b":path", b"Bad", b":authority"];
const VALUES: [&[u8]; 6] = [b"99m", b"1234567u", b"", b"a\nb", b"/p", &[b'v'; 50]];

fn put_string(text: &[u8], block: &mut Vec<u8>) {
    block.push(text.len() as u8);
    block.extend_from_slice(text);
}

fn block_of(fields: &[Written]) -> Vec<u8> {
    let mut block = Vec::new();
    for &(form, first, second) in fields {
        let (name, value) = (NAMES[usize::from(first % 6)], VALUES[usize::from(second % 6)]);
        match form {
            // A table that holds a few fields, so that some leave it.
            0 => block.extend([0x3f, first % 128 + 64, 0]),
            1..8 => block.push(0x80 | [2, 3, 4, 6][usize::from(first % 4)]),
            8..20 => block.push(0x80 | (62 + first % 12)),
            20..24 => {
                block.push([0x40, 0][usize::from(first % 2)]);
                put_string(name, &mut block);
                put_string(value, &mut block);
            }
            _ => {
                let added = 0x40 | (62 + first % 2);
                match form % 2 {
                    0 => block.push(added),
                    _ => block.extend([0x0f, 47 + first % 12]),
                }
                put_string(value, &mut block);
            }
        }
    }
    block
}

/// What decoding alone says.
fn decoded(hpack: &mut HpackDecoder, block: &[u8]) -> Result<HeadOutcome, UndecodableBlock> {
    let mut builder = HeadBuilder::new(block.len());
    hpack.decode(block, &mut builder)?;
    Ok(builder.finish())
}

/// Decodes blocks in both ways until one cannot be; how many were recognised by their outlines.
fn compare(blocks: impl IntoIterator<Item = Vec<u8>>) -> usize {
    let (mut heads, mut hpack, mut recognised) = (HeadDecoder::default(), HpackDecoder::default(), 0);
    for block in blocks {
        let outline = heads.hpack.outline(&block);
        recognised += usize::from(outline.is_some_and(|outline| heads.known(&outline).is_some()));
        let (found, expected) = (heads.decode(&block), decoded(&mut hpack, &block));
        let Ok(found) = found else {
            assert_eq!(expected, Err(UndecodableBlock));
            break;
        };
        match (&found, expected.expect("as it was decoded")) {
            (Ok(head), HeadOutcome::Good(expected)) => assert_eq!(**head, expected),
            (found, HeadOutcome::Malformed) => assert_eq!(*found, Err(ErrorCode::Protocol)),
            (found, HeadOutcome::TooLarge) => assert_eq!(*found, Err(ErrorCode::FrameSize)),
            (found, expected) => panic!("{found:?}, and not {expected:?}"),
        }
    }
    recognised
}

/// Writes blocks as Go's library does: every field is added to the table, and the oldest leave it.
#[derive(Default)]
struct AddingEncoder(VecDeque<(Vec<u8>, Vec<u8>)>);

impl AddingEncoder {
    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = vec![0x83, 0x86];
        fields.iter().for_each(|(name, value)| self.field(name.as_bytes(), value.as_bytes(), &mut block));
        block
    }

    fn field(&mut self, name: &[u8], value: &[u8], block: &mut Vec<u8>) {
        let index = |at: Option<usize>| at.map(|at| 62 + at);
        if let Some(index) = index(self.0.iter().position(|(n, v)| n == name && v == value)) {
            return integer(index, 7, 0x80, block);
        }
        let known = index(self.0.iter().position(|(n, _)| n == name));
        integer(known.unwrap_or(0), 6, 0x40, block);
        if known.is_none() {
            put_string(name, block);
        }
        put_string(value, block);
        self.0.push_front((name.to_vec(), value.to_vec()));
        let size = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + 32;
        while self.0.iter().map(size).sum::<usize>() > 4_096 {
            self.0.pop_back();
        }
    }
}

proptest! {
    #[test]
    fn blocks_are_recognised_as_they_are_decoded(
        first in prop::collection::vec((20_u8..24, any::<u8>(), any::<u8>()), 1..6),
        blocks in prop::collection::vec(
            (prop::collection::vec((0_u8..40, any::<u8>(), any::<u8>()), 0..7), 1_usize..4), 1..12,
        ),
    ) {
        // Each some times, as their fields are added or the indexes change.
        let repeated = blocks.iter().flat_map(|(fields, times)| vec![block_of(fields); *times]);
        compare(std::iter::once(block_of(&first)).chain(repeated));
    }

    #[test]
    fn calls_of_a_client_with_deadlines_are_recognised(
        times in prop::collection::vec(0_u32..500, 1..300), has_token: bool,
    ) {
        let mut encoder = AddingEncoder::default();
        let calls = times.iter().map(|time| {
            let time = format!("{}u", 4_999_999 - time);
            let fields = [
                (":path", "/etcdserverpb.KV/Range"),
                (":authority", "127.0.0.1:2379"),
                ("content-type", "application/grpc"),
                ("user-agent", "grpc-go/1.71.1"),
                ("te", "trailers"),
                ("grpc-timeout", &time),
                ("token", "abcdefghijklmnop.12"),
            ];
            encoder.block(if has_token { &fields } else { &fields[..6] })
        });
        // Times come again while they are in the table. The first two calls say what the others repeat. Each field
        // leaves the table once in 70 calls or more and is added again, and what is behind it is learned.
        let count = times.len();
        let recognised = compare(calls);
        prop_assert!(recognised + 2 + 8 * (count / 70) >= count, "{recognised} of {count} calls");
    }
}
