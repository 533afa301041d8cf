//! What is shared, what is bounded, and what damage does.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::etcdserverpb::WatchCreateRequest;

use super::client::{drain, respond, revisions, watch, watch_all};
use super::world::{CLUSTER, MEMBER, Moment, TERM, World, open};
use crate::watch::Hub;
use crate::watch::interval_tree::starts_against;
use crate::watch::shared::MAX_CLOSED_AT_ONCE;
use crate::watch::{MAX_BUFFERED_BLOCKS, MAX_RESPONSE_BYTES, MAX_TAIL_BYTES, NextResponse, WatchStats};
use crate::{Event, History};

#[test]
fn watchers_of_one_filter_share_the_encoded_bytes() {
    let world = World::new();
    let hub = world.hub();
    let mut streams: Vec<_> = (0..4).map(|_| open(&hub).0).collect();
    for stream in &mut streams {
        stream.create(&watch("k", 0));
        stream.create(&watch("k", 0));
        drain(stream);
    }
    world.put(&hub, "k");
    let mut addresses = Vec::new();
    for stream in &mut streams {
        while let NextResponse::Send(response) = stream.next(TERM).expect("no value is damaged") {
            addresses.push(response.events.as_ptr());
        }
    }
    assert_eq!(addresses.len(), 8);
    assert!(addresses.iter().all(|address| *address == addresses[0]));
    assert_eq!(world.reads.load(Ordering::Relaxed), 1, "the value was read once");
}

#[test]
fn the_tree_of_watched_ranges_has_the_seed_of_the_hub() {
    const RANGES: usize = 1_000;
    let depth = |seed| {
        let world = World::new();
        let hub = Hub::new(world.clone(), world.clone(), CLUSTER, MEMBER, seed);
        let (mut stream, _) = open(&hub);
        // A client that knew the seed 9 would choose these ranges.
        for key in starts_against(9).take(RANGES) {
            stream.create(&WatchCreateRequest { key, range_end: vec![0].into(), ..Default::default() });
            drain(&mut stream);
        }
        hub.shared.state.lock().groups.range_depth()
    };
    assert_eq!(depth(9), RANGES);
    for seed in [0, 8, 10] {
        assert!(depth(seed) <= 64, "{} with the seed {seed}", depth(seed));
    }
}

#[test]
fn a_stream_that_nobody_reads_is_bounded_and_then_catches_up() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, woken) = open(&hub);
    stream.create(&watch("k", 0));
    drain(&mut stream);
    let written = 3 * MAX_BUFFERED_BLOCKS as i64;
    for _ in 0..written {
        world.put(&hub, "k");
    }
    assert_eq!(hub.stats().pending_events, MAX_BUFFERED_BLOCKS);
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    let seen: Vec<i64> = drain(&mut stream).iter().flat_map(revisions).collect();
    assert_eq!(seen, (2..written + 2).collect::<Vec<_>>());
    assert_eq!((hub.stats().slow_watchers, hub.stats().pending_events), (0, 0));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the numbers are asked for while another thread holds the hub")]
fn numbers_for_metrics_ask_neither_the_hub_nor_its_streams() {
    let world = World::new();
    let hub = world.hub();
    let mut streams: Vec<_> = (0..3).map(|_| open(&hub).0).collect();
    for stream in &mut streams {
        stream.create(&watch("k", 0));
        stream.create(&watch("l", 0));
        drain(stream);
    }
    for _ in 0..2 {
        world.put(&hub, "k");
    }
    let held = hub.shared.state.lock();
    let (asking, answer) = (hub.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || answer.0.send(asking.stats()));
    let stats = answer.1.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for no lock");
    drop(held);
    assert_eq!((stats.streams, stats.watchers, stats.pending_events), (3, 6, 6));
    drain(&mut streams[0]);
    assert_eq!(hub.stats().pending_events, 4);
    drop(streams);
    let WatchStats { streams, watchers, pending_events, .. } = hub.stats();
    assert_eq!((streams, watchers, pending_events), (0, 0, 0), "what was not taken goes with its stream");
}

