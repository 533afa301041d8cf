//! Damaged entries that a start needs are asked for a few at a time.
use std::collections::BTreeSet;

use log::LogId;

use super::super::ANSWER_NS;
use super::super::recovery::{LogRecovery, MAX_ASKED};
use super::take_sent;
use crate::io::Output;
use crate::peer_message::PeerMessage;

#[test]
fn so_many_entries_are_asked_for_at_a_time() {
    let damaged: Vec<LogId> = (1..=2 * MAX_ASKED as u64).map(|index| LogId { index, term: 3 }).collect();
    let peers = BTreeSet::from([2, 3]);
    let mut recovery = LogRecovery::new(&damaged, peers.clone());
    let asked = |recovery: &mut LogRecovery, now_ns| {
        let mut out = Output::default();
        recovery.ask(now_ns, &peers, &mut out).expect("the peers have said nothing");
        let index = |(_, question)| match question {
            PeerMessage::EntryQuestion { index, term: 3 } => index,
            other => panic!("another question: {other:?}"),
        };
        take_sent(&mut out).into_iter().map(index).collect::<Vec<u64>>()
    };
    let first = 1..=MAX_ASKED as u64;
    assert_eq!(asked(&mut recovery, 0), first.clone().collect::<Vec<_>>());
    assert!(asked(&mut recovery, ANSWER_NS - 1).is_empty(), "the peer has its time");
    assert_eq!(asked(&mut recovery, ANSWER_NS), first.collect::<Vec<_>>(), "of the next peer");
    // Those that are written again make room for the next ones.
    for index in [1, 7] {
        recovery.written(index, Ok(()), &mut Output::default()).expect("the log is sound");
    }
    let next = MAX_ASKED as u64 + 1;
    assert_eq!(asked(&mut recovery, ANSWER_NS + 1), [next, next + 1]);
}
