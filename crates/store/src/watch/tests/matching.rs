//! Finding the groups of a key, against looking at every range.
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::world::contains;
use crate::watch::event_buffer::EventBuffer;
use crate::watch::groups::{WatchFilter, WatcherGroups};
use crate::{Event, EventKind, KeyRange, KvRef, Revision, ValueRef};

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0_u8), 97..100_u8], 1..4)
}

fn filter() -> impl Strategy<Value = WatchFilter> {
    let end = prop_oneof![Just(vec![]), Just(vec![0]), key()];
    (key(), end, any::<[bool; 3]>()).prop_map(|(start, end, [no_put, no_delete, prev_kv])| WatchFilter {
        range: KeyRange { start: start.into(), end: end.into() },
        no_put,
        no_delete,
        prev_kv,
    })
}

fn event((key, delete): (Vec<u8>, bool)) -> Event {
    let kind = if delete { EventKind::Delete } else { EventKind::Put };
    let (mod_revision, value) = (Revision::default(), ValueRef::default());
    let kv = KvRef { key: Bytes::from(key), create_revision: 0, mod_revision, version: 0, lease: 0, value };
    Event { kind, kv, prev: None }
}

#[derive(Clone, Debug)]
enum Step {
    Subscribe(WatchFilter, u64),
    /// Ends the subscription at this position, counted round.
    Unsubscribe(usize),
    Match(Vec<(Vec<u8>, bool)>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (filter(), 0..3_u64).prop_map(|(filter, stream)| Step::Subscribe(filter, stream)),
        1 => any::<usize>().prop_map(Step::Unsubscribe),
        2 => prop::collection::vec((key(), any::<bool>()), 1..6).prop_map(Step::Match),
    ]
}

proptest! {
    #[test]
    fn matches_what_looking_at_every_range_finds(steps in prop::collection::vec(step(), 1..120)) {
        let buffer = Arc::new(EventBuffer::new(Arc::new(|| {}), Arc::default()));
        let mut groups = WatcherGroups::new(1);
        let mut subscribed: Vec<(WatchFilter, u64, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Subscribe(filter, stream) => {
                    let group = groups.subscribe(&filter, stream, &buffer);
                    for (other, _, id) in &subscribed {
                        prop_assert_eq!(*other == filter, *id == group, "one group for each filter");
                    }
                    if !subscribed.contains(&(filter.clone(), stream, group)) {
                        subscribed.push((filter, stream, group));
                    }
                }
                Step::Unsubscribe(at) if !subscribed.is_empty() => {
                    let (_, stream, group) = subscribed.swap_remove(at % subscribed.len());
                    groups.unsubscribe(group, stream);
                }
                Step::Unsubscribe(_) => {}
                Step::Match(keys) => {
                    let batch: Vec<Event> = keys.into_iter().map(event).collect();
                    let mut expected: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
                    for (filter, _, group) in &subscribed {
                        let hit = |event: &Event| {
                            filter.admits(&event.kind) && contains(&filter.range, &event.kv.key)
                        };
                        let hits = (0..batch.len() as u32).filter(|at| hit(&batch[*at as usize]));
                        expected.insert(*group, hits.collect());
                    }
                    expected.retain(|_, hits| !hits.is_empty());
                    let mut found = BTreeMap::new();
                    groups.matching(&batch, |group, _, hits| {
                        assert!(found.insert(group, hits.to_vec()).is_none(), "visited once");
                    });
                    prop_assert_eq!(found, expected);
                }
            }
        }
        for (_, stream, group) in subscribed {
            groups.unsubscribe(group, stream);
        }
        prop_assert!(groups.is_empty());
    }
}
