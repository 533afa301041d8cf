//! The batch format: golden bytes, round trips, and garbage that must come back as an error.

use super::*;
use proptest::prelude::*;

fn command(member: u64, sequence: u64, kind: Kind, body: &'static [u8]) -> Command {
    Command {
        origin: Origin { member, start: 7 },
        sequence,
        kind,
        auth: Bytes::new(),
        body: Bytes::from_static(body),
    }
}

#[test]
fn the_format_is_what_the_table_says() {
    let bytes = encode(0x0102, &[command(5, 9, Kind::Put, b"ab")]);
    let expected: &[u8] = &[
        1, 1, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, // header
        5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, // origin
        1, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, b'a', b'b',
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn bodies_share_the_payload() {
    let bytes = encode(1, &[command(1, 1, Kind::Txn, b"body")]);
    let batch = decode(&bytes).expect("decodes");
    let range = bytes.as_ptr_range();
    assert!(range.contains(&batch.commands[0].body.as_ptr()));
}

#[test]
fn unknown_versions_and_kinds_are_named() {
    let mut bytes = encode(1, &[command(1, 1, Kind::Put, b"x")]).to_vec();
    bytes[0] = 9;
    assert_eq!(decode(&bytes.clone().into()), Err(DecodeError::Version(9)));
    bytes[0] = VERSION;
    bytes[32] = 77;
    assert_eq!(decode(&bytes.into()), Err(DecodeError::Unknown("kind", 77)));
}

proptest! {
    #[test]
    fn what_is_encoded_decodes(
        clock in any::<u64>(),
        commands in prop::collection::vec((0u64..3, any::<u64>(), 0usize..Kind::ALL.len(), any::<Vec<u8>>(), any::<[u8; 3]>()), 0..20),
    ) {
        let commands: Vec<Command> = commands.into_iter().map(|(member, sequence, kind, body, auth)| Command {
            origin: Origin { member, start: member + 1 }, sequence, kind: Kind::ALL[kind],
            auth: Bytes::copy_from_slice(&auth), body: body.into(),
        }).collect();
        let decoded = decode(&encode(clock, &commands)).expect("decodes");
        prop_assert_eq!(decoded, Batch { clock_ms: clock, commands });
    }

    #[test]
    fn garbage_is_an_error_or_a_batch(bytes in any::<Vec<u8>>()) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() { *first = VERSION; }
        if let Ok(batch) = decode(&bytes.clone().into()) {
            // Only the two reserved bytes and unused origins may differ when it is written again.
            prop_assert_eq!(decode(&encode(batch.clock_ms, &batch.commands)).expect("decodes"), batch);
        }
    }
}
