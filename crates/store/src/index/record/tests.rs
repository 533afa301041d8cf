//! A record against the plain list of its versions.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// How far the revision goes on, the lease, what the version number is lifted by, whether it is a tombstone,
    /// whether it shares the value of the version before.
    Push {
        after: i64,
        lease: i64,
        lift: i64,
        tombstone: bool,
        shares: bool,
    },
    /// Drops versions below the one at this part of the list.
    DropBefore(prop::sample::Index),
    DropTombstone,
    Move(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let lease = prop_oneof![8 => Just(0), 1 => Just(-7), 1 => Just(i64::MAX)];
    let lift = prop_oneof![20 => Just(0), 1 => Just((1 << 24) - 2), 1 => Just(i64::from(u32::MAX)), 1 => Just(1 << 40)];
    let after = prop_oneof![20 => 1..4i64, 1 => Just(1 << 47)];
    let push = (after, lease, lift, prop::bool::weighted(0.2), prop::bool::weighted(0.3));
    let push = push.prop_map(|(after, lease, lift, tombstone, shares)| Step::Push {
        after,
        lease,
        lift,
        tombstone,
        shares,
    });
    prop_oneof![
        6 => push,
        1 => any::<prop::sample::Index>().prop_map(Step::DropBefore),
        1 => Just(Step::DropTombstone),
        1 => any::<prop::sample::Index>().prop_map(Step::Move),
    ]
}

fn version(number: i64, main: i64, lease: i64) -> Version {
    // Now and then a change late in a transaction, and a long value.
    let revision = Revision { main, sub: [0, 1, 255, 256, 1 << 31][main as usize % 5] };
    let len = [8, 1, (1 << 24) - 1, 1 << 24, u32::MAX][main as usize / 5 % 5];
    let value = ValueRef { address: main as u64, len, checksum: number as u32 };
    Version { revision, create: main, version: number, lease, value }
}

/// A record beside its versions, oldest first.
struct Pair {
    record: KeyRecord,
    list: Vec<Version>,
}

impl Pair {
    fn step(&mut self, step: Step) {
        let newest = *self.list.last().unwrap();
        match step {
            Step::Push { after, lease, lift, tombstone, shares } => {
                let main = newest.revision.main + after;
                let next = match tombstone {
                    true => Version::tombstone(Revision { main, sub: 0 }),
                    false => version(newest.version + 1 + lift, main, lease),
                };
                let value = if shares && !tombstone { newest.value } else { next.value };
                let next = Version { value, ..next };
                self.record.push(next);
                self.list.push(next);
            }
            Step::DropBefore(at) => {
                let at = at.index(self.list.len());
                let mut dropped = Vec::new();
                self.record.drop_before(self.list[at].revision, &mut |version| dropped.push(*version));
                assert_eq!(dropped, self.list.drain(..at).collect::<Vec<_>>());
            }
            Step::DropTombstone => {
                let oldest = self.list[0];
                if self.list.len() == 1 || !oldest.is_tombstone() {
                    return;
                }
                assert!(
                    !self.record.drop_tombstone(oldest.revision, &mut |version| assert_eq!(*version, oldest))
                );
                self.list.remove(0);
            }
            Step::Move(at) => {
                let at = at.index(self.list.len());
                let Version { revision, value: old, .. } = self.list[at];
                let address = old.address ^ (1 << 62);
                let mut expected = Vec::new();
                let has_old = |version: &&mut Version| version.value == old;
                let (before, after) = self.list.split_at_mut(at);
                for version in
                    before.iter_mut().rev().take_while(has_old).chain(after.iter_mut().take_while(has_old))
                {
                    version.value.address = address;
                    expected.push(version.revision);
                }
                expected.sort_unstable();
                let mut changed = Vec::new();
                assert!(self.record.relocate(revision, &old, address, |revision| changed.push(revision)));
                assert_eq!(changed, expected);
                assert!(!self.record.relocate(revision, &old, address, |_| unreachable!("it has moved")));
            }
        }
    }

    fn check(&self) {
        let Pair { record, list } = self;
        assert_eq!(record.versions().collect::<Vec<_>>(), *list);
        assert!(record.versions().rev().eq(list.iter().rev().copied()));
        assert_eq!(record.versions().skip(2).collect::<Vec<_>>(), list[2.min(list.len())..]);
        assert_eq!(record.versions_len(), list.len());
        assert_eq!(record.newest(), *list.last().unwrap());
        for (at, version) in list.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| list[before]);
            assert_eq!(record.version_exactly(version.revision), Some((*version, before)));
            let below = Revision { main: version.revision.main - 1, sub: u32::MAX };
            assert_eq!(record.version_until(below), before);
            assert_eq!(record.live_until(below), before.filter(|before| !before.is_tombstone()));
            let live = Some(*version).filter(|version| !version.is_tombstone());
            assert_eq!(record.live_until(version.revision), live);
            assert_eq!(record.version_exactly(Revision { main: version.revision.main, sub: 9 }), None);
        }
    }
}

proptest! {
    #[test]
    fn behaves_as_a_list(steps in prop::collection::vec(step(), 1..60)) {
        let first = version(1, 2, 0);
        let mut pair = Pair { record: KeyRecord::new(first), list: vec![first] };
        pair.check();
        for step in steps {
            pair.step(step);
            pair.check();
        }
    }
}

#[test]
fn what_lies_alone_is_found_whatever_it_is() {
    let at = Revision { main: 7, sub: 0 };
    let numbers = [0, 1, (1 << 24) - 1, 1 << 24, (1 << 32) - 1, 1 << 32, (1 << 32) + 1];
    for (number, lease) in numbers.into_iter().flat_map(|number| [(number, 0), (number, 9)]) {
        let version = match number {
            0 => Version::tombstone(at),
            _ => Version { version: number, lease, ..version(1, 7, 0) },
        };
        let pair = Pair { record: KeyRecord::new(version), list: vec![version] };
        pair.check();
    }
}

#[test]
fn a_history_that_was_purged_takes_no_memory() {
    for leased in [0, 5] {
        let mut record = KeyRecord::new(version(1, 2, leased));
        (3..=500).for_each(|main| record.push(version(main - 1, main, if main == 500 { 0 } else { leased })));
        record.drop_before(record.newest().revision, &mut |_| {});
        assert_eq!(record.heap_bytes(), 0);
    }
}
