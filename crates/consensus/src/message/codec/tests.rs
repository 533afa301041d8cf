//! Messages as bytes: golden values, round trips, and bytes that no member sends.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::layout::HEADER_BYTES;
use crate::{
    Body, Change, ConfChange, ConfState, Entry, EntryKind, Message, SnapshotMeta, Transition, WireError,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn frame(message: &Message) -> Bytes {
    message.encode().concat().into()
}

fn message(body: Body) -> Message {
    Message { from: 0x0a, to: 0x0b, term: 3, body }
}

/// The header of [`message`]: version, kind, flags, reserved, from, to, term.
fn head(kind: u8, flags: u8) -> String {
    format!("01{kind:02x}{flags:02x}00{}{}{}", "0a00000000000000", "0b00000000000000", "0300000000000000")
}

#[test]
fn every_kind_has_its_bytes() {
    let le = |number: u64| hex(&number.to_le_bytes());
    let conf_state = ConfState { voters: vec![1], learners: vec![2], ..ConfState::default() };
    let conf_bytes = format!("00{}{}{}{}{}{}", "0100", le(1), "0000", "0100", le(2), "0000");
    let cases = [
        (Body::AppendAccepted { index: 5, commit: 4 }, head(2, 0) + &le(5) + &le(4)),
        (
            Body::AppendRejected { index: 5, hint_index: 3, hint_term: 2, commit: 1 },
            head(3, 0) + &le(5) + &le(3) + &le(2) + &le(1),
        ),
        (
            Body::Vote { pre: true, transfer: true, last_index: 9, last_term: 2, commit: 8, commit_term: 1 },
            head(4, 3) + &le(9) + &le(2) + &le(8) + &le(1),
        ),
        (
            Body::VoteResponse { pre: false, granted: true, commit: 0, commit_term: 0 },
            head(5, 4) + &le(0) + &le(0),
        ),
        (Body::Heartbeat { commit: 7 }, head(6, 0) + &le(7)),
        (Body::HeartbeatResponse { commit: 7 }, head(7, 0) + &le(7)),
        (Body::TimeoutNow, head(8, 0)),
        (
            Body::Snapshot(SnapshotMeta { index: 6, term: 2, conf_state }),
            head(9, 0) + &le(6) + &le(2) + &conf_bytes,
        ),
        (Body::LeadershipCheck { round: 12 }, head(10, 0) + &le(12)),
        (Body::LeadershipCheckResponse { round: 12 }, head(11, 0) + &le(12)),
    ];
    for (body, expected) in cases {
        assert_eq!(hex(&frame(&message(body.clone()))), expected, "{body:?}");
        assert_eq!(Message::decode(frame(&message(body.clone()))), Ok(message(body)));
    }
}

#[test]
fn an_append_has_a_table_and_then_payloads() {
    let entries = vec![
        Entry { term: 2, index: 8, kind: EntryKind::Batch, payload: Bytes::from_static(b"ab") },
        Entry { term: 3, index: 9, kind: EntryKind::Empty, payload: Bytes::new() },
        Entry { term: 3, index: 10, kind: EntryKind::Batch, payload: Bytes::from_static(b"c") },
    ];
    let append =
        message(Body::Append { previous_index: 7, previous_term: 2, commit: 6, entries: entries.clone() });
    let expected = head(1, 0)
        + "070000000000000002000000000000000600000000000000"
        + "03000000"
        + "020000000000000000020000004abbf47d"
        + "030000000000000002000000002093b697"
        + "030000000000000000010000007ac1927f"
        + "616263";
    assert_eq!(hex(&frame(&append)), expected);

    let chunks = append.encode();
    assert_eq!(chunks.len(), 3, "an empty payload is no chunk");
    assert_eq!(chunks[1].as_ptr(), entries[0].payload.as_ptr(), "payloads are not copied");
    let frame = frame(&append);
    let Body::Append { entries: decoded, .. } = Message::decode(frame.clone()).unwrap().body else {
        panic!()
    };
    assert!(frame.as_ptr_range().contains(&decoded[0].payload.as_ptr()), "nor when they come in");
    assert_eq!(decoded, entries);
}

#[test]
fn a_conf_change_has_its_bytes() {
    let change = ConfChange {
        transition: Transition::JointExplicit,
        changes: vec![Change::AddVoter(1), Change::Remove(2), Change::AddLearner(3)],
        context: Bytes::from_static(b"x"),
    };
    let expected =
        "01020300".to_owned() + "000100000000000000" + "010200000000000000" + "020300000000000000" + "78";
    assert_eq!(hex(&change.encode()), expected);
    assert_eq!(ConfChange::decode(change.encode()), Ok(change));
    assert_eq!(hex(&ConfChange::leave_joint().encode()), "01000000");
}

#[test]
fn what_is_wrong_is_said() {
    let heartbeat = frame(&message(Body::Heartbeat { commit: 1 })).to_vec();
    let with = |at: usize, byte: u8| {
        let mut bytes = heartbeat.clone();
        bytes[at] = byte;
        Message::decode(bytes.into()).unwrap_err()
    };
    assert_eq!(with(0, 9), WireError::Version { got: 9, known: 1 });
    assert_eq!(with(1, 99), WireError::Value { field: "message kind", got: 99 });
    assert_eq!(with(2, 1), WireError::Value { field: "flags", got: 1 });
    assert_eq!(with(3, 1), WireError::Value { field: "reserved byte", got: 1 });
    let short = Bytes::copy_from_slice(&heartbeat[..heartbeat.len() - 3]);
    assert_eq!(Message::decode(short), Err(WireError::TooShort { missing: 3 }));
    let long = [heartbeat.as_slice(), &[0, 0]].concat();
    assert_eq!(Message::decode(long.into()), Err(WireError::TooLong { extra: 2 }));
}

#[test]
fn a_damaged_entry_is_found() {
    let entry = Entry { term: 1, index: 1, kind: EntryKind::Batch, payload: Bytes::from_static(b"value") };
    let append =
        message(Body::Append { previous_index: 0, previous_term: 0, commit: 0, entries: vec![entry] });
    let good = frame(&append);
    // From the entry's row on, every bit counts.
    for bit in (HEADER_BYTES + 28) * 8..good.len() * 8 {
        let mut bytes = good.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Message::decode(bytes.into()).is_err(), "bit {bit}");
    }
}

