//! A revision whose events come in several parts, and batches whose events were not made.

use std::sync::atomic::Ordering;

use super::client::{drain, respond, revisions, watch, watch_all};
use super::world::{World, open};
use crate::watch::{Hub, MAX_TAIL_BYTES, WatchStream};
use crate::{Event, History};

/// Publishes `events`, of one revision after `before`, in parts; calls `between` before each but the first.
fn publish_parts(hub: &Hub, before: i64, events: Vec<Event>, mut between: impl FnMut(usize)) {
    let parts: Vec<Vec<Event>> = events.chunks(2).map(<[Event]>::to_vec).collect();
    let last = parts.len() - 1;
    for (nth, part) in parts.into_iter().enumerate() {
        if nth > 0 {
            between(nth);
        }
        hub.publish(if nth == last { before + 1 } else { before }, &part.into());
    }
}

fn five_puts(world: &World) -> Vec<Event> {
    world.apply(&[("a", Some(8)), ("b", Some(8)), ("a", Some(9)), ("c", Some(8)), ("a", Some(10))])
}

#[test]
fn a_revision_in_parts_is_one_response_at_its_end() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    stream.create(&watch("a", 0));
    stream.create(&watch_all(0));
    drain(&mut stream);
    let before = world.current_revision();
    let events = five_puts(&world);
    publish_parts(&hub, before, events, |_| assert_eq!(respond(&mut stream), None, "not before its end"));
    let got: Vec<_> =
        drain(&mut stream).iter().map(|answer| (answer.watch_id, answer.events.len())).collect();
    assert_eq!(got, [(0, 3), (1, 5)]);
    world.put(&hub, "a");
    let after: Vec<_> = drain(&mut stream).iter().flat_map(revisions).collect();
    assert_eq!(after, [before + 2, before + 2]);
    assert_eq!(hub.stats().slow_watchers, 0, "no watcher had to catch up");
}

/// A stream that watches everything from now on.
fn watching_all(hub: &Hub) -> WatchStream {
    let (mut stream, _) = open(hub);
    stream.create(&watch_all(0));
    drain(&mut stream);
    stream
}

#[test]
fn a_part_may_end_one_revision_and_begin_the_next() {
    let world = World::new();
    let hub = world.hub();
    let mut stream = watching_all(&hub);
    let before = world.current_revision();
    let mut events = world.apply(&[("a", Some(8))]);
    events.extend(world.apply(&[("a", Some(8)), ("b", Some(8))]));
    let last = events.split_off(2);
    hub.publish(before + 1, &events.into());
    assert_eq!(drain(&mut stream).iter().flat_map(revisions).collect::<Vec<_>>(), [before + 1]);
    hub.publish(before + 2, &last.into());
    assert_eq!(drain(&mut stream).iter().flat_map(revisions).collect::<Vec<_>>(), [before + 2; 2]);
}

#[test]
fn a_watcher_that_comes_between_two_parts_misses_nothing() {
    let world = World::new();
    let hub = world.hub();
    let (mut early, _) = open(&hub);
    early.create(&watch("a", 0));
    drain(&mut early);
    let before = world.current_revision();
    let events = five_puts(&world);
    let mut late = Vec::new();
    publish_parts(&hub, before, events, |_| {
        let (mut stream, _) = open(&hub);
        stream.create(&watch("a", before + 1));
        stream.create(&watch("b", before + 1));
        stream.create(&watch_all(before + 1));
        assert_eq!(drain(&mut stream).iter().flat_map(revisions).count(), 0, "not before its end");
        late.push(stream);
    });
    assert_eq!(drain(&mut early).iter().flat_map(revisions).count(), 3);
    assert_eq!(late.len(), 2);
    for stream in &mut late {
        let answers = drain(stream);
        let of = |id| answers.iter().filter(move |answer| answer.watch_id == id).flat_map(revisions).count();
        assert_eq!((of(0), of(1), of(2)), (3, 1, 5));
    }
}

#[test]
fn parts_that_are_too_large_to_keep_are_read_from_history() {
    let world = World::new();
    let hub = world.hub();
    let mut stream = watching_all(&hub);
    let before = world.current_revision();
    let large = MAX_TAIL_BYTES as u32 / 4;
    let changes: Vec<_> = ["a", "b", "c", "d", "e", "f"].iter().map(|key| (*key, Some(large))).collect();
    let events = world.apply(&changes);
    publish_parts(&hub, before, events, |_| {});
    let got: Vec<_> = drain(&mut stream).iter().map(|answer| answer.events.len()).collect();
    assert_eq!(got, [6]);
    assert_eq!(hub.stats().pending_events, 0);
}

#[test]
fn a_watcher_that_comes_while_events_are_not_made_reads_them() {
    let world = World::new();
    let hub = world.hub();
    assert!(!hub.is_watched());
    let (_no_watcher, woken) = open(&hub);
    world.apply(&[("a", Some(8))]);
    hub.publish_unwatched(world.current_revision());
    assert_eq!(woken.load(Ordering::Relaxed), 0, "a stream without watchers is left alone");
    let before = world.current_revision();
    world.apply(&[("a", Some(8))]);
    let (mut stream, _) = open(&hub);
    stream.create(&watch("a", before + 1));
    assert_eq!(drain(&mut stream).iter().flat_map(revisions).count(), 0, "it is not published");
    assert!(hub.is_watched());
    hub.publish_unwatched(before + 1);
    assert_eq!(drain(&mut stream).iter().flat_map(revisions).collect::<Vec<_>>(), [before + 1]);
    hub.publish_unwatched(before + 1);
    assert!(drain(&mut stream).is_empty());
}
