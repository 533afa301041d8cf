//! Handshakes: golden bytes, versions and garbage.

use proptest::prelude::*;

use super::*;
use crate::protocol::stream_kind::StreamClass;

const DIALLER: PeerIdentity = PeerIdentity { cluster_id: 0x1122, member_id: 0xa, incarnation: 0x3344 };
const ACCEPTOR: PeerIdentity = PeerIdentity { cluster_id: 0x1122, member_id: 0xb, incarnation: 0x5566 };

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// The bytes `docs/internals/transport.md` shows.
#[test]
fn a_hello_is_these_bytes() {
    let hello = Hello::new(DIALLER, 0xb, StreamKind::Messages(StreamClass::Bulk));
    assert_eq!(
        hex(&hello.encode()),
        "89 53 54 45 4c 45 50 0a 02 00 05 00 02 00 00 00 \
         22 11 00 00 00 00 00 00 0a 00 00 00 00 00 00 00 \
         44 33 00 00 00 00 00 00 0b 00 00 00 00 00 00 00 \
         00 00 00 00 00 00 00 00 00 00 00 00 ea e0 3a ee"
    );
    assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
}

/// The bytes `docs/internals/transport.md` shows.
#[test]
fn answers_are_these_bytes() {
    let accepted = HandshakeAnswer { from: ACCEPTOR, verdict: Ok(2) };
    assert_eq!(
        hex(&accepted.encode()),
        "89 53 54 45 4c 45 41 0a 02 00 00 00 00 00 00 00 \
         22 11 00 00 00 00 00 00 0b 00 00 00 00 00 00 00 \
         66 55 00 00 00 00 00 00 00 00 00 00 9e 0c cd 25"
    );
    let refused =
        HandshakeAnswer { from: ACCEPTOR, verdict: Err(Refusal::new(RefusalReason::RemovedMember, "gone")) };
    assert_eq!(
        hex(&refused.encode()),
        "89 53 54 45 4c 45 41 0a 00 00 04 00 04 00 00 00 \
         22 11 00 00 00 00 00 00 0b 00 00 00 00 00 00 00 \
         66 55 00 00 00 00 00 00 f2 a9 14 67 a8 36 e1 01 \
         67 6f 6e 65"
    );
}

fn decode_answer(bytes: &[u8]) -> Result<HandshakeAnswer, HandshakeError> {
    let head = bytes.first_chunk().unwrap();
    let length = HandshakeAnswer::text_length(head)?;
    HandshakeAnswer::decode(head, &bytes[ANSWER_BYTES..ANSWER_BYTES + length])
}

#[test]
fn damage_is_noticed() {
    let hello = Hello::new(DIALLER, 0xb, StreamKind::Snapshot).encode();
    for at in 0..HELLO_BYTES {
        let mut damaged = hello;
        damaged[at] ^= 1;
        match Hello::decode(&damaged) {
            Err(HandshakeError::Preface(_)) => assert!(at < 8),
            Err(HandshakeError::Checksum { .. }) => assert!(at >= 8),
            other => panic!("byte {at}: {other:?}"),
        }
    }
    let refusal = Refusal::new(RefusalReason::UnknownMember, "who?");
    let answer = HandshakeAnswer { from: ACCEPTOR, verdict: Err(refusal) }.encode();
    for at in 0..answer.len() {
        let mut damaged = answer.clone();
        damaged[at] ^= 1;
        assert!(decode_answer(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn a_long_text_is_cut_at_a_character() {
    let text = "ä".repeat(MAX_REFUSAL_TEXT_BYTES);
    let answer =
        HandshakeAnswer { from: ACCEPTOR, verdict: Err(Refusal::new(RefusalReason::NotReady, text)) };
    let refusal = decode_answer(&answer.encode()).unwrap().verdict.unwrap_err();
    assert_eq!(refusal.text, "ä".repeat(MAX_REFUSAL_TEXT_BYTES / 2));
}

#[test]
fn the_newest_common_version_is_chosen() {
    let hello = Hello {
        min_version: 3,
        max_version: 5,
        ..Hello::new(DIALLER, 0xb, StreamKind::Messages(StreamClass::Control))
    };
    assert_eq!(hello.choose_version(1, 4), Ok(4));
    assert_eq!(hello.choose_version(5, 9), Ok(5));
    let too_new = hello.choose_version(1, 2).unwrap_err();
    assert_eq!(too_new.reason, RefusalReason::VersionTooNew);
    assert_eq!(too_new.text, "you speak the peer protocol in versions 3 to 5, this member 1 to 2");
    assert_eq!(hello.choose_version(6, 7).unwrap_err().reason, RefusalReason::VersionTooOld);
}

#[test]
fn reason_codes_are_their_own_inverse() {
    for code in 1..=100 {
        assert_eq!(RefusalReason::from_code(code).code(), code);
    }
}

proptest! {
    #[test]
    fn hellos_round_trip(min: u16, max: u16, cluster_id: u64, member_id: u64, incarnation: u64, to: u64) {
        let from = PeerIdentity { cluster_id, member_id, incarnation };
        let stream = StreamKind::Messages(StreamClass::Control);
        let hello = Hello { min_version: min, max_version: max, stream, from, to };
        prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }

    #[test]
    fn answers_round_trip(cluster_id: u64, member_id: u64, incarnation: u64, code in 0u16..20, text in ".{0,200}") {
        let from = PeerIdentity { cluster_id, member_id, incarnation };
        let verdict = if code == 0 { Ok(7) } else { Err(Refusal::new(RefusalReason::from_code(code), text)) };
        let answer = HandshakeAnswer { from, verdict };
        prop_assert_eq!(decode_answer(&answer.encode()), Ok(answer));
    }

    #[test]
    fn garbage_never_panics(mut bytes: [u8; HELLO_BYTES], sealed: bool, text: Vec<u8>) {
        if sealed {
            bytes[..8].copy_from_slice(PREFACE);
            let checksum = crc32c::crc32c(&bytes[..60]);
            bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        }
        let _ = Hello::decode(&bytes);
        let mut answer: [u8; ANSWER_BYTES] = *bytes.first_chunk().unwrap();
        if sealed {
            answer[..8].copy_from_slice(ANSWER_PREFACE);
            answer[40..44].copy_from_slice(&crc32c::crc32c(&text).to_le_bytes());
            let checksum = crc32c::crc32c(&answer[..44]);
            answer[44..].copy_from_slice(&checksum.to_le_bytes());
        }
        let _ = HandshakeAnswer::decode(&answer, &text);
    }
}