fn any_entries() -> impl Strategy<Value = Vec<(u64, Vec<u8>, bool)>> {
    vec((any::<u64>(), vec(any::<u8>(), 0..40), any::<bool>()), 0..5)
}

fn append_of(previous_index: u64, rows: Vec<(u64, Vec<u8>, bool)>) -> Body {
    let entry = |((term, payload, is_conf_change), index): ((u64, Vec<u8>, bool), u64)| {
        let kind = match (payload.is_empty(), is_conf_change) {
            (true, _) => EntryKind::Empty,
            (false, true) => EntryKind::ConfChange,
            (false, false) => EntryKind::Batch,
        };
        Entry { term, index, kind, payload: payload.into() }
    };
    let entries = rows.into_iter().zip(previous_index + 1..).map(entry).collect();
    Body::Append { previous_index, previous_term: 1, commit: 2, entries }
}

fn any_body() -> impl Strategy<Value = Body> {
    let ids = || vec(any::<u64>(), 0..5);
    let number = any::<u64>;
    let conf = (ids(), ids(), ids(), ids(), any::<bool>()).prop_map(
        |(voters, outgoing, learners, next, auto_leave)| ConfState {
            voters,
            voters_outgoing: outgoing,
            learners,
            learners_next: next,
            auto_leave,
        },
    );
    prop_oneof![
        (0..u64::MAX - 10, any_entries()).prop_map(|(index, rows)| append_of(index, rows)),
        (number(), number()).prop_map(|(index, commit)| Body::AppendAccepted { index, commit }),
        (number(), number(), number(), number()).prop_map(|(index, hint_index, hint_term, commit)| {
            Body::AppendRejected { index, hint_index, hint_term, commit }
        }),
        (any::<bool>(), any::<bool>(), number(), number()).prop_map(|(pre, transfer, last_index, commit)| {
            Body::Vote { pre, transfer, last_index, last_term: 3, commit, commit_term: 2 }
        }),
        (any::<bool>(), any::<bool>(), number(), number()).prop_map(|(pre, granted, commit, commit_term)| {
            Body::VoteResponse { pre, granted, commit, commit_term }
        }),
        number().prop_map(|commit| Body::Heartbeat { commit }),
        number().prop_map(|round| Body::LeadershipCheckResponse { round }),
        (number(), number(), conf).prop_map(|(index, term, conf_state)| Body::Snapshot(SnapshotMeta {
            index,
            term,
            conf_state
        })),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(from: u64, to: u64, term: u64, body in any_body()) {
        let message = Message { from, to, term, body };
        prop_assert_eq!(Message::decode(frame(&message)), Ok(message));
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Message::decode(bytes.clone().into());
        let _ = ConfChange::decode(bytes.into());
    }

    #[test]
    fn damaged_bytes_are_a_message_or_an_error(
        body in any_body(),
        at: prop::sample::Index,
        byte: u8,
        cut: prop::sample::Index,
    ) {
        let mut bytes = frame(&message(body)).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(cut.index(bytes.len()) + 1);
        let _ = Message::decode(bytes.into());
    }
}
