//! Damaged entries that a start needs are asked for a few at a time.
use std::collections::BTreeSet;

use log::LogId;

use super::super::ANSWER_NS;
use super::super::recovery::{LogRecovery, MAX_ASKED, MAX_LOST_ROUNDS, ROUND_NS};
use super::take_sent;
use crate::io::{MemberFatal, Output};
use crate::peer_message::PeerMessage;
use crate::tests::LogAndStore;

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

#[test]
fn an_entry_that_no_member_has_in_so_many_rounds_ends_the_process() {
    let state = LogAndStore::new(&[1, 2]);
    let peers = BTreeSet::from([2]);
    let mut recovery = LogRecovery::new(&[LogId { index: 5, term: 3 }], peers.clone());
    let (mut out, mut now_ns) = (Output::default(), 0);
    let mut rounds = 0;
    loop {
        recovery.ask(now_ns, &peers, &mut out).expect("it is asked for");
        recovery.answered(2, (5, 3), None, &state.log, &mut out);
        rounds += 1;
        match recovery.ask(now_ns, &peers, &mut out) {
            Ok(()) => assert_eq!(recovery.next_due_ns(), Some(now_ns + ROUND_NS), "the next round"),
            Err(MemberFatal::LostEntry { index: 5 }) => break,
            Err(other) => panic!("{other}"),
        }
        now_ns += ROUND_NS;
    }
    assert_eq!((rounds, now_ns), (MAX_LOST_ROUNDS, 9 * 500_000_000), "five seconds or so");
}
