//! A damaged entry is asked for by index and term, and written again in its place.

use std::collections::BTreeSet;

use bytes::Bytes;
use log::Entry;

use super::super::entries::{EntryRepairs, from_answer};
use super::super::{ANSWER_NS, MAX_ROUNDS};
use super::take_sent;
use crate::io::{Notice, Output};
use crate::jobs::{Done, Job};
use crate::peer_message::PeerMessage;
use crate::tests::LogAndStore;

/// The damaged entry.
const INDEX: u64 = 2;

struct Damaged {
    state: LogAndStore,
    repairs: EntryRepairs,
    connected: BTreeSet<u64>,
    out: Output,
    /// The damaged entry, as peers have it.
    entry: Entry,
}

fn damaged() -> Damaged {
    let mut state = LogAndStore::new(&[1, 2, 3]);
    state.put("key", "value");
    state.put("other", "intact");
    let entry = read(&state).expect("it is intact").remove(0);
    state.damage(state.log.address(INDEX).expect("it is in the log"));
    assert!(read(&state).is_err());
    let mut repairs = EntryRepairs::default();
    assert!(repairs.begin(INDEX, &state.log));
    Damaged { state, repairs, connected: BTreeSet::from([2, 3]), out: Output::default(), entry }
}

fn read(state: &LogAndStore) -> Result<Vec<Entry>, log::ReadError> {
    state.log.read_entries(INDEX, INDEX + 1, 0).expect("it is in the log").run()
}

impl Damaged {
    /// Asks where the time is up. Returns the entries that are given up.
    fn ask_late(&mut self, now_ns: u64) -> Vec<u64> {
        self.repairs.ask_late(now_ns, &self.connected, &mut self.out)
    }

    fn take_asked(&mut self) -> Vec<u64> {
        let question = PeerMessage::EntryQuestion { index: INDEX, term: self.entry.term };
        let sent = take_sent(&mut self.out).into_iter();
        sent.inspect(|(_, sent)| assert_eq!(*sent, question)).map(|(peer, _)| peer).collect()
    }

    fn answer(&mut self, entry: Option<(u8, Bytes)>) -> bool {
        let entry = from_answer(INDEX, self.entry.term, entry);
        self.repairs.answered(0, 2, entry, &self.state.log, &self.connected, &mut self.out)
    }

    fn intact(&self) -> Option<(u8, Bytes)> {
        Some((self.entry.kind, self.entry.payload.clone()))
    }
}

#[test]
fn a_peers_entry_is_written_in_the_place_of_the_damaged_one() {
    let mut damaged = damaged();
    assert!(damaged.ask_late(0).is_empty());
    assert_eq!(damaged.take_asked(), [2]);
    assert!(damaged.answer(damaged.intact()));
    let Some(Job::RepairEntry { index: INDEX, job }) = damaged.out.background.pop() else { panic!("no job") };
    let Done::EntryRepaired { index, result } = (Job::RepairEntry { index: INDEX, job }).run() else {
        unreachable!()
    };
    damaged.repairs.written(index, result, &mut damaged.out).expect("the log is intact");
    assert!(matches!(damaged.out.notices[..], [Notice::Repaired { .. }]));
    assert_eq!(read(&damaged.state).expect("it is repaired"), [damaged.entry.clone()]);
    assert_eq!(damaged.repairs.next_due_ns(), None);
    assert!(damaged.repairs.begin(INDEX, &damaged.state.log), "damaged once more, it is news");
}

#[test]
fn nothing_is_due_and_no_peer_is_asked_while_the_entry_is_written() {
    let mut damaged = damaged();
    damaged.ask_late(0);
    damaged.take_asked();
    damaged.answer(damaged.intact());
    assert_eq!(damaged.repairs.next_due_ns(), None);
    assert!(damaged.ask_late(10 * ANSWER_NS).is_empty() && damaged.take_asked().is_empty());
    damaged.answer(damaged.intact());
    assert_eq!(damaged.out.background.len(), 1, "a late answer is superfluous");
}

#[test]
fn each_peer_has_its_time_to_answer_and_then_the_entry_is_given_up() {
    let mut damaged = damaged();
    let mut asked = Vec::new();
    let mut now_ns = 0;
    let given_up = loop {
        let given_up = damaged.ask_late(now_ns);
        asked.extend(damaged.take_asked());
        if !given_up.is_empty() {
            break given_up;
        }
        assert_eq!(damaged.repairs.next_due_ns(), Some(now_ns + ANSWER_NS));
        now_ns += ANSWER_NS;
        assert!(damaged.ask_late(now_ns - 1).is_empty() && damaged.take_asked().is_empty());
    };
    assert_eq!(given_up, [INDEX]);
    assert_eq!(asked, [2, 3].repeat(MAX_ROUNDS as usize));
    assert!(matches!(damaged.out.notices[..], [Notice::Failure { .. }]), "the damage was reported before");
    assert_eq!(damaged.repairs.next_due_ns(), None);
    assert!(!damaged.repairs.begin(INDEX, &damaged.state.log), "found again, it is no news");
}

#[test]
fn the_next_peer_is_asked_at_once_when_one_does_not_have_the_entry() {
    for wrong in [None, Some((0, Bytes::from_static(b"shorter")))] {
        let mut damaged = damaged();
        damaged.ask_late(0);
        damaged.take_asked();
        assert!(damaged.answer(wrong));
        assert_eq!(damaged.take_asked(), [3]);
        assert!(damaged.out.background.is_empty());
    }
}

#[test]
fn an_entry_of_another_term_answers_nothing() {
    let mut damaged = damaged();
    damaged.ask_late(0);
    damaged.take_asked();
    let other = Entry { term: damaged.entry.term + 1, ..damaged.entry.clone() };
    let Damaged { state, repairs, connected, out, .. } = &mut damaged;
    assert!(repairs.answered(0, 2, Ok(other), &state.log, connected, out));
    assert!(damaged.take_asked().is_empty() && damaged.out.background.is_empty());
}

#[test]
fn a_peer_that_was_not_asked_answers_nothing() {
    let mut damaged = damaged();
    damaged.ask_late(0);
    damaged.take_asked();
    let entry = damaged.entry.clone();
    let Damaged { state, repairs, connected, out, .. } = &mut damaged;
    assert!(repairs.answered(0, 3, Ok(entry), &state.log, connected, out));
    assert!(damaged.out.background.is_empty());
    assert!(damaged.answer(damaged.intact()));
    assert_eq!(damaged.out.background.len(), 1);
}
