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
    let (repairs, out) = Default::default();
    let mut damaged = Damaged { state, repairs, connected: BTreeSet::from([2, 3]), out, entry };
    assert!(matches!(damaged.find(true)[..], [Notice::Damage { .. }]));
    damaged
}

fn read(state: &LogAndStore) -> Result<Vec<Entry>, log::ReadError> {
    state.log.read_entries(INDEX, INDEX + 1, 0).expect("it is in the log").run()
}

impl Damaged {
    /// A read finds the entry damaged, or fails. Returns what is reported.
    fn find(&mut self, is_damaged: bool) -> Vec<Notice> {
        self.repairs.begin(INDEX, is_damaged, "entry".to_owned(), &self.state.log, &mut self.out);
        std::mem::take(&mut self.out.notices)
    }

    /// A peer sends the entry, and it is written.
    fn repair(&mut self) {
        assert!(self.ask_late(0).is_empty());
        assert_eq!(self.take_asked(), [2]);
        assert!(self.answer(self.intact()));
        let Some(Job::RepairEntry { index: INDEX, job }) = self.out.background.pop() else {
            panic!("no job")
        };
        let Done::EntryRepaired { index, result } = (Job::RepairEntry { index: INDEX, job }).run() else {
            unreachable!()
        };
        self.repairs.written(index, result, &mut self.out).expect("the log is intact");
    }

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
    damaged.repair();
    assert!(matches!(damaged.out.notices[..], [Notice::Repaired { .. }]));
    assert_eq!(read(&damaged.state).expect("it is repaired"), [damaged.entry.clone()]);
    assert_eq!(damaged.repairs.next_due_ns(), None);
    damaged.out.notices.clear();
    assert!(matches!(damaged.find(true)[..], [Notice::Damage { .. }]), "damaged once more, it is news");
}

/// Neither a failed read nor what comes of it counts as damage.
#[test]
fn an_entry_that_could_not_be_read_is_fetched_and_not_reported_as_damage() {
    let mut unread = damaged();
    unread.repairs = EntryRepairs::default();
    assert!(matches!(unread.find(false)[..], [Notice::Failure { .. }]));
    assert!(unread.find(false).is_empty(), "it fails again, which is no news");
    unread.repair();
    assert!(unread.out.notices.is_empty(), "{:?}", unread.out.notices);
    assert_eq!(read(&unread.state).expect("it is written"), [unread.entry.clone()]);
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
    damaged.out.notices.clear();
    assert!(damaged.find(true).is_empty(), "found again, it is no news");
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

/// A failed read says nothing of the bytes; a later one may show that they are damaged.
#[test]
fn an_entry_that_could_not_be_read_is_reported_once_it_is_known_to_be_damaged() {
    let mut damaged = damaged();
    damaged.repairs = EntryRepairs::default();
    assert!(matches!(damaged.find(false)[..], [Notice::Failure { .. }]));
    assert!(matches!(damaged.find(true)[..], [Notice::Damage { .. }]));
    assert!(damaged.find(true).is_empty() && damaged.find(false).is_empty());
    damaged.repair();
    assert!(matches!(damaged.out.notices[..], [Notice::Repaired { .. }]));
}
