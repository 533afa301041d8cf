//! Chains of checkpoints against a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::index::KeyBounds;
use crate::values::ValueRef;

/// What one checkpoint does to a key.
#[derive(Clone, Copy, Debug)]
enum Change {
    Write { only: bool, versions: usize, tombstone: bool },
    Remove,
    RemoveAndWrite,
    Move,
}

fn change() -> impl Strategy<Value = Change> {
    let write = (any::<bool>(), 1..4usize, prop::bool::weighted(0.2));
    prop_oneof![
        5 => write.prop_map(|(only, versions, tombstone)| Change::Write { only, versions, tombstone }),
        1 => Just(Change::Remove),
        1 => Just(Change::RemoveAndWrite),
        1 => Just(Change::Move),
    ]
}

/// Keys of several lengths, some of them beginnings of others.
fn name(number: u16) -> Vec<u8> {
    format!("{}/{}", "k".repeat(usize::from(number % 7)), number / 7).into_bytes()
}

#[derive(Default)]
struct World {
    restoring: IndexBuilder,
    model: BTreeMap<Vec<u8>, Vec<Version>>,
    main: i64,
}

impl World {
    fn next(&mut self, tombstone: bool) -> Version {
        self.main += 1;
        let revision = Revision { main: self.main, sub: 0 };
        let value = ValueRef { address: self.main as u64, len: 4, checksum: 0 };
        match tombstone {
            true => Version::tombstone(revision),
            false => Version { revision, create: self.main, version: 1, lease: 0, value },
        }
    }

    /// Reads one checkpoint, in the order its parts have.
    fn checkpoint(&mut self, changes: &BTreeMap<Vec<u8>, Change>) {
        self.restoring.begin();
        for (key, change) in changes {
            if matches!(change, Change::Remove | Change::RemoveAndWrite) {
                self.restoring.remove(key);
                self.model.remove(key);
            }
        }
        // What moves may come in any order.
        for (key, change) in changes.iter().rev() {
            if let (Change::Move, Some(versions)) = (change, self.model.get_mut(key)) {
                let oldest = &mut versions[0];
                oldest.value.address += 1 << 32;
                self.restoring.relocate(key, oldest.revision, oldest.value.address);
            }
        }
        for (key, change) in changes {
            let (only, versions, tombstone) = match change {
                Change::Write { only, versions, tombstone } => (*only, *versions, *tombstone),
                Change::RemoveAndWrite => (false, 1, false),
                Change::Remove | Change::Move => continue,
            };
            let first = self.next(false);
            assert!(self.restoring.key(key, only, first));
            assert!(!self.restoring.key(key, only, first), "keys ascend");
            let listed = self.model.entry(key.clone()).or_default();
            if only {
                listed.clear();
            }
            listed.push(first);
            for nth in 1..versions {
                let version = self.next(tombstone && nth + 1 == versions);
                assert!(self.restoring.version(version));
                assert!(!self.restoring.version(version), "versions ascend");
                self.model.get_mut(key).unwrap().push(version);
            }
        }
        self.restoring.complete();
    }
}

proptest! {
    #[test]
    fn restores_what_the_chain_says(
        chain in prop::collection::vec(prop::collection::btree_map(0..400u16, change(), 0..120), 1..6),
    ) {
        let mut world = World { main: 1, ..World::default() };
        for changes in chain {
            world.checkpoint(&changes.into_iter().map(|(number, change)| (name(number), change)).collect());
        }
        let last = world.next(false);
        world.restoring.begin();
        prop_assert!(world.restoring.key(b"z", true, last));
        world.model.insert(b"z".to_vec(), vec![last]);
        let World { restoring, model, main } = world;
        let mut visited = 0;
        let index = restoring.finish(0, main, |_, _, _| visited += 1).unwrap();
        prop_assert_eq!(visited, model.len());
        let restored = index.walk(&KeyBounds::ALL).map(|(record, live)| {
            assert_eq!(live, record.is_live());
            (record.key().to_vec(), record.versions().collect::<Vec<_>>())
        });
        prop_assert!(restored.eq(model.clone()));
        let mut changes: Vec<_> = model.iter().flat_map(|(key, versions)| {
            versions.iter().map(move |version| (version.revision, key.clone()))
        }).collect();
        changes.sort();
        let logged = index.log().iter_from(0).filter_map(|entry| {
            entry.slot.map(|slot| (entry.revision, index.key(slot).to_vec()))
        });
        prop_assert!(logged.eq(changes));
    }
}

/// Changes with several keys, in an order that is not theirs, with holes.
#[test]
fn a_log_is_built_from_changes_in_any_order() {
    let at = |main, sub| Revision { main, sub };
    let log = build_log(vec![(at(7, 2), 3), (at(5, 0), 1), (at(7, 0), 2), (at(5, 1), 4)], 7).unwrap();
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
        assert!(build_log(changes, revision).is_none(), "{why}");
    }
    assert_eq!(build_log(vec![], 1).unwrap().len(), 0);
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
        let log = build_log(changes, missing + 8).unwrap();
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
    let changes = vec![(at(9, 1), 3), (at(4, 0), 1), (at(9, 0), 5), (at(6, 2), 2), (at(4, 1), 4)];
    let building = || RevisionLogBuilder { log: RevisionLog::default(), last: None, missing: 100 };
    let (mut placed, mut sorted) = (building(), building());
    placed.add_by_counting(changes.clone(), 4, 6).unwrap();
    sorted.add_sorted(changes).unwrap();
    assert!(placed.log.iter_from(0).eq(sorted.log.iter_from(0)));
    assert_eq!(placed.missing, sorted.missing);
}
