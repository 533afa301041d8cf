//! Entries whose bodies are damaged: which of them a log opens with, and how they are repaired.

mod rig;

use std::path::PathBuf;

use log::{
    CheckpointKind, Entry, HardState, JobError, LogId, MemDisk, OpenError, Opened, ReadError, Warning,
    file_of, offset_of,
};
use rig::{Rig, found, open, options};

const HARD_STATE: HardState = HardState { term: 3, vote: 0, commit: 0 };

/// Entries 1 to 12 of terms 1 to 3, in segments of four or five, all proved durable.
fn twelve_entries() -> Rig {
    let mut rig = Rig::new();
    for index in 1..=12_u64 {
        let term = index.div_ceil(4);
        let hard_state = (index % 4 == 1).then_some(HardState { term, ..HARD_STATE });
        let entry = rig.entry(index, term, 700);
        rig.append(hard_state, vec![entry]);
        assert!(rig.sync());
    }
    rig.seal();
    assert!(rig.sync());
    rig
}

/// The segment of an entry, and the offset of its payload.
fn position(rig: &Rig, index: u64) -> (PathBuf, u64) {
    let address = rig.log.address(index).expect("it is in the log");
    let path = format!("/data/member/wal/{:08x}.seg", file_of(address));
    (path.into(), u64::from(offset_of(address)))
}

/// A copy of the disk with a bit flipped at this distance from the beginning of the payload.
fn flipped(rig: &Rig, index: u64, distance: i64, bit: u8) -> MemDisk {
    let (path, payload) = position(rig, index);
    let disk = rig.disk.fork();
    disk.flip_bit(&path, payload.checked_add_signed(distance).expect("it is in the file"), bit)
        .expect("there");
    disk
}

fn entry_of(rig: &Rig, index: u64) -> Entry {
    rig.state().entries[index as usize - 1].clone()
}

/// Writes an entry again.
fn repair(opened: &Opened, entry: Entry) -> Result<(), JobError> {
    opened.log.repair_entry(entry)?.run()
}

#[test]
fn a_log_with_a_damaged_entry_opens_and_is_as_before_when_it_is_repaired() {
    let rig = twelve_entries();
    for index in 1..=12 {
        for at in [0, 350, 699] {
            let disk = flipped(&rig, index, at, 5);
            let opened = open(&disk, &options()).expect("its head is intact");
            let id = LogId { index, term: index.div_ceil(4) };
            assert_eq!((&opened.recovered.damaged[..], opened.recovered.last_index), (&[id][..], 12));
            let (path, _) = position(&rig, index);
            assert!(matches!(
                &opened.recovered.warnings[..],
                [Warning::DamagedEntry { path: found, .. }] if *found == path
            ));
            let read = |at| opened.log.read_entries(at, at + 1, 0).expect("it is in the index").run();
            assert!(matches!(read(index), Err(ReadError::Damaged { .. })), "it is not used");
            let other = Entry { payload: vec![7; 700].into(), ..entry_of(&rig, index) };
            let refused = repair(&opened, other);
            assert!(
                matches!(refused, Err(JobError::Mismatch(_))),
                "a peer's word is not enough: {refused:?}"
            );
            repair(&opened, entry_of(&rig, index)).expect("it is the entry");
            assert_eq!(read(index).expect("it is repaired"), [entry_of(&rig, index)]);
            drop(opened);
            let again = open(&disk, &options()).expect("an intact log");
            assert_eq!((again.recovered.damaged.len(), again.recovered.warnings.len()), (0, 0));
            assert_eq!(found(&again.log, rig.state().hard_state), *rig.state());
        }
    }
}

#[test]
fn several_entries_may_be_damaged() {
    let rig = twelve_entries();
    let disk = rig.disk.fork();
    for index in [3, 4, 11] {
        let (path, payload) = position(&rig, index);
        disk.flip_bit(&path, payload + 9, 0).expect("it is there");
    }
    let opened = open(&disk, &options()).expect("their heads are intact");
    let damaged: Vec<u64> = opened.recovered.damaged.iter().map(|id| id.index).collect();
    assert_eq!(damaged, [3, 4, 11]);
    damaged.iter().for_each(|index| repair(&opened, entry_of(&rig, *index)).expect("it is the entry"));
    assert_eq!(found(&opened.log, rig.state().hard_state), *rig.state());
}

/// A crash while an entry is written again leaves it damaged, and no worse.
#[test]
fn a_torn_repair_is_repaired_again() {
    let rig = twelve_entries();
    let disk = flipped(&rig, 7, 100, 2);
    let opened = open(&disk, &options()).expect("its head is intact");
    disk.stop_after(0);
    assert!(repair(&opened, entry_of(&rig, 7)).is_err());
    drop(opened);
    let after = disk.crash(&mut |_| 0);
    let opened = open(&after, &options()).expect("its head is intact");
    assert_eq!(opened.recovered.damaged.len(), 1);
    repair(&opened, entry_of(&rig, 7)).expect("it is the entry");
}

