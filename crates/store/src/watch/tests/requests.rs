//! What etcd answers to requests on a watch stream.
use std::sync::atomic::Ordering;

use api::etcdserverpb::{WatchCreateRequest, WatchResponse};

use super::client::{drain, respond, revision, revisions, watch, watch_all};
use super::world::{World, open};
use crate::History;
use crate::watch::{Hub, WatchStats, WatchStream};

fn stats(hub: &Hub) -> (usize, usize, usize) {
    let WatchStats { streams, watchers, slow_watchers, .. } = hub.stats();
    (streams, watchers, slow_watchers)
}

/// Creates and returns the answer, which must be the next response.
fn create(stream: &mut WatchStream, request: &WatchCreateRequest) -> WatchResponse {
    stream.create(request);
    let answer = respond(stream).expect("a create request is answered");
    assert!(answer.created && answer.events.is_empty());
    answer
}

fn refused(stream: &mut WatchStream, request: &WatchCreateRequest, reason: &str) {
    let answer = create(stream, request);
    assert!(answer.canceled);
    assert_eq!((answer.watch_id, answer.cancel_reason.as_str()), (-1, reason));
}

#[test]
fn ids_are_chosen_around_those_taken() {
    let world = World::new();
    let (mut stream, _) = open(&world.hub());
    let mut id = |watch_id| create(&mut stream, &WatchCreateRequest { watch_id, ..watch("k", 0) }).watch_id;
    assert_eq!([id(0), id(1), id(2), id(-1), id(0), id(0)], [0, 1, 2, -1, 3, 4]);
    refused(
        &mut stream,
        &WatchCreateRequest { watch_id: 2, ..watch("k", 0) },
        "mvcc: duplicate watch ID provided on the WatchStream",
    );
    stream.cancel(2);
    assert!(respond(&mut stream).is_some_and(|answer| answer.canceled && answer.watch_id == 2));
    assert_eq!(create(&mut stream, &WatchCreateRequest { watch_id: 2, ..watch("k", 0) }).watch_id, 2);
}

#[test]
fn impossible_requests_are_refused_in_etcds_words() {
    let world = World::new();
    let (mut stream, _) = open(&world.hub());
    let range = |start, end: &'static str| WatchCreateRequest { range_end: end.into(), ..watch(start, 0) };
    refused(&mut stream, &range("b", "a"), "mvcc: watcher range is empty");
    refused(&mut stream, &range("a", "a"), "mvcc: watcher range is empty");
    refused(&mut stream, &watch("a", -1), "etcdserver: mvcc: required revision has been compacted");
    stream.refuse("etcdserver: permission denied");
    let answer = respond(&mut stream).expect("a refusal is an answer");
    assert_eq!(answer.cancel_reason, "etcdserver: permission denied");
    assert!(answer.created && answer.canceled && answer.watch_id == -1 && revision(&answer) == 1);
    assert_eq!(drain(&mut stream), []);
}

#[test]
fn an_empty_key_is_the_smallest_key() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    create(&mut stream, &watch("", 0));
    create(&mut stream, &watch_all(0));
    create(&mut stream, &WatchCreateRequest { range_end: "b".into(), ..watch("", 0) });
    for key in ["\0", "a", "b"] {
        world.put(&hub, key);
    }
    let mut seen: Vec<(i64, Vec<i64>)> =
        drain(&mut stream).iter().map(|answer| (answer.watch_id, revisions(answer))).collect();
    seen.sort();
    assert_eq!(seen, [(0, vec![2]), (1, vec![2]), (1, vec![3]), (1, vec![4]), (2, vec![2]), (2, vec![3])]);
}

#[test]
fn starts_now_in_the_past_and_in_the_future() {
    let world = World::new();
    let hub = world.hub();
    for _ in 0..3 {
        world.put(&hub, "k");
    }
    let (mut stream, _) = open(&hub);
    for start in [0, 1, 4, 6] {
        assert_eq!(revision(&create(&mut stream, &watch("k", start))), 4);
    }
    assert_eq!(stats(&hub), (1, 4, 2));
    let past: Vec<_> = drain(&mut stream).iter().map(|answer| (answer.watch_id, revisions(answer))).collect();
    assert_eq!(past, [(1, vec![2, 3, 4]), (2, vec![4])]);
    assert_eq!(stats(&hub), (1, 4, 0));
    world.put(&hub, "k");
    world.put(&hub, "k");
    let live: Vec<_> = drain(&mut stream).iter().map(|answer| (answer.watch_id, revisions(answer))).collect();
    assert_eq!(
        live,
        [(0, vec![5]), (1, vec![5]), (2, vec![5]), (0, vec![6]), (1, vec![6]), (2, vec![6]), (3, vec![6])]
    );
}

#[test]
fn now_is_what_a_client_can_have_read() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    let events = world.apply(&[("k", Some(1))]);
    assert_eq!(revision(&create(&mut stream, &watch("k", 0))), 2, "applied, though not published");
    assert_eq!(create(&mut stream, &watch("k", 2)).watch_id, 1);
    hub.publish(2, &events.into());
    world.put(&hub, "k");
    let seen: Vec<_> = drain(&mut stream).iter().map(|answer| (answer.watch_id, revisions(answer))).collect();
    assert_eq!(seen, [(1, vec![2]), (0, vec![3]), (1, vec![3])]);
}

