//! The leases as they were at one moment, read in steps while they change.
//!
//! A checkpoint and a backup hold the state as of one entry. Older versions of keys stay while they are written, but a
//! lease has no versions. So before a lease changes, what it was is noted for each reader that has not read it yet:
//!
//! ```text
//! freeze            leases 1 2 3 4
//! read two          1 2
//! forget 3          notes 3                 leases 1 2 4
//! grant 9           notes that 9 was not    leases 1 2 4 9
//! read two          3 4                     3 as noted, 9 skipped
//! ```
//!
//! That costs the writer a look-up for each change and reader, and memory only for leases that change meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::info::LeaseInfo;

/// Leases read, or skipped, in one hold of the store's lock.
pub(crate) const MAX_LEASES_AT_ONCE: usize = 1_000;

/// The leases as they were when this was made.
pub(crate) struct FrozenLeases {
    since: Arc<Mutex<Since>>,
}

/// What the lessor keeps of the [`FrozenLeases`] that are being read.
#[derive(Default)]
pub(super) struct Readers(Mutex<Vec<Weak<Mutex<Since>>>>);

/// What has happened since.
struct Since {
    /// The lowest id that was not read; `None` when all were.
    next: Option<i64>,
    /// What each lease was that has changed since, if it was not read before; `None` if it did not exist.
    before: BTreeMap<i64, Option<LeaseInfo>>,
}

impl Readers {
    pub(super) fn add(&self) -> FrozenLeases {
        let since = Arc::new(Mutex::new(Since { next: Some(i64::MIN), before: BTreeMap::new() }));
        self.0.lock().push(Arc::downgrade(&since));
        FrozenLeases { since }
    }

    /// Whether there is no reader, as far as is known.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// A lease is about to change: notes what it is.
    pub(super) fn note(&self, id: i64, lease: Option<LeaseInfo>) {
        self.0.lock().retain(|reader| {
            let Some(since) = reader.upgrade() else { return false };
            let mut since = since.lock();
            if since.next.is_some_and(|next| id >= next) {
                since.before.entry(id).or_insert(lease);
            }
            since.next.is_some()
        });
    }
}

impl FrozenLeases {
    /// The next leases, by id; `None` after the last. At most `at_once` are looked at. `now` are the leases from an id
    /// on, as they are.
    pub(super) fn next<N: Iterator<Item = LeaseInfo>>(
        &mut self,
        now: impl FnOnce(i64) -> N,
        at_once: usize,
    ) -> Option<Vec<LeaseInfo>> {
        let mut since = self.since.lock();
        let from = since.next?;
        let mut now = now(from).peekable();
        let mut before = since.before.range(from..).peekable();
        let mut found = Vec::new();
        let mut next = None;
        for looked_at in 0.. {
            let id = match (now.peek().map(|lease| lease.id), before.peek().map(|(id, _)| **id)) {
                (None, None) => break,
                (Some(id), None) | (None, Some(id)) => id,
                (Some(now), Some(before)) => now.min(before),
            };
            if looked_at == at_once {
                next = Some(id);
                break;
            }
            let present = now.next_if(|lease| lease.id == id);
            match before.next_if(|(before, _)| **before == id) {
                Some((_, lease)) => found.extend(*lease),
                None => found.extend(present),
            }
        }
        since.advance(next);
        Some(found)
    }

    /// These leases, `None` for one that did not exist. `now` is a lease as it is.
    pub(super) fn read(
        &mut self,
        ids: &[i64],
        now: impl Fn(i64) -> Option<LeaseInfo>,
    ) -> Vec<(i64, Option<LeaseInfo>)> {
        let mut since = self.since.lock();
        let read = |id: &i64| (*id, since.before.get(id).copied().unwrap_or_else(|| now(*id)));
        let found = ids.iter().map(read).collect();
        if let Some(last) = ids.last() {
            since.advance(last.checked_add(1));
        }
        found
    }
}

impl Since {
    /// Notes that all leases below `next` were read.
    fn advance(&mut self, next: Option<i64>) {
        self.next = next;
        self.before = next.map_or_else(BTreeMap::new, |next| self.before.split_off(&next));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::lessor::Lessor;

    #[derive(Clone, Debug)]
    enum Step {
        Grant(i64),
        Forget(i64),
        Record(i64, i64),
        Read,
    }

    fn step() -> impl Strategy<Value = Step> {
        let id = || 0..40_i64;
        prop_oneof![
            id().prop_map(Step::Grant),
            id().prop_map(Step::Forget),
            (id(), 0..9_i64).prop_map(|(id, remaining)| Step::Record(id, remaining)),
            Just(Step::Read),
        ]
    }

    proptest! {
        #[test]
        fn leases_are_read_as_they_were(
            first in prop::collection::vec(step(), 0..60),
            then in prop::collection::vec(step(), 0..60),
            at_once in 1..5_usize,
        ) {
            let mut lessor = Lessor::default();
            first.iter().for_each(|step| change(&mut lessor, step));
            let expected: Vec<_> = lessor.iter_from(i64::MIN).collect();
            let wanted = |id: i64| (id, expected.iter().find(|lease| lease.id == id).copied());
            let ids: Vec<_> = (0..40).step_by(3).collect();
            let (mut all, mut some) = (lessor.freeze(), lessor.freeze());
            let (mut found, mut found_some) = (Vec::new(), Vec::new());
            let mut chunks = ids.chunks(at_once);
            for step in then {
                if matches!(step, Step::Read) {
                    found.extend(all.next(|from| lessor.iter_from(from), at_once).into_iter().flatten());
                    found_some.extend(lessor.read_frozen(&mut some, chunks.next().unwrap_or_default()));
                }
                change(&mut lessor, &step);
            }
            while let Some(more) = all.next(|from| lessor.iter_from(from), at_once) {
                prop_assert!(more.len() <= at_once);
                found.extend(more);
            }
            chunks.for_each(|ids| found_some.extend(lessor.read_frozen(&mut some, ids)));
            prop_assert_eq!(found, expected.clone());
            prop_assert_eq!(found_some, ids.iter().map(|id| wanted(*id)).collect::<Vec<_>>());
            drop((all, some));
            lessor.forget(0);
            prop_assert!(lessor.readers.is_empty(), "nothing is noted for readers that have gone");
        }
    }

    fn change(lessor: &mut Lessor, step: &Step) {
        match step {
            Step::Grant(id) => drop(lessor.grant(*id, 10)),
            Step::Forget(id) => drop(lessor.forget(*id)),
            Step::Record(id, remaining) => drop(lessor.checkpoint(*id, *remaining)),
            Step::Read => {}
        }
    }
}
