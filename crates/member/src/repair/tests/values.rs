//! A damaged value is asked for, checked, written and referred to; its readers are answered, whatever happens.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use bytes::Bytes;
use log::{Fault, Operation};
use store::{Reference, Values};

use super::super::values::{
    MAX_REPORTED, MAX_TASKS, RepairContext, ReportedValues, STEP_VERSIONS, ValueRepairs, name_of,
};
use super::super::{ANSWER_NS, MAX_ROUNDS};
use super::take_sent;
use crate::callers::{CallerKind, Callers};
use crate::io::{Answer, Notice, Output};
use crate::jobs::Done;
use crate::peer_message::{PeerMessage, ValueName};
use crate::tests::LogAndStore;

/// The token of the reader that waits.
const TOKEN: u64 = 5;

struct Damaged {
    state: LogAndStore,
    repairs: ValueRepairs,
    connected: BTreeSet<u64>,
    callers: Callers,
    out: Output,
    unblocks_apply: bool,
    /// The only reference to the damaged value.
    reference: Reference,
}

/// A member whose reader has found a damaged value.
fn damaged(members: &[u64]) -> Damaged {
    let mut state = LogAndStore::new(members);
    state.put("key", "value");
    state.put("other", "intact");
    let reference = state.reference("key");
    let address = reference.value.address;
    state.damage(address);
    assert!(state.values.read(&reference.value).is_err());
    let mut found = Damaged {
        state,
        repairs: ValueRepairs::default(),
        connected: members[1..].iter().copied().collect(),
        callers: Callers::default(),
        out: Output::default(),
        unblocks_apply: false,
        reference,
    };
    found.callers.insert(TOKEN, CallerKind::Other, 0, u64::MAX);
    assert!(found.repairs.begin(address, None));
    found.repairs.add_caller(address, TOKEN);
    found
}