#[test]
fn filters_and_previous_values() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    for filters in [vec![0], vec![1], vec![0, 1], vec![9]] {
        create(&mut stream, &WatchCreateRequest { filters, prev_kv: true, ..watch("k", 0) });
    }
    for change in [Some(3), Some(4), None] {
        let events = world.apply(&[("k", change)]);
        hub.publish(world.current_revision(), &events.into());
    }
    let seen = drain(&mut stream);
    let by_id = |id: i64| {
        let mine = seen.iter().filter(move |answer| answer.watch_id == id);
        mine.flat_map(|answer| answer.events.clone()).collect::<Vec<_>>()
    };
    let prev_len = |event: &api::mvccpb::Event| event.prev_kv.as_ref().map(|kv| kv.value.len());
    assert_eq!(by_id(0).iter().map(prev_len).collect::<Vec<_>>(), [Some(4)]);
    assert_eq!(by_id(1).iter().map(prev_len).collect::<Vec<_>>(), [None, Some(3)]);
    assert_eq!(by_id(2), []);
    assert_eq!(by_id(3).len(), 3, "an unknown filter filters nothing");
}

#[test]
fn cancel_is_answered_once_and_is_the_last_word() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, woken) = open(&hub);
    create(&mut stream, &watch("k", 0));
    world.put(&hub, "k");
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    world.put(&hub, "k");
    assert_eq!(woken.load(Ordering::Relaxed), 1, "one wake-up until the stream has looked");
    stream.cancel(0);
    stream.cancel(0);
    stream.cancel(5);
    let answers = drain(&mut stream);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].canceled && answers[0].watch_id == 0 && revision(&answers[0]) == 3);
    assert_eq!((answers[0].compact_revision, answers[0].cancel_reason.as_str()), (0, ""));
    world.put(&hub, "k");
    assert_eq!(drain(&mut stream), []);
    assert_eq!(stats(&hub), (1, 0, 0));
}

#[test]
fn compaction_ends_only_those_who_need_what_is_gone() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    create(&mut stream, &watch("k", 0));
    for _ in 0..9 {
        world.put(&hub, "k");
    }
    drain(&mut stream);
    world.compact(6);
    for start in [5, 6] {
        create(&mut stream, &watch("k", start));
    }
    let answers = drain(&mut stream);
    assert_eq!(answers.len(), 2);
    assert!(answers[0].canceled && answers[0].watch_id == 1 && answers[0].cancel_reason.is_empty());
    assert_eq!((revision(&answers[0]), answers[0].compact_revision), (0, 6));
    assert_eq!(revisions(&answers[1]), [6, 7, 8, 9, 10], "reading at the compact revision is allowed");
    assert_eq!(stats(&hub), (1, 2, 0));

    stream.progress();
    assert_eq!(drain(&mut stream).len(), 1, "an ended watcher does not hold up progress");
    refused(
        &mut stream,
        &WatchCreateRequest { watch_id: 1, ..watch("k", 0) },
        "mvcc: duplicate watch ID provided on the WatchStream",
    );
    stream.cancel(1);
    assert!(respond(&mut stream).is_some_and(|answer| answer.canceled && answer.watch_id == 1));
}

#[test]
fn progress_of_a_stream_waits_for_all_its_watchers() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    stream.progress();
    assert_eq!(drain(&mut stream), [], "no watchers, no answer");
    for _ in 0..5 {
        world.put(&hub, "k");
    }
    world.limit_chunks(2);
    create(&mut stream, &watch("k", 0));
    create(&mut stream, &watch("k", 2));
    stream.progress();
    world.put(&hub, "k");
    let answers = drain(&mut stream);
    let last = answers.last().expect("progress is answered");
    assert_eq!((last.watch_id, revision(last), last.events.len()), (-1, 7, 0));
    assert!(answers[..answers.len() - 1].iter().all(|answer| !answer.events.is_empty()));

    world.put(&hub, "other");
    stream.progress();
    stream.progress();
    assert_eq!(drain(&mut stream).iter().map(revision).collect::<Vec<_>>(), [8], "one answer for both");

    create(&mut stream, &watch("k", 100));
    stream.progress();
    assert_eq!(drain(&mut stream), [], "a watcher of the future has no progress");
}

#[test]
fn the_timer_notifies_watchers_that_were_sent_nothing() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    for (key, progress_notify) in [("a", true), ("b", true), ("c", false)] {
        create(&mut stream, &WatchCreateRequest { progress_notify, ..watch(key, 0) });
    }
    let notified = |stream: &mut WatchStream| {
        stream.notify_progress_due();
        drain(stream).iter().map(|answer| (answer.watch_id, revision(answer))).collect::<Vec<_>>()
    };
    assert_eq!(notified(&mut stream), [(0, 1), (1, 1)]);
    world.put(&hub, "a");
    drain(&mut stream);
    assert_eq!(notified(&mut stream), [(1, 2)]);
    assert_eq!(notified(&mut stream), [(0, 2), (1, 2)]);
}

