//! Every frame survives its encoding; every prefix of one, and any garbage, is refused or a frame, never a panic.

use super::*;
use proptest::prelude::*;

fn whole(frame: &PeerMessage) -> Bytes {
    frame.encode().concat().into()
}

#[test]
fn frames_survive_their_encoding() {
    let name = ValueName { main: 5, sub: 1, len: 2, checksum: 9, key: Bytes::from_static(b"k") };
    let frames = [
        PeerMessage::MembershipRequest { run: 7, sequence: 3, request: MembershipRequest::Remove { id: 4 } },
        PeerMessage::MembershipRefusal { run: 7, sequence: 3, error: None },
        PeerMessage::MembershipRefusal { run: 8, sequence: 4, error: Some(api::Error::Unhealthy) },
        PeerMessage::MembershipRefusal { run: 8, sequence: 4, error: Some(api::Error::LearnerNotReady) },
        PeerMessage::Introduction { id: 4, peer_urls: vec!["http://a:1".into()] },
        PeerMessage::MembershipRefusal { run: 7, sequence: 3, error: Some(api::Error::NoSpace) },
        PeerMessage::Consensus(Bytes::from_static(b"m")),
        PeerMessage::Forward(Bytes::from_static(b"b")),
        PeerMessage::Refused { reason: Reason::NoSpace, run: 7, sequences: vec![1, 2] },
        PeerMessage::ReadQuestion(7, 3),
        PeerMessage::ReadAnswer(7, 3, Some(8)),
        PeerMessage::ReadAnswer(7, 3, None),
        PeerMessage::LeaseQuestions(
            7,
            vec![
                LeaseQuestionFields { sequence: 1, lease: -2, renew: true },
                LeaseQuestionFields { sequence: 2, lease: 9, renew: false },
            ],
        ),
        PeerMessage::LeaseAnswers(
            7,
            vec![
                (1, LeaseAnswer::Alive { remaining_s: 3, granted_s: 4 }),
                (2, LeaseAnswer::NotFound),
                (3, LeaseAnswer::NotLeader),
            ],
        ),
        PeerMessage::StateHash { index: 1, hash: 2 },
        PeerMessage::ValueQuestion(name.clone()),
        PeerMessage::ValueAnswer(name.clone(), Some(Bytes::from_static(b"vv"))),
        PeerMessage::ValueAnswer(name, None),
        PeerMessage::EntryQuestion { index: 4, term: 2 },
        PeerMessage::EntryAnswer { index: 4, term: 2, entry: Some((0, Bytes::from_static(b"payload"))) },
        PeerMessage::EntryAnswer { index: 4, term: 2, entry: None },
    ];
    for frame in frames {
        assert_eq!(PeerMessage::decode(whole(&frame)), Some(frame));
    }
}

#[test]
fn questions_about_reads_and_leases_go_ahead_of_commands_and_values() {
    let name = ValueName { main: 5, sub: 1, len: 2, checksum: 9, key: Bytes::from_static(b"k") };
    let question = LeaseQuestionFields { sequence: 1, lease: 2, renew: true };
    let urgent = [
        PeerMessage::ReadQuestion(7, 3),
        PeerMessage::ReadAnswer(7, 3, Some(8)),
        PeerMessage::LeaseQuestions(7, vec![question]),
        PeerMessage::LeaseAnswers(7, vec![(1, LeaseAnswer::NotFound)]),
        PeerMessage::Refused { reason: Reason::NotLeader, run: 7, sequences: vec![1] },
    ];
    for message in urgent {
        assert_eq!(message.class(), MessageClass::Control, "{message:?}");
    }
    let others = [
        PeerMessage::Forward(Bytes::from_static(b"b")),
        PeerMessage::ValueAnswer(name, None),
        PeerMessage::EntryAnswer { index: 4, term: 2, entry: None },
    ];
    for message in others {
        assert_eq!(message.class(), MessageClass::Bulk, "{message:?}");
    }
}

#[test]
fn the_bytes_are_what_the_table_says() {
    assert_eq!(
        whole(&PeerMessage::ReadAnswer(9, 2, Some(3))),
        [&[5u8, 9][..], &[0; 7], &[2], &[0; 7], &[1, 3], &[0; 7]].concat()
    );
}

#[test]
fn lease_frames_hold_at_least_one_item_and_at_most_the_limit() {
    let question = LeaseQuestionFields { sequence: 1, lease: 2, renew: true };
    let of = |count| whole(&PeerMessage::LeaseQuestions(7, vec![question; count]));
    assert_eq!(PeerMessage::decode(of(0)), None);
    assert_eq!(
        PeerMessage::decode(of(MAX_LEASES_PER_FRAME)),
        Some(PeerMessage::LeaseQuestions(7, vec![question; MAX_LEASES_PER_FRAME]))
    );
    assert_eq!(PeerMessage::decode(of(MAX_LEASES_PER_FRAME + 1)), None);
    let cut = of(2);
    assert_eq!(PeerMessage::decode(cut.slice(..cut.len() - 1)), None);
    assert_eq!(PeerMessage::decode(whole(&PeerMessage::LeaseAnswers(7, Vec::new()))), None);
}

#[test]
fn what_encode_does_not_write_is_no_frame() {
    // Not granted, but with an index; not found, but with a rest of time or a value.
    let name = ValueName { main: 5, sub: 1, len: 2, checksum: 9, key: Bytes::from_static(b"k") };
    let frames = [
        (PeerMessage::ReadAnswer(7, 3, None), 18),
        (PeerMessage::LeaseAnswers(7, vec![(1, LeaseAnswer::NotFound)]), 18),
        (PeerMessage::LeaseAnswers(7, vec![(1, LeaseAnswer::NotLeader)]), 26),
    ];
    for (frame, at) in frames {
        let mut bytes = frame.encode().concat();
        bytes[at] = 1;
        assert_eq!(PeerMessage::decode(bytes.into()), None, "{frame:?}");
    }
    let bytes = [whole(&PeerMessage::ValueAnswer(name, None)), Bytes::from_static(b"vv")].concat();
    assert_eq!(PeerMessage::decode(bytes.into()), None);
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in any::<Vec<u8>>()) {
        if let Some(frame) = PeerMessage::decode(bytes.clone().into()) {
            prop_assert_eq!(PeerMessage::decode(whole(&frame)), Some(frame));
        }
    }
}
