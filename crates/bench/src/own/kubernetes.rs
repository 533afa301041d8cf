//! `kubernetes`: what the API servers of a cluster ask of their store.
//!
//! | load | as Kubernetes does it |
//! |---|---|
//! | renewals | each node's lease object is written every ten seconds: compare the revision, put 1 KB |
//! | updates | other objects, in the same way |
//! | lists | all objects of a kind in pages of 500, all at the revision of the first |
//! | events | new keys with a lease that up to 1,000 of them share |
//! | watches | five API servers watch 120 kinds each, and ask for progress |
//! | compaction | every five minutes, what was there at the last time |
//!
//! All rates are open loops: latencies count from when a request was due. An event of a watch counts from when its
//! object was written.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use api::etcdserverpb as pb;
use api::methods;
use api::mvccpb::event::EventType;
use bytes::Bytes;
use ctl::CallError;
use tokio::task::JoinSet;

use super::objects::{Objects, RunClock, kind_prefix};
use crate::cli::own::KubernetesOptions;
use crate::client::Lane;
use crate::command::pages;
use crate::command::watchers::WatchTalk;
use crate::progress::Progress;
use crate::record::Recorder;
use crate::schedule::{Pacer, Plan, Ticket};
use crate::session::BenchSession;

/// How long the load lasts when the line does not say.
const USUAL_DURATION: Duration = Duration::from_secs(60);

/// Requests of one kind in flight when the line names no number of clients.
const USUAL_CLIENTS: usize = 100;

/// Events that share a lease: Kubernetes' limit.
const MAX_EVENTS_PER_LEASE: u64 = 1000;

/// How long Kubernetes gives one lease to new events: a part of their life, a minute at most.
const LEASE_REUSE_PART: f64 = 0.05;
const MAX_LEASE_REUSE: Duration = Duration::from_secs(60);

/// Objects that are created at a time before the load begins.
const FILL_CLIENTS: u32 = 200;

/// The prefixes of two kinds of resources: leases of nodes, and events. The others have numbers.
const OTHER_KINDS: [&str; 2] = ["/registry/leases/", "/registry/events/"];

/// How long events of watches that are still on the way are waited for.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Time between two looks whether they came.
const DRAIN_INTERVAL: Duration = Duration::from_millis(5);

/// The kinds of load, in the order of their phases; the last is events of watches.
const KINDS: [&str; 5] = ["renew", "update", "list", "event", "watch event"];