#[test]
fn fragments_are_marked_and_contiguous() {
    let world = World::new();
    let hub = world.hub();
    let mut stream = hub.open(std::sync::Arc::new(|| {}), 500);
    create(&mut stream, &WatchCreateRequest { fragment: true, ..watch_all(0) });
    create(&mut stream, &watch_all(0));
    let changes = [("a", Some(200)), ("b", Some(200)), ("c", Some(600)), ("d", Some(10)), ("e", Some(10))];
    hub.publish(2, &world.apply(&changes).into());
    world.put(&hub, "f");
    let seen: Vec<_> = drain(&mut stream).iter().map(|a| (a.watch_id, a.events.len(), a.fragment)).collect();
    assert_eq!(
        seen,
        [(0, 2, true), (0, 1, true), (0, 2, false), (1, 5, false), (0, 1, false), (1, 1, false)]
    );
}

#[test]
fn dropping_a_stream_cancels_its_watchers() {
    let world = World::new();
    let hub = world.hub();
    world.put(&hub, "k");
    let (mut stream, _) = open(&hub);
    stream.create(&watch("k", 1));
    stream.create(&watch("k", 0));
    stream.create(&watch_all(0));
    assert_eq!(stats(&hub), (1, 3, 1));
    drop(stream);
    assert_eq!(stats(&hub), (0, 0, 0));
    world.put(&hub, "k");
}

/// Four watchers of all keys that catch up together; watcher 2 gets fragments of one event each.
fn catching_up(hub: &Hub, world: &World) -> WatchStream {
    for _ in 0..3 {
        world.put(hub, "k");
    }
    // Room for the head and one event.
    let mut stream = hub.open(std::sync::Arc::new(|| {}), 60);
    for fragment in [false, false, true, false] {
        stream.create(&WatchCreateRequest { fragment, ..watch_all(2) });
    }
    (0..4).for_each(|_| assert!(respond(&mut stream).is_some_and(|answer| answer.created)));
    stream
}

/// Watch id and revisions of the next response; none for an answer.
fn next_events(stream: &mut WatchStream) -> (i64, Vec<i64>) {
    let response = respond(stream).expect("there is more");
    (response.watch_id, revisions(&response))
}

#[test]
fn answers_overtake_the_events_of_other_watchers() {
    let world = World::new();
    let hub = world.hub();
    let mut stream = catching_up(&hub, &world);
    assert_eq!(next_events(&mut stream), (0, vec![2, 3, 4]));
    assert!(create(&mut stream, &watch_all(0)).watch_id == 4, "three more responses are encoded");
    assert_eq!(next_events(&mut stream), (1, vec![2, 3, 4]));
    assert_eq!(next_events(&mut stream), (2, vec![2]));
    stream.create(&watch("k", 0));
    assert_eq!(next_events(&mut stream), (2, vec![3]), "fragments are not parted");
    assert_eq!(next_events(&mut stream), (2, vec![4]));
    assert!(respond(&mut stream).is_some_and(|answer| answer.created && answer.watch_id == 5));
    assert_eq!(next_events(&mut stream), (3, vec![2, 3, 4]));
    assert_eq!(drain(&mut stream), []);
}

#[test]
fn no_events_follow_the_answer_to_a_cancel() {
    let world = World::new();
    let hub = world.hub();
    let mut stream = catching_up(&hub, &world);
    assert_eq!(next_events(&mut stream), (0, vec![2, 3, 4]));
    stream.cancel(1);
    assert!(stream.has_answers());
    assert!(respond(&mut stream).is_some_and(|answer| answer.canceled && answer.watch_id == 1));
    assert!(!stream.has_answers());
    assert_eq!(next_events(&mut stream), (2, vec![2]));
    stream.cancel(2);
    stream.cancel(3);
    assert_eq!(next_events(&mut stream), (2, vec![3]), "a response that has begun is sent as a whole");
    assert_eq!(next_events(&mut stream), (2, vec![4]));
    let canceled: Vec<_> =
        drain(&mut stream).iter().map(|answer| (answer.watch_id, answer.canceled)).collect();
    assert_eq!(canceled, [(2, true), (3, true)]);
}

#[test]
fn encoded_progress_does_not_speak_for_a_watcher_created_after_it() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    world.put(&hub, "k");
    for _ in 0..2 {
        create(&mut stream, &WatchCreateRequest { progress_notify: true, ..watch("k", 0) });
    }
    stream.notify_progress_due();
    stream.progress();
    assert_eq!(next_events(&mut stream), (0, vec![]));
    stream.create(&watch("k", 2));
    let rest: Vec<_> = drain(&mut stream).iter().map(|a| (a.watch_id, a.created, revisions(a))).collect();
    assert_eq!(rest, [(1, false, vec![]), (-1, false, vec![]), (2, true, vec![]), (2, false, vec![2])]);
}
