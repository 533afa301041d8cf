//! Random histories and random watchers, some on streams whose client does not read for long, against the plain list
//! of events.
//!
//! Each stream has a client that knows for each of its watchers which event must come next. So every response
//! is checked as it arrives: no gap, no double, no foreign event, no split transaction, no progress ahead of
//! events.
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use proptest::prelude::*;
use prost::Message;

use super::client::{revision, watch};
use super::world::{TERM, World, contains, message, open};
use crate::watch::groups::WatchFilter;
use crate::watch::{Hub, NextResponse, WatchStream, watcher};
use crate::{Event, History};

const KEYS: [&str; 5] = ["a", "ab", "b", "ba", "c"];
const STREAMS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// A transaction, of changes to distinct keys.
    Apply(BTreeMap<usize, Option<u32>>),
    /// Publishes what was applied, as one batch.
    Publish,
    /// Many batches at once: more than an event buffer or, with large values, the tail holds.
    Burst(u32),
    /// Compacts, back from the newest revision.
    Compact(i64),
    /// Replaces the store by a snapshot: what was not published is never going to be.
    Install,
    Create {
        stream: usize,
        request: WatchCreateRequest,
        /// How far from the newest revision it starts; `None` is now.
        start: Option<i64>,
    },
    Cancel(usize, usize),
    Progress(usize),
    Timer(usize),
    /// Damages a value, back from the newest revision.
    Damage(i64),
    Repair,
    /// Calls `next` so often.
    Read(usize, usize),
}

fn request() -> impl Strategy<Value = WatchCreateRequest> {
    let key = prop::sample::select(KEYS.as_slice());
    let end = prop::sample::select(["", "", "\0", "ca", "d"].as_slice());
    let filters = prop::sample::select(vec![vec![], vec![], vec![0], vec![1]]);
    (key, end, filters, any::<[bool; 3]>()).prop_map(
        |(key, end, filters, [prev_kv, fragment, progress_notify])| {
            let range_end = end.into();
            WatchCreateRequest { range_end, filters, prev_kv, fragment, progress_notify, ..watch(key, 0) }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let change = prop_oneof![2 => (0..20_u32).prop_map(Some), 1 => Just(None)];
    let start = prop::option::of(-12..4_i64);
    prop_oneof![
        6 => prop::collection::btree_map(0..KEYS.len(), change, 1..4).prop_map(Step::Apply),
        6 => Just(Step::Publish),
        1 => prop::sample::select([8, 40_000].as_slice()).prop_map(Step::Burst),
        1 => (0..10_i64).prop_map(Step::Compact),
        1 => Just(Step::Install),
        4 => (0..STREAMS, request(), start)
            .prop_map(|(stream, request, start)| Step::Create { stream, request, start }),
        1 => (0..STREAMS, any::<usize>()).prop_map(|(stream, at)| Step::Cancel(stream, at)),
        2 => (0..STREAMS).prop_map(Step::Progress),
        1 => (0..STREAMS).prop_map(Step::Timer),
        1 => (0..8_i64).prop_map(Step::Damage),
        1 => Just(Step::Repair),
        // The last stream is read seldom.
        5 => (0..STREAMS - 1, 1..30_usize).prop_map(|(stream, calls)| Step::Read(stream, calls)),
        1 => (0..STREAMS, 1..900_usize).prop_map(|(stream, calls)| Step::Read(stream, calls)),
    ]
}

/// A watcher as its client sees it.
struct Watched {
    filter: WatchFilter,
    fragment: bool,
    start: i64,
    /// Events of the history that were looked at.
    position: usize,
}

impl Watched {
    /// Moves on to the next event that this watcher is due.
    fn due<'e>(&mut self, events: &'e [Event]) -> Option<&'e Event> {
        let wants = |event: &Event| {
            event.kv.mod_revision.main >= self.start
                && contains(&self.filter.range, &event.kv.key)
                && self.filter.admits(&event.kind)
        };
        self.position += events[self.position..].iter().position(wants)?;
        Some(&events[self.position])
    }
}