#[test]
fn the_tail_lets_go_of_what_streams_did_not_take() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    stream.create(&watch("k", 0));
    drain(&mut stream);
    let mut batches = Vec::new();
    let count = 2 * MAX_TAIL_BYTES / MAX_RESPONSE_BYTES;
    for _ in 0..count {
        let batch: Arc<[Event]> = world.apply(&[("k", Some(MAX_RESPONSE_BYTES as u32))]).into();
        hub.publish(world.current_revision(), &batch);
        batches.push(Arc::downgrade(&batch));
    }
    let alive = batches.iter().filter(|batch| batch.upgrade().is_some()).count();
    assert!(alive > 0 && alive * MAX_RESPONSE_BYTES <= MAX_TAIL_BYTES, "{alive} batches are alive");
    assert_eq!(drain(&mut stream).iter().flat_map(revisions).count(), count);
}

#[test]
fn an_idle_watcher_that_falls_behind_is_not_ended_by_a_compaction_it_did_not_need() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    stream.create(&watch("idle", 0));
    drain(&mut stream);
    for _ in 0..50 {
        world.put(&hub, "busy");
    }
    world.compact(45);
    for _ in 0..MAX_BUFFERED_BLOCKS + 10 {
        world.put(&hub, "idle");
    }
    let answers = drain(&mut stream);
    assert!(answers.iter().all(|answer| !answer.canceled));
    assert_eq!(answers.iter().flat_map(revisions).count(), MAX_BUFFERED_BLOCKS + 10);
}

#[test]
fn a_batch_of_transactions_is_cut_by_size_between_them() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    stream.create(&watch_all(0));
    drain(&mut stream);
    let len = Some(MAX_RESPONSE_BYTES as u32 / 3);
    let mut batch = Vec::new();
    for _ in 0..3 {
        batch.extend(world.apply(&[("a", len), ("b", len)]));
    }
    batch.extend(world.apply(&[("a", len), ("b", len), ("c", len), ("d", len)]));
    hub.publish(world.current_revision(), &batch.into());
    let live: Vec<_> = drain(&mut stream).iter().map(revisions).collect();
    assert_eq!(live, [vec![2, 2], vec![3, 3], vec![4, 4], vec![5, 5, 5, 5]]);
    stream.create(&watch_all(2));
    let past: Vec<_> = drain(&mut stream)[1..].iter().map(revisions).collect();
    assert_eq!(past, live);
}

/// One watcher that catches up leaves room for the others: a step reads a bounded number of events, and of changes if
/// few of them are events for it.
#[test]
fn a_step_of_catching_up_reads_a_bounded_part_of_the_past() {
    let world = World::new();
    let hub = world.hub();
    (0..2_500).for_each(|_| _ = world.put(&hub, "k"));
    let (mut stream, _) = open(&hub);
    stream.create(&watch("k", 2));
    let answers = drain(&mut stream);
    let events: Vec<_> = answers.iter().map(|answer| answer.events.len()).collect();
    assert_eq!(events, [0, 1_000, 1_000, 500], "the watch is confirmed first");

    let world = World::new();
    let hub = world.hub();
    (0..20_500).for_each(|_| _ = world.put(&hub, "other"));
    let reads = Arc::new(AtomicUsize::new(0));
    let counter = reads.clone();
    world.hook(move |moment| {
        _ = counter.fetch_add(usize::from(moment == Moment::BeforeHistory), Ordering::Relaxed)
    });
    let (mut stream, _) = open(&hub);
    stream.create(&watch("k", 2));
    assert_eq!(drain(&mut stream).len(), 1);
    assert_eq!(reads.load(Ordering::Relaxed), 3, "10,000 changes at a time");
}