pub(crate) async fn run(session: &mut BenchSession, options: &KubernetesOptions) -> Result<(), String> {
    let kinds = checked_kinds(options)?;
    let scaled = |count: u64| ((count as f64 * options.scale).round() as u64).max(1);
    let (nodes, objects) = (scaled(options.nodes), scaled(options.objects));
    let clock = RunClock::start();
    let node = |number: u64| format!("{}kube-node-lease/node-{number:06}-", OTHER_KINDS[0]);
    let nodes = Objects::new((0..nodes).map(node), options.val_size, clock);
    let name =
        |number: u64| format!("{}namespace/object-{:08}-", kind_prefix((number % kinds) as usize), number);
    let objects = Objects::new((0..objects).map(name), options.val_size, clock);
    fill(session, &nodes).await?;
    fill(session, &objects).await?;
    let duration = session.options.duration.unwrap_or(USUAL_DURATION);
    let recorders: Vec<Rc<Recorder>> =
        KINDS.iter().map(|_| Recorder::start(session.layout.samples)).collect();
    let servers = session.watch_servers();
    let progress = Progress::start(Plan { duration: Some(duration), ..Plan::new(u64::MAX, 0) }, &recorders);
    let watches = watch(session, options, clock, &recorders[4]).await?;
    let compacting = tokio::task::spawn_local(compact(session.lane(0), options.compact_interval));
    let load = KubernetesLoad { session, duration, scale: options.scale };
    let nodes_a_second = nodes.len() as f64 / options.renew_interval.as_secs_f64();
    let next_node = Cell::new(0);
    let renew = move || {
        let number = next_node.replace(next_node.get() + 1);
        (Rc::clone(&nodes), number)
    };
    let mut running = JoinSet::new();
    load.start(&mut running, nodes_a_second, &recorders[0], move |lane, _| {
        let (nodes, number) = renew();
        async move { nodes.write(&lane, number % nodes.len(), 0).await }
    });
    load.start(&mut running, load.rate(options.update_rate), &recorders[1], move |lane, _| {
        let objects = Rc::clone(&objects);
        async move { objects.write(&lane, fastrand::usize(..objects.len()), 0).await }
    });
    let page = options.page;
    load.start(&mut running, load.rate(options.list_rate), &recorders[2], move |lane, _| async move {
        let key = Bytes::from(kind_prefix(fastrand::usize(..kinds as usize)));
        let request =
            pb::RangeRequest { range_end: api::prefix_end(&key), key, limit: page, ..Default::default() };
        pages(&lane, &request).await.map(drop)
    });
    let events = Events::new(options, clock);
    load.start(&mut running, load.rate(options.event_rate), &recorders[3], move |lane, ticket| {
        let events = Rc::clone(&events);
        async move { events.create(&lane, ticket.number).await }
    });
    let load_and_watches = async {
        running.join_all().await;
        drain(&recorders, options.api_servers).await;
    };
    session.interrupt.measure(load_and_watches).await;
    progress.finish();
    compacting.abort();
    watches.abort();
    let finished = KINDS.iter().zip(&recorders).map(|(name, recorder)| recorder.finish(name));
    let mut phases: Vec<_> = finished.filter(|phase| phase.requests + phase.failed() > 0).collect();
    servers.finish(&mut phases);
    for phase in phases {
        crate::print::say(&format!("\n{}:\n", phase.name));
        session.show(phase);
    }
    Ok(())
}

/// Checks the options, and returns how many kinds of resources have numbers.
///
/// # Errors
/// A value with which there is no load.
pub(crate) fn checked_kinds(options: &KubernetesOptions) -> Result<u64, String> {
    if options.scale.is_nan() || options.scale <= 0.0 || options.renew_interval.is_zero() {
        return Err("expected positive --scale and --renew-interval".to_owned());
    }
    let kinds = options.resources.saturating_sub(OTHER_KINDS.len()) as u64;
    if kinds == 0 {
        return Err(format!(
            "expected --resources of 3 or more, got {}: leases, events, others",
            options.resources
        ));
    }
    Ok(kinds)
}

/// Waits until every API server had an event of each write, or for [`DRAIN_TIME`].
async fn drain(recorders: &[Rc<Recorder>], api_servers: usize) {
    let count = |recorder: &Rc<Recorder>| recorder.succeeded();
    let writes: u64 = [0, 1, 3].map(|kind: usize| count(&recorders[kind])).iter().sum();
    let begin = Instant::now();
    while count(&recorders[4]) < writes * api_servers as u64 && begin.elapsed() < DRAIN_TIME {
        tokio::time::sleep(DRAIN_INTERVAL).await;
    }
}

/// What all kinds of load share.
struct KubernetesLoad<'a> {
    session: &'a BenchSession,
    duration: Duration,
    scale: f64,
}

impl KubernetesLoad<'_> {
    fn rate(&self, rate: u64) -> f64 {
        rate as f64 * self.scale
    }

    /// Starts clients that make requests at a rate until the end; none for a rate of 0.
    fn start<F, R>(&self, running: &mut JoinSet<()>, rate: f64, recorder: &Rc<Recorder>, request: F)
    where
        F: Fn(Rc<Lane>, Ticket) -> R + 'static,
        R: Future<Output = Result<(), CallError>> + 'static,
    {
        if rate <= 0.0 {
            return;
        }
        let plan = Plan { total: u64::MAX, rate: Some(rate), open_loop: true, duration: Some(self.duration) };
        let (pacer, request) = (Pacer::start(plan), Rc::new(request));
        recorder.count_missed_of(&pacer);
        let clients = match self.session.reach.clients as usize {
            1 => USUAL_CLIENTS,
            given => given,
        };
        for client in 0..clients {
            let (lane, pacer) = (self.session.lane(client), Rc::clone(&pacer));
            let (recorder, request) = (Rc::clone(recorder), Rc::clone(&request));
            running.spawn_local(async move {
                while let Some(ticket) = pacer.next().await {
                    let outcome = request(Rc::clone(&lane), ticket).await;
                    recorder.add_ticket(&ticket, &outcome);
                }
            });
        }
    }
}