/// One stream and what its client knows.
struct Client {
    stream: WatchStream,
    asked: VecDeque<WatchCreateRequest>,
    watched: BTreeMap<i64, Watched>,
    woken: Arc<AtomicUsize>,
    /// How often the stream had been woken when it was idle last, if nothing was asked of it since.
    idle_at: Option<usize>,
    newest_sent: i64,
    /// The revision of the last answer to a progress request.
    progress: i64,
    /// Addresses of damaged values that watchers wait for.
    damaged: Vec<u64>,
}

impl Client {
    fn new(hub: &Hub) -> Self {
        let (stream, woken) = open(hub);
        let (asked, watched) = (VecDeque::new(), BTreeMap::new());
        Self {
            stream,
            asked,
            watched,
            woken,
            idle_at: None,
            newest_sent: 0,
            progress: 0,
            damaged: Vec::new(),
        }
    }

    /// The stream, to ask something of it.
    fn ask(&mut self) -> &mut WatchStream {
        self.idle_at = None;
        &mut self.stream
    }

    fn read(&mut self, world: &World, calls: usize) {
        let events = world.all_events();
        let woken = self.woken.load(Ordering::Relaxed);
        let asleep = self.idle_at.take() == Some(woken);
        for _ in 0..calls {
            let next = self.stream.next(TERM);
            assert!(
                !asleep || matches!(next, Ok(NextResponse::Idle)),
                "a stream with something to do was not woken"
            );
            match next {
                Ok(NextResponse::Send(response)) => {
                    let response = WatchResponse::decode(response.to_bytes()).expect("it is a response");
                    self.check(&response, &events, world);
                }
                Ok(NextResponse::Idle) => {
                    self.idle_at = Some(woken);
                    return;
                }
                Ok(NextResponse::Busy) => {}
                Err(damaged) => self.damaged.push(damaged.address),
            }
        }
    }

    fn retry_damaged(&mut self) {
        for address in std::mem::take(&mut self.damaged) {
            self.ask().retry_damaged(address);
        }
    }

    fn check(&mut self, response: &WatchResponse, events: &[Event], world: &World) {
        if response.created {
            return self.check_created(response);
        }
        if response.canceled {
            let ended = self.watched.remove(&response.watch_id);
            if response.compact_revision > 0 {
                // Not always that of the last compaction: the response may have waited while there was another.
                assert!(world.was_compacted_at(response.compact_revision));
                assert!(ended.expect("a compaction ends a watcher").start < response.compact_revision);
            }
            return;
        }
        if response.events.is_empty() {
            return self.check_progress(response, events);
        }
        self.newest_sent = self.newest_sent.max(self.check_events(response, events));
    }

    fn check_created(&mut self, response: &WatchResponse) {
        let request = self.asked.pop_front().expect("answers come in the order of requests");
        assert!(!response.canceled);
        let start = if request.start_revision == 0 { revision(response) + 1 } else { request.start_revision };
        let filter = watcher::filter_of(&request).expect("it was accepted");
        let watched = Watched { filter, fragment: request.fragment, start, position: 0 };
        assert!(self.watched.insert(response.watch_id, watched).is_none());
    }

    /// Checks that the events are exactly those due, and returns the last revision.
    fn check_events(&mut self, response: &WatchResponse, events: &[Event]) -> i64 {
        let watched = self.watched.get_mut(&response.watch_id).expect("events are for a watcher");
        let mut last = 0;
        for event in &response.events {
            let due = watched.due(events).expect("an event is due");
            assert_eq!(*event, message(due, watched.filter.prev_kv));
            last = due.kv.mod_revision.main;
            watched.position += 1;
        }
        assert!(revision(response) >= last);
        let next = watched.due(events).map(|event| event.kv.mod_revision.main);
        assert!(response.fragment || next != Some(last), "a transaction is not split");
        assert!(watched.fragment || !response.fragment);
        last
    }

    fn check_progress(&mut self, response: &WatchResponse, events: &[Event]) {
        let revision = revision(response);
        if response.watch_id == -1 {
            assert!(revision >= self.newest_sent);
            self.progress = revision;
        }
        for (id, watched) in &mut self.watched {
            if response.watch_id == -1 || response.watch_id == *id {
                let due = watched.due(events).map_or(i64::MAX, |event| event.kv.mod_revision.main);
                assert!(due > revision, "watcher {id} is sent progress {revision} before {due}");
            }
        }
    }
}