#[test]
fn a_damaged_value_is_waited_for_and_holds_up_nobody_else() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    stream.create(&watch("k", 0));
    stream.create(&WatchCreateRequest { filters: vec![0], ..watch_all(0) });
    stream.create(&watch("other", 0));
    drain(&mut stream);
    let bad = world.put(&hub, "k");
    world.set_damaged(bad, true);
    world.put(&hub, "other");
    world.put(&hub, "k");

    let mut damaged = Vec::new();
    let mut seen = Vec::new();
    loop {
        match stream.next(TERM) {
            Ok(NextResponse::Send(response)) => seen.push(response),
            Ok(NextResponse::Busy) => {}
            Ok(NextResponse::Idle) => break,
            Err(found) => damaged.push(found.address),
        }
    }
    let [address] = damaged[..] else { panic!("reported {damaged:?} instead of one value") };
    assert_eq!(seen.len(), 1, "the other watcher was served");
    stream.progress();
    assert_eq!(drain(&mut stream), [], "the stream has no progress to report");
    stream.retry_damaged(address + 1);
    assert_eq!(drain(&mut stream), [], "another value was repaired");
    stream.retry_damaged(address);
    assert!(stream.next(TERM).and_then(|_| stream.next(TERM)).is_err(), "still damaged");

    world.set_damaged(bad, false);
    stream.retry_damaged(address);
    let answers = drain(&mut stream);
    assert_eq!(answers.iter().flat_map(revisions).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(answers.last().map(|answer| answer.watch_id), Some(-1), "the owed progress follows");
}

#[test]
fn a_snapshot_makes_watchers_catch_up_or_end() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    stream.create(&watch("k", 0));
    drain(&mut stream);
    world.apply(&[("k", Some(1))]);
    world.apply(&[("k", Some(1))]);
    hub.snapshot_installed(world.current_revision());
    assert_eq!(drain(&mut stream).iter().flat_map(revisions).collect::<Vec<_>>(), [2, 3]);

    for _ in 0..5 {
        world.apply(&[("k", Some(1))]);
    }
    world.compact(6);
    hub.snapshot_installed(world.current_revision());
    let end = respond(&mut stream).expect("the watcher ends");
    assert!(end.canceled && end.compact_revision == 6);
}

#[test]
fn a_closing_stream_lets_go_of_the_hub_between_slices() {
    let world = World::new();
    let hub = world.hub();
    let (mut stream, _) = open(&hub);
    let watches = 2 * MAX_CLOSED_AT_ONCE + 1;
    for number in 0..watches {
        stream.create(&WatchCreateRequest { key: format!("k{number}").into(), ..Default::default() });
    }
    let groups: Vec<_> = stream.watchers_by_group.keys().copied().collect();
    let mut left = groups.into_iter();
    let group_count = || hub.shared.state.lock().groups.groups.len();
    for closed in [MAX_CLOSED_AT_ONCE, 2 * MAX_CLOSED_AT_ONCE] {
        assert!(hub.shared.close_some(stream.id, &mut left), "there are more");
        assert_eq!(group_count(), watches - closed, "no more than that in one hold of the lock");
        world.put(&hub, "k0");
    }
    assert!(!hub.shared.close_some(stream.id, &mut left));
    assert_eq!(group_count(), 0);
    drop(stream);
    assert_eq!((hub.stats().streams, hub.stats().watchers), (0, 0));
}

/// Each way in which a watcher ends is counted once: cancelled, ended by a compaction, closed with its stream.
#[test]
fn the_account_follows_streams_watchers_and_the_tail() {
    let world = World::new();
    let hub = world.hub();
    assert_eq!(hub.accounted_bytes(), 0);
    let (mut stream, _) = open(&hub);
    let alone = hub.accounted_bytes();
    let long: &str = "k".repeat(10_000).leak();
    stream.create(&watch(long, 0));
    stream.create(&watch("b", 0));
    drain(&mut stream);
    let watched = hub.accounted_bytes();
    assert!(watched > alone + 30_000 && watched < alone + 40_000, "{watched} after {alone}");
    stream.cancel(0);
    stream.cancel(0);
    assert!(hub.accounted_bytes() < alone + 5_000);
    for _ in 0..10 {
        world.put(&hub, "b");
    }
    let with_tail = hub.accounted_bytes();
    assert!(with_tail > alone + 1_000, "{with_tail} after {alone}");
    world.compact(world.current_revision());
    stream.create(&watch("c", 1));
    drain(&mut stream);
    drop(stream);
    world.put(&hub, "b");
    assert_eq!(hub.accounted_bytes(), 0, "there is no watcher, and the next batch emptied the tail");
}
