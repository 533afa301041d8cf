//! From catching up to live events: publishing at every moment at which another thread could, and really in
//! parallel.

#![expect(clippy::disallowed_methods, reason = "real threads race here")]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::client::{drain, revision, revisions, watch, watch_all};
use super::world::{Moment, TERM, World, open};
use crate::watch::{NextResponse, WatchStream};
use crate::{Event, History};

const PAST: i64 = 5;
const MORE: i64 = 20;

/// A watcher catches up while `publish` runs at each of the moments, a put at a time; then it must have seen
/// all.
fn catch_up_against(moments: &[Moment], between_apply_and_publish: bool) {
    let world = World::new();
    let hub = world.hub();
    for _ in 0..PAST {
        world.put(&hub, "k");
    }
    world.limit_chunks(2);
    let (mut stream, _) = open(&hub);
    stream.create(&watch("k", 1));
    stream.create(&watch_all(4));
    stream.progress();
    drop(stream.next(TERM));

    let (store, publisher) = (Arc::downgrade(&world), hub.clone());
    let mut left = MORE;
    let unpublished: Arc<Mutex<Vec<Event>>> = Arc::default();
    let applied = unpublished.clone();
    let chosen = moments.to_vec();
    world.hook(move |moment| {
        let Some(world) = store.upgrade().filter(|_| left > 0 && chosen.contains(&moment)) else { return };
        left -= 1;
        applied.lock().extend(world.apply(&[("k", Some(8))]));
        if !between_apply_and_publish || left % 2 == 0 {
            publisher.publish(world.current_revision(), &std::mem::take(&mut *applied.lock()).into());
        }
    });
    let mut answers = drain(&mut stream);
    hub.publish(world.current_revision(), &std::mem::take(&mut *unpublished.lock()).into());
    answers.extend(drain(&mut stream));

    let newest = world.current_revision();
    assert!(newest > PAST + 1, "the hook ran");
    let of = |id: i64| answers.iter().filter(move |answer| answer.watch_id == id).flat_map(revisions);
    assert_eq!(of(0).collect::<Vec<_>>(), (2..=newest).collect::<Vec<_>>());
    assert_eq!(of(1).collect::<Vec<_>>(), (4..=newest).collect::<Vec<_>>());
    let mut sent = 0;
    for answer in &answers {
        match answer.watch_id {
            -1 => assert!(revision(answer) >= sent),
            _ => sent = revisions(answer).into_iter().fold(sent, i64::max),
        }
    }
    assert!(answers.iter().any(|answer| answer.watch_id == -1), "progress was answered");
}

#[test]
fn publishing_at_any_moment_of_catching_up_loses_and_doubles_nothing() {
    let all = [Moment::BeforeHistory, Moment::AfterHistory, Moment::BeforeValue];
    for moments in [&all[..1], &all[1..2], &all[2..], &all[..2], &all[1..], &all[..]] {
        catch_up_against(moments, false);
        catch_up_against(moments, true);
    }
}

/// The first wake-up comes in the middle of `publish`: a stream may run before the rest of the batch is
/// delivered.
#[test]
fn a_stream_may_run_in_the_middle_of_a_publish() {
    let world = World::new();
    let hub = world.hub();
    let stream: Arc<Mutex<Option<WatchStream>>> = Arc::default();
    let seen: Arc<Mutex<Vec<i64>>> = Arc::default();
    let (woken_stream, woken_seen) = (stream.clone(), seen.clone());
    let wake = move || {
        let Some(mut stream) = woken_stream.try_lock() else { return };
        while let Some(Ok(NextResponse::Send(response))) = stream.as_mut().map(|stream| stream.next(TERM)) {
            woken_seen.lock().push(response.len() as i64);
        }
    };
    let mut opened = hub.open(Arc::new(wake), usize::MAX);
    opened.create(&watch("a", 0));
    opened.create(&watch("b", 0));
    opened.create(&watch_all(0));
    drain(&mut opened);
    *stream.lock() = Some(opened);
    for _ in 0..3 {
        let events = world.apply(&[("a", Some(1)), ("b", Some(1))]);
        hub.publish(world.current_revision(), &events.into());
    }
    assert_eq!(seen.lock().len(), 9, "three watchers, three transactions");
    let mut opened = stream.lock().take().expect("it was put there");
    opened.progress();
    let answers = drain(&mut opened);
    assert_eq!(answers.iter().map(revision).collect::<Vec<_>>(), [4]);
}

#[test]
fn readers_in_parallel_with_the_publisher_see_every_event_in_order() {
    const PUTS: i64 = 3_000;
    const READERS: usize = 3;
    let world = World::new();
    let hub = world.hub();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let (mut stream, _) = open(&hub);
                let from = 1 + world.current_revision() / 2;
                stream.create(&watch("k", from));
                let mut next = from.max(2);
                loop {
                    let last_round = done.load(Ordering::Acquire);
                    for answer in drain(&mut stream) {
                        for seen in revisions(&answer) {
                            assert_eq!(seen, next);
                            next += 1;
                        }
                        let progress = answer.watch_id == -1;
                        assert!(!progress || revision(&answer) + 1 >= next);
                    }
                    stream.progress();
                    if last_round {
                        break;
                    }
                    std::thread::yield_now();
                }
                assert_eq!(next, PUTS + 2);
            });
        }
        for _ in 0..PUTS {
            world.put(&hub, "k");
        }
        done.store(true, Ordering::Release);
    });
}