struct Run {
    world: Arc<World>,
    hub: Hub,
    clients: Vec<Client>,
    unpublished: Vec<Event>,
    damaged: Vec<i64>,
}

impl Run {
    fn new(chunk: usize) -> Self {
        let world = World::new();
        world.limit_chunks(chunk);
        let hub = world.hub();
        let clients = (0..STREAMS).map(|_| Client::new(&hub)).collect();
        Self { world, hub, clients, unpublished: Vec::new(), damaged: Vec::new() }
    }

    fn step(&mut self, step: Step) {
        let now = self.world.current_revision();
        match step {
            Step::Apply(changes) => {
                let changes: Vec<_> = changes.into_iter().map(|(key, change)| (KEYS[key], change)).collect();
                self.unpublished.extend(self.world.apply(&changes));
            }
            Step::Publish => self.publish(),
            Step::Burst(len) => (0..300).for_each(|at| {
                self.unpublished.extend(self.world.apply(&[(KEYS[at % 2], Some(len))]));
                self.publish();
            }),
            Step::Compact(back) => self.world.compact(now - back),
            Step::Install => {
                self.unpublished.clear();
                self.hub.snapshot_installed(now);
            }
            Step::Create { stream, mut request, start } => {
                request.start_revision = start.map_or(0, |start| (now + start).max(1));
                self.clients[stream].ask().create(&request);
                self.clients[stream].asked.push_back(request);
            }
            Step::Cancel(stream, at) => {
                let client = &mut self.clients[stream];
                let id = client.watched.keys().nth(at % client.watched.len().max(1)).copied();
                if let Some(id) = id {
                    client.ask().cancel(id);
                }
            }
            Step::Progress(stream) => self.clients[stream].ask().progress(),
            Step::Timer(stream) => self.clients[stream].ask().notify_progress_due(),
            Step::Damage(back) => {
                self.world.set_damaged(now - back, true);
                self.damaged.push(now - back);
            }
            Step::Repair => self.repair(),
            Step::Read(stream, calls) => self.clients[stream].read(&self.world, calls),
        }
    }

    fn publish(&mut self) {
        let events = std::mem::take(&mut self.unpublished);
        self.hub.publish(self.world.current_revision(), &events.into());
    }

    fn repair(&mut self) {
        self.damaged.drain(..).for_each(|revision| self.world.set_damaged(revision, false));
        self.clients.iter_mut().for_each(Client::retry_damaged);
    }

    /// In the end every watcher that was not ended has everything, and progress says so.
    fn finish(mut self) {
        self.publish();
        self.repair();
        let events = self.world.all_events();
        for mut client in self.clients {
            client.ask().progress();
            client.read(&self.world, 7);
            client.ask().notify_progress_due();
            client.read(&self.world, usize::MAX);
            let now = self.world.current_revision();
            if !client.watched.is_empty() && client.watched.values().all(|watched| watched.start <= now) {
                assert_eq!(client.progress, now, "progress is answered");
            }
            for (id, watched) in &mut client.watched {
                assert_eq!(watched.due(&events), None, "watcher {id} is missing an event");
            }
        }
        assert_eq!(self.hub.stats().watchers, 0);
        assert_eq!(self.hub.stats().slow_watchers, 0);
    }
}

proptest! {
    #[test]
    fn every_watcher_gets_every_event_once(
        chunk in 1..6_usize,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut run = Run::new(chunk);
        steps.into_iter().for_each(|step| run.step(step));
        run.finish();
    }
}

/// Two watchers of one range end in one step. The client reads of the first, and there is another compaction before it
/// reads of the second.
#[test]
fn the_end_of_a_watcher_names_the_compaction_that_ended_it() {
    let mut run = Run::new(1);
    let create = || Step::Create { stream: 0, request: watch("a", 0), start: None };
    let apply = || Step::Apply(BTreeMap::from([(0, Some(8))]));
    let steps = [
        create(),
        create(),
        Step::Read(0, 2),
        apply(),
        apply(),
        Step::Compact(0),
        Step::Install,
        Step::Read(0, 2),
        apply(),
        Step::Compact(0),
    ];
    steps.into_iter().for_each(|step| run.step(step));
    assert_eq!(run.clients[0].watched.len(), 1, "the client has read one of two ends");
    run.finish();
}