/// Creates objects; those that are there already are taken as they are.
async fn fill(session: &BenchSession, objects: &Rc<Objects>) -> Result<(), String> {
    let pacer = Pacer::start(Plan::new(objects.len() as u64, 0));
    let recorder = Recorder::start(false);
    let progress = Progress::start(Plan::new(objects.len() as u64, 0), std::slice::from_ref(&recorder));
    let mut filling = JoinSet::new();
    for client in 0..FILL_CLIENTS as usize {
        let (lane, pacer, objects) = (session.lane(client), Rc::clone(&pacer), Rc::clone(objects));
        let recorder = Rc::clone(&recorder);
        filling.spawn_local(async move {
            while let Some(ticket) = pacer.next().await {
                let outcome = objects.write(&lane, ticket.number as usize, 0).await;
                let is_there = outcome
                    .as_ref()
                    .is_err_and(|error| error.says("the object was changed by another client"));
                recorder.add_ticket(&ticket, &if is_there { Ok(()) } else { outcome });
            }
        });
    }
    filling.join_all().await;
    progress.finish();
    let failed = recorder.finish("").errors;
    failed.keys().next().map_or(Ok(()), |error| Err(format!("cannot create objects: {error}")))
}

/// Opens the watches of all API servers, and notes their events until the returned task is ended.
async fn watch(
    session: &BenchSession,
    options: &KubernetesOptions,
    clock: RunClock,
    recorder: &Rc<Recorder>,
) -> Result<tokio::task::JoinHandle<()>, String> {
    let mut streams = Vec::new();
    for server in 0..options.api_servers {
        let watcher = |kind: usize| {
            let other = OTHER_KINDS.get(kind).map(|prefix| (*prefix).to_owned());
            let key = Bytes::from(other.unwrap_or_else(|| kind_prefix(kind - OTHER_KINDS.len())));
            let range_end = api::prefix_end(&key);
            pb::WatchCreateRequest {
                key,
                range_end,
                progress_notify: true,
                prev_kv: true,
                ..Default::default()
            }
        };
        let lane = session.lane(server);
        let opened = WatchTalk::open_all(&lane, (0..options.resources).map(watcher), |_| {}).await;
        streams.extend(opened.map_err(|error| format!("cannot watch: {error}"))?.0);
    }
    let (interval, recorder) = (options.progress_interval.max(Duration::from_millis(1)), Rc::clone(recorder));
    Ok(tokio::task::spawn_local(async move {
        let mut watching = JoinSet::new();
        for stream in streams {
            watching.spawn_local(receive(stream, interval, clock, Rc::clone(&recorder)));
        }
        watching.join_all().await;
    }))
}