/// Term, index, and the head of the record. Either the damage cannot hide which entry it was, or the log is refused.
#[test]
fn what_is_not_certain_is_refused_or_never_repaired() {
    let rig = twelve_entries();
    let mut wrong_terms = 0;
    for index in [2, 4, 7, 9, 12] {
        for (distance, bit) in (-45..0).flat_map(|distance| [(distance, 0), (distance, 1), (distance, 7)]) {
            let disk = flipped(&rig, index, distance, bit);
            let at = format!("entry {index}, byte {distance}, bit {bit}");
            let opened = match open(&disk, &options()) {
                Ok(opened) => opened,
                Err(OpenError::Corrupt { .. }) => continue,
                Err(other) => panic!("{at}: {other}"),
            };
            let damaged = &opened.recovered.damaged;
            assert!(
                matches!(damaged[..], [LogId { index: found, .. }] if found == index),
                "{at}: {damaged:?}"
            );
            let entry = entry_of(&rig, index);
            let is_right = damaged[0].term == entry.term;
            wrong_terms += u32::from(!is_right);
            // Nothing that any peer has fits to a term that was read wrong.
            let claimed = Entry { term: damaged[0].term, ..entry.clone() };
            assert_eq!(repair(&opened, claimed).is_ok(), is_right, "{at}");
            assert_eq!(repair(&opened, entry).is_ok(), is_right, "{at}");
        }
    }
    assert!(wrong_terms > 0, "a term may look right and be wrong");
}

/// The record of the damaged entry replaced others, or not: later records hide which.
#[test]
fn a_damaged_entry_that_was_replaced_is_refused() {
    let mut rig = twelve_entries();
    let damaged = position(&rig, 11);
    let replacement = rig.entry(11, 4, 300);
    rig.append(Some(HardState { term: 4, ..HARD_STATE }), vec![replacement]);
    assert!(rig.sync());
    rig.seal();
    assert!(rig.sync());
    assert!(open(&rig.disk.fork(), &options()).is_ok());
    rig.disk.flip_bit(&damaged.0, damaged.1 + 5, 1).expect("it is there");
    assert!(matches!(open(&rig.disk.fork(), &options()), Err(OpenError::Corrupt { .. })));
}

#[test]
fn what_the_checkpoint_holds_need_not_be_repaired() {
    let mut rig = twelve_entries();
    rig.append(Some(HardState { commit: 10, ..HARD_STATE }), Vec::new());
    assert!(rig.sync());
    assert!(rig.checkpoint(CheckpointKind::Base));
    let checkpoint = rig.log.checkpoint_id().expect("it was written").index;
    let mut opened_with = 0;
    for index in rig.log.first_index().max(1)..=checkpoint {
        let disk = flipped(&rig, index, 3, 3);
        let opened = open(&disk, &options()).expect("it is not needed");
        assert_eq!((opened.recovered.damaged.len(), opened.recovered.last_index), (0, 12), "entry {index}");
        let is_cut = opened.recovered.first_index == checkpoint + 1;
        opened_with += u32::from(is_cut);
        assert!(opened.log.entries_from(0).all(|entry| entry.is_ok()), "no follower gets it");
    }
    assert!(opened_with > 0 && checkpoint > 1, "{opened_with} before entry {checkpoint}");
}

/// docs/operating/limits.md names this number.
const MAX_DAMAGED: u64 = 1_000;

#[test]
fn a_log_with_more_damaged_entries_than_the_limit_is_refused() {
    let mut rig = Rig::new();
    for index in 1..=MAX_DAMAGED + 1 {
        let hard_state = (index == 1).then_some(HardState { term: 1, ..HARD_STATE });
        let entry = rig.entry(index, 1, 16);
        rig.append(hard_state, vec![entry]);
        assert!(rig.sync());
    }
    rig.seal();
    assert!(rig.sync());
    let disk = rig.disk.fork();
    let damage = |index| {
        let (path, payload) = position(&rig, index);
        disk.flip_bit(&path, payload, 0).expect("it is there");
    };
    (1..=MAX_DAMAGED).for_each(damage);
    let opened = open(&disk.fork(), &options()).expect("as many may be repaired");
    assert_eq!(opened.recovered.damaged.len() as u64, MAX_DAMAGED);
    damage(MAX_DAMAGED + 1);
    let refused = open(&disk, &options());
    assert!(matches!(refused, Err(OpenError::Corrupt { .. })), "{:?}", refused.err());
}
