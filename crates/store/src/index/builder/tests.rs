//! The index and the revision log against the versions that they are made of.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::index::KeyBounds;
use crate::parallel::Sequential;
use crate::values::ValueRef;

/// Keys of several lengths, some of them beginnings of others.
fn name(number: u16) -> Vec<u8> {
    format!("{}/{}", "k".repeat(usize::from(number % 7)), number / 7).into_bytes()
}

/// Versions of several keys, with the keys' numbers in the order of revisions; every fifth is a tombstone.
fn written(numbers: &[u16]) -> BTreeMap<Vec<u8>, Vec<Version>> {
    let mut all: BTreeMap<Vec<u8>, Vec<Version>> = BTreeMap::new();
    for (main, number) in (2..).zip(numbers) {
        let revision = Revision { main, sub: 0 };
        let value = ValueRef { address: main as u64, len: 4, checksum: 0 };
        let version = match main % 5 {
            0 => Version::tombstone(revision),
            _ => Version { revision, create: main, version: 1, lease: 0, value },
        };
        all.entry(name(*number)).or_default().push(version);
    }
    all
}

proptest! {
    #[test]
    fn builds_what_it_is_given(numbers in prop::collection::vec(0..400u16, 1..600), floor in 0..300i64) {
        let model = written(&numbers);
        let mut builder = IndexBuilder::default();
        for (slot, (key, versions)) in (0..).zip(&model) {
            prop_assert_eq!(builder.key(key, versions), Some(slot));
            prop_assert_eq!(builder.key(key, versions), None, "keys ascend");
        }
        let (mut visited, newest) = (0, numbers.len() as i64 + 1);
        let index = builder.finish(floor, newest, &Sequential, |records| visited = records.count());
        prop_assume!(floor <= newest);
        let index = index.unwrap();
        prop_assert_eq!(visited, model.len());
        index.check_all(floor.max(1) - 1);
        let built = index.walk(&KeyBounds::ALL).map(|(record, live)| {
            assert_eq!(live, record.is_live());
            (record.key().to_vec(), record.versions().collect::<Vec<_>>())
        });
        prop_assert!(built.eq(model.clone()));
        let mut changes: Vec<_> = model.iter().flat_map(|(key, versions)| {
            versions.iter().map(move |version| (version.revision, key.clone()))
        }).filter(|(revision, _)| revision.main >= floor).collect();
        changes.sort();
        let logged = index.log().iter_from(0).filter_map(|entry| {
            entry.slot.map(|slot| (entry.revision, index.key(slot).to_vec()))
        });
        prop_assert!(logged.eq(changes));
    }
}

#[test]
fn versions_ascend() {
    let version = |main| Version::tombstone(Revision { main, sub: 0 });
    assert_eq!(IndexBuilder::default().key(b"k", &[version(3), version(3)]), None);
    assert_eq!(IndexBuilder::default().key(b"k", &[version(4), version(3)]), None);
}

/// The revision log of changes that a builder was given in this order.
fn build(changes: &[(Revision, u32)], floor: i64, revision: i64) -> Option<RevisionLog> {
    let mut log = ChangesByRevision::new(changes.len() as u64, floor, revision)?;
    changes.iter().try_for_each(|(at, slot)| log.add(*at, *slot))?;
    log.finish()
}

/// Changes with several keys, in an order that is not theirs, with holes.
#[test]
fn a_log_is_built_from_changes_in_any_order() {
    let at = |main, sub| Revision { main, sub };
    let log = build(&[(at(7, 2), 3), (at(5, 0), 1), (at(7, 0), 2), (at(5, 1), 4)], 4, 7).unwrap();
    let entries: Vec<_> = log.iter_from(0).map(|entry| (entry.revision, entry.slot)).collect();
    let unknown = |main, sub| (at(main, sub), None);
    let change = |main, sub, slot| (at(main, sub), Some(slot));
    let wanted =
        [change(5, 0, 1), change(5, 1, 4), unknown(6, 0), change(7, 0, 2), unknown(7, 1), change(7, 2, 3)];
    assert_eq!(entries, wanted);
    for (changes, revision, why) in [
        (vec![(at(5, 0), 1)], 6, "it ends before the revision"),
        (vec![(at(5, 0), 1)], 4, "it ends behind the revision"),
        (vec![(at(5, 0), 1), (at(5, 0), 2)], 5, "a change twice"),
        (vec![(at(5, 1), 1), (at(5, 1), 2)], 5, "a later change twice"),
        (vec![(at(0, 0), 1), (at(5, 0), 2)], 5, "a revision before the first"),
        (vec![(at(5, 0), 1), (at(i64::MAX, 0), 2)], i64::MAX, "more missing than memory"),
        (vec![(at(5, u32::MAX), 1)], 5, "more missing than memory in a revision"),
        (vec![(at(5, 0), 1), (at(1000, 0), 1), (at(1000, 0), 2)], 1000, "a change twice among many missing"),
        (vec![(at(5, 0), 1), (at(1001, 0), 1)], 1000, "it ends behind the revision after many missing"),
        (vec![], 5, "no change"),
    ] {
        assert!(build(&changes, -1, revision).is_none(), "{why}");
    }
    assert_eq!(build(&[], -1, 1).unwrap().len(), 0);
    assert!(build(&[(at(5, 0), 1), (at(3, 0), 2)], 4, 5).is_none(), "below the floor");
}

/// A forged checkpoint can name two revisions that are far apart: what is missing between them takes little memory.
#[test]
fn missing_changes_take_little_memory() {
    let at = |main, sub| Revision { main, sub };
    let missing = 2_000_000;
    for changes in [
        vec![(at(missing + 8, 0), 1), (at(7, 0), 2)],
        vec![(at(7, missing as u32), 2), (at(missing + 8, 0), 1), (at(7, 0), 3)],
    ] {
        let known = changes.len();
        let log = build(&changes, -1, missing + 8).unwrap();
        let unknown = log.len() - known;
        assert!(unknown >= missing as usize);
        assert!(
            log.accounted_bytes() < unknown / 4,
            "{} bytes for {unknown} unknown slots",
            log.accounted_bytes()
        );
        let last: Vec<_> = log.iter_from(missing + 7).map(|entry| (entry.revision, entry.slot)).collect();
        assert_eq!(last, [(at(missing + 7, 0), None), (at(missing + 8, 0), Some(1))]);
    }
}

/// Counting and sorting build the same revision log.
#[test]
fn places_and_sorting_make_the_same_log() {
    let at = |main, sub| Revision { main, sub };
    let changes = [(at(9, 1), 3), (at(4, 0), 1), (at(9, 0), 5), (at(6, 2), 2), (at(4, 1), 4)];
    let counted = build(&changes, 4, 9).unwrap();
    let mut sorting = ChangesByRevision::new(0, 4, 9).unwrap();
    assert!(sorting.firsts.is_empty());
    changes.iter().try_for_each(|(at, slot)| sorting.add(*at, *slot)).unwrap();
    assert!(counted.iter_from(0).eq(sorting.finish().unwrap().iter_from(0)));
}