async fn receive(stream: WatchTalk, interval: Duration, clock: RunClock, recorder: Rc<Recorder>) {
    let mut asking = tokio::time::interval(interval);
    loop {
        let response = tokio::select! {
            response = stream.next() => response,
            _ = asking.tick() => {
                stream.ask_for_progress();
                continue;
            }
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => return recorder.add(Instant::now(), &Err::<(), _>(error)),
        };
        // Deletions, and what another run wrote, do not tell when they were made.
        let puts = response.events.iter().filter(|event| event.r#type == EventType::Put as i32);
        for age in puts.filter_map(|event| clock.age(&event.kv.as_ref()?.value)) {
            recorder.add_latency(age);
        }
    }
}

/// A lease that events share.
struct EventLease {
    id: i64,
    events: u64,
    granted: Instant,
}

impl EventLease {
    fn is_used_up(&self, now: Instant, reuse: Duration) -> bool {
        self.events >= MAX_EVENTS_PER_LEASE || now.saturating_duration_since(self.granted) > reuse
    }
}

/// Events, with the leases that they share.
struct Events {
    prefix: String,
    ttl: i64,
    val_size: usize,
    clock: RunClock,
    /// How long a lease is given to new events: so much longer it lives.
    reuse: Duration,
    lease: RefCell<EventLease>,
    granting: tokio::sync::Mutex<()>,
}

impl Events {
    fn new(options: &KubernetesOptions, clock: RunClock) -> Rc<Self> {
        let reuse = options.event_ttl.mul_f64(LEASE_REUSE_PART).min(MAX_LEASE_REUSE);
        Rc::new(Self {
            // Events of another run have other names.
            prefix: format!("{}namespace/{:08x}-", OTHER_KINDS[1], fastrand::u32(..)),
            ttl: ((options.event_ttl + reuse).as_secs() as i64).max(1),
            val_size: options.val_size,
            clock,
            reuse,
            lease: RefCell::new(EventLease { id: 0, events: MAX_EVENTS_PER_LEASE, granted: Instant::now() }),
            granting: Default::default(),
        })
    }

    async fn create(&self, lane: &Lane, number: u64) -> Result<(), CallError> {
        let lease = self.lease(lane).await?;
        let name = format!("{}{number:010}-", self.prefix);
        Objects::new([name].into_iter(), self.val_size, self.clock).write(lane, 0, lease).await
    }

    async fn lease(&self, lane: &Lane) -> Result<i64, CallError> {
        let _lock = self.granting.lock().await;
        if self.lease.borrow().is_used_up(Instant::now(), self.reuse) {
            let request = pb::LeaseGrantRequest { ttl: self.ttl, id: 0 };
            let granted: pb::LeaseGrantResponse = lane.ask(methods::LEASE_GRANT, &request).await?;
            *self.lease.borrow_mut() = EventLease { id: granted.id, events: 0, granted: Instant::now() };
        }
        let mut lease = self.lease.borrow_mut();
        lease.events += 1;
        Ok(lease.id)
    }
}

/// Compacts again and again to the revision of the last time, the first time to that of the beginning.
async fn compact(lane: Rc<Lane>, interval: Duration) {
    let (mut last, mut compacted) = (revision(&lane).await, 0);
    loop {
        tokio::time::sleep(interval.max(Duration::from_millis(1))).await;
        if last > compacted {
            let request = pb::CompactionRequest { revision: last, physical: false };
            match lane.ask::<pb::CompactionResponse>(methods::KV_COMPACT, &request).await {
                // Another client may have been there before.
                Err(error) if !error.says("etcdserver: mvcc: required revision has been compacted") => {
                    crate::print::complain(&format!("cannot compact: {error}"));
                }
                _ => compacted = last,
            }
        }
        last = revision(&lane).await.max(last);
    }
}

/// The current revision; 0 if it cannot be learned.
async fn revision(lane: &Lane) -> i64 {
    let get = pb::RangeRequest { key: "compact_rev_key".into(), ..Default::default() };
    let got = lane.ask::<pb::RangeResponse>(methods::KV_RANGE, &get).await;
    got.ok().and_then(|got| got.header).map_or(0, |header| header.revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_used_up_by_events_or_by_age() {
        let granted = Instant::now();
        let used_up = |events, seconds| {
            let lease = EventLease { id: 1, events, granted };
            lease.is_used_up(granted + Duration::from_secs(seconds), MAX_LEASE_REUSE)
        };
        assert_eq!(
            [(999, 0), (1000, 0), (0, 60), (0, 61)].map(|(events, age)| used_up(events, age)),
            [false, true, false, true]
        );
    }
}