impl Damaged {
    fn with<T>(
        &mut self,
        now_ns: u64,
        act: impl FnOnce(&mut ValueRepairs, &mut RepairContext<'_>) -> T,
    ) -> T {
        let mut context = RepairContext {
            now_ns,
            connected: &self.connected,
            reader: &self.state.reader,
            log: &mut self.state.log,
            store: &mut self.state.store,
            values: &self.state.values,
            callers: &mut self.callers,
            out: &mut self.out,
            unblocks_apply: false,
        };
        let result = act(&mut self.repairs, &mut context);
        self.unblocks_apply |= context.unblocks_apply;
        result
    }

    /// Looks up the references to the damaged value.
    fn look_up(&mut self, now_ns: u64) {
        while self.repairs.has_look_up(now_ns) {
            self.with(now_ns, ValueRepairs::look_up);
        }
    }

    fn name(&self) -> ValueName {
        name_of(&self.reference)
    }

    /// The peers that were asked for the value meanwhile.
    fn take_asked(&mut self) -> Vec<u64> {
        let name = self.name();
        let sent = take_sent(&mut self.out).into_iter();
        sent.inspect(|(_, sent)| assert_eq!(*sent, PeerMessage::ValueQuestion(name.clone())))
            .map(|(peer, _)| peer)
            .collect()
    }

    /// A peer answers that the value is this.
    fn answer(&mut self, value: Option<&'static str>) {
        let name = self.name();
        let value = value.map(|value| Bytes::from_static(value.as_bytes()));
        self.with(0, |repairs, context| repairs.answered(&name, value, context));
    }

    /// Writes the fetched value.
    fn write(&mut self) {
        assert!(self.repairs.has_values_to_write());
        let job = self.repairs.write_fetched(&mut self.state.log);
        let Done::RepairedValuesWritten(done) = job.run() else { unreachable!() };
        self.with(0, |repairs, context| repairs.written(done, context).expect("the log is intact"));
    }

    fn take_answers(&mut self) -> Vec<Answer> {
        let answers = self.out.answers.drain(..);
        answers.map(|(token, answer)| if token == TOKEN { answer } else { panic!("{token}") }).collect()
    }
}

#[test]
fn a_peers_copy_takes_the_place_of_a_damaged_value() {
    let mut damaged = damaged(&[1, 2, 3]);
    let old = damaged.reference.value;
    assert!(damaged.state.values.read(&old).is_err());
    damaged.look_up(0);
    assert_eq!(damaged.take_asked(), [2]);
    damaged.answer(Some("value"));
    damaged.answer(Some("value"));
    damaged.write();
    assert!(!damaged.repairs.has_values_to_write(), "the second answer was superfluous");
    let new = damaged.state.reference("key").value;
    assert_ne!(log::file_of(new.address), log::file_of(old.address));
    for reference in [old, new] {
        assert_eq!(damaged.state.values.read(&reference).expect("it is repaired"), "value");
    }
    assert!(matches!(damaged.take_answers()[..], [Answer::Repaired]));
    assert!(!damaged.repairs.has_look_up(u64::MAX));
}

#[test]
fn a_value_of_a_known_key_is_found_without_a_walk_over_the_keys() {
    for (is_known, expected) in [(true, vec![2]), (false, vec![])] {
        let mut damaged = damaged(&[1, 2, 3]);
        (0..=STEP_VERSIONS).for_each(|number| damaged.state.put(&format!("a{number}"), ""));
        damaged.repairs = ValueRepairs::default();
        let (address, key) = (damaged.reference.value.address, damaged.reference.key.clone());
        assert!(damaged.repairs.begin(address, is_known.then_some(key)));
        damaged.with(0, ValueRepairs::look_up);
        assert_eq!(damaged.take_asked(), expected, "after one step");
        assert_eq!(damaged.out.notices.len(), expected.len(), "damage is reported when a reference is found");
        assert_eq!(damaged.repairs.has_look_up(0), !is_known);
    }
}

#[test]
fn a_known_key_that_refers_to_the_value_no_more_needs_no_repair() {
    let mut damaged = damaged(&[1, 2, 3]);
    damaged.state.put("key", "new");
    damaged.state.drop_history();
    damaged.repairs = ValueRepairs::default();
    let (address, key) = (damaged.reference.value.address, damaged.reference.key.clone());
    assert!(damaged.repairs.begin(address, Some(key)));
    damaged.repairs.add_caller(address, TOKEN);
    damaged.with(0, ValueRepairs::look_up);
    assert!(damaged.take_asked().is_empty());
    assert!(damaged.out.notices.is_empty(), "a value that has moved is no damage");
    assert!(matches!(damaged.take_answers()[..], [Answer::Repaired]));
}

#[test]
fn each_peer_has_its_time_to_answer_and_then_the_readers_get_an_error() {
    let mut damaged = damaged(&[1, 2, 3]);
    damaged.look_up(0);
    let mut asked = damaged.take_asked();
    let mut now_ns = 0;
    while damaged.out.answers.is_empty() {
        assert_eq!(damaged.repairs.next_due_ns(), Some(now_ns + ANSWER_NS));
        damaged.with(now_ns + ANSWER_NS - 1, |repairs, context| repairs.ask_late(context));
        assert!(damaged.take_asked().is_empty() && damaged.out.answers.is_empty());
        now_ns += ANSWER_NS;
        damaged.with(now_ns, |repairs, context| repairs.ask_late(context));
        asked.extend(damaged.take_asked());
    }
    assert_eq!(asked, [2, 3].repeat(MAX_ROUNDS as usize));
    assert!(matches!(damaged.take_answers()[..], [Answer::Failed(api::Error::Corrupt)]));
    assert_eq!(damaged.repairs.next_due_ns(), None);
}

#[test]
fn damage_is_reported_once_until_it_is_repaired() {
    let mut damaged = damaged(&[1, 2]);
    let address = damaged.reference.value.address;
    let reports = |damaged: &Damaged| {
        damaged.out.notices.iter().filter(|notice| matches!(notice, Notice::Damage { .. })).count()
    };
    for _ in 0..5 {
        damaged.look_up(0);
        (0..2 * MAX_ROUNDS).for_each(|_| damaged.answer(None));
        assert!(damaged.repairs.begin(address, None), "its readers read it again");
    }
    assert_eq!(reports(&damaged), 1, "no peer has it, and each attempt finds the same damage");
    damaged.look_up(0);
    damaged.answer(Some("value"));
    damaged.write();
    assert!(matches!(damaged.out.notices[..], [Notice::Damage { .. }, Notice::Repaired { .. }]));
    let repaired = damaged.state.reference("key").value;
    damaged.state.damage(repaired.address);
    assert!(damaged.state.values.read(&repaired).is_err());
    damaged.repairs.begin(repaired.address, None);
    damaged.look_up(0);
    assert_eq!(reports(&damaged), 2, "the repaired value is damaged once more");
}

/// A disk that fails to read (`EIO`) says nothing about the bytes. A peer is asked for them, because the disk may never
/// give them again, but nothing is reported or counted as damage, and nothing as a repair of some.
#[test]
fn a_failed_read_is_not_reported_as_damage() {
    let mut unread = damaged(&[1, 2]);
    unread.state.put("unread", "bytes");
    unread.reference = unread.state.reference("unread");
    let value = unread.reference.value;
    unread.state.disk.inject(Fault { operation: Operation::Read, after: 0, kind: ErrorKind::Other });
    let failed = unread.state.values.read(&value).expect_err("the disk fails");
    assert!(failed.reason.contains("cannot read"), "{failed}");
    assert_eq!(unread.state.values.read(&value).as_deref().ok(), Some(&b"bytes"[..]), "it failed once");
    unread.repairs = ValueRepairs::default();
    for _ in 0..3 {
        assert!(unread.repairs.begin(value.address, failed.key.clone()));
        unread.look_up(0);
        (0..2 * MAX_ROUNDS).for_each(|_| unread.answer(None));
    }
    assert!(matches!(&unread.out.notices[..], [Notice::Failure { text }] if text.contains("cannot be read")));
    unread.out.notices.clear();
    unread.repairs.begin(value.address, None);
    unread.look_up(0);
    unread.answer(Some("bytes"));
    unread.write();
    assert!(unread.out.notices.is_empty(), "{:?}", unread.out.notices);
    assert_ne!(unread.state.reference("unread").value.address, value.address, "it is where the disk is well");
}

#[test]
fn the_highest_addresses_of_reported_damage_are_remembered() {
    let mut reported = ReportedValues::default();
    assert!((0..=MAX_REPORTED as u64).all(|address| reported.insert(address)));
    assert!(!reported.insert(1) && !reported.insert(MAX_REPORTED as u64));
    assert!(reported.insert(0), "it was forgotten");
}

#[test]
fn the_next_peer_is_asked_at_once_when_one_does_not_have_the_value() {
    for wrong in [None, Some("valuf"), Some("valu")] {
        let mut damaged = damaged(&[1, 2, 3]);
        damaged.look_up(0);
        assert_eq!(damaged.take_asked(), [2]);
        damaged.answer(wrong);
        assert_eq!(damaged.take_asked(), [3], "{wrong:?}");
        assert!(!damaged.repairs.has_values_to_write());
    }
}

#[test]
fn a_value_without_references_needs_no_repair() {
    let mut damaged = damaged(&[1, 2, 3]);
    damaged.state.put("key", "new");
    damaged.state.drop_history();
    damaged.look_up(0);
    assert!(damaged.take_asked().is_empty());
    assert!(matches!(damaged.take_answers()[..], [Answer::Repaired]));
}

#[test]
fn a_sole_member_gives_up_at_once() {
    let mut damaged = damaged(&[1]);
    damaged.look_up(0);
    assert!(matches!(damaged.take_answers()[..], [Answer::Failed(api::Error::Corrupt)]));
    assert!(!damaged.unblocks_apply);
}

#[test]
fn apply_tries_its_disk_again_and_peers_are_asked_again_after_a_while() {
    let mut damaged = damaged(&[1]);
    damaged.repairs.mark_for_apply(damaged.reference.value.address);
    damaged.look_up(7);
    assert!(damaged.unblocks_apply);
    assert!(!damaged.repairs.has_look_up(7 + ANSWER_NS - 1));
    assert!(damaged.repairs.has_look_up(7 + ANSWER_NS));
    assert!(damaged.repairs.leaves_apply_behind());
    damaged.repairs.apply_went_on();
    assert!(!damaged.repairs.leaves_apply_behind(), "its disk had failed only once");
}

#[test]
fn a_full_disk_is_an_error_for_the_readers_and_changes_no_reference() {
    let mut damaged = damaged(&[1, 2]);
    damaged.look_up(0);
    damaged.answer(Some("value"));
    damaged.state.disk.set_capacity(Some(0));
    damaged.write();
    assert!(matches!(damaged.take_answers()[..], [Answer::Failed(api::Error::NoSpace)]));
    assert_eq!(damaged.state.reference("key"), damaged.reference);
}

#[test]
fn the_readers_of_a_state_that_was_replaced_read_again() {
    let mut damaged = damaged(&[1, 2]);
    damaged.look_up(0);
    damaged.answer(Some("value"));
    damaged.with(0, ValueRepairs::state_replaced);
    assert!(matches!(damaged.take_answers()[..], [Answer::Repaired]));
    assert!(!damaged.repairs.has_values_to_write());
}

#[test]
fn so_many_values_are_under_repair_and_no_more() {
    let mut repairs = ValueRepairs::default();
    assert!((0..MAX_TASKS as u64).all(|address| repairs.begin(address, None)));
    assert!(!repairs.begin(MAX_TASKS as u64, None));
    assert!(repairs.begin(0, None), "it has begun");
}
