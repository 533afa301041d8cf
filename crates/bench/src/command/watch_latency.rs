//! `watch-latency`: from the answer of a put to its events.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use prost::Message;
use tokio::task::JoinSet;

use super::random_bytes;
use super::watchers::{WatchTalk, watcher};
use crate::cli::etcd::WatchLatencyOptions;
use crate::progress::Progress;
use crate::record::Recorder;
use crate::schedule::{Pacer, Plan};
use crate::session::BenchSession;

pub(super) async fn run(session: &mut BenchSession, options: &WatchLatencyOptions) -> Result<(), String> {
    let key = Bytes::from(random_bytes(options.key_size));
    let value = Bytes::from(random_bytes(options.val_size));
    let watchers = options.streams.saturating_mul(options.watchers_per_stream) as u64;
    let request = pb::WatchCreateRequest { prev_kv: options.prevkv, ..watcher(key.clone()) };
    let mut streams = Vec::new();
    for number in 0..options.streams {
        let requests = (0..options.watchers_per_stream).map(|_| request.clone());
        let opened = WatchTalk::open_all(&session.lane(number), requests, |_| {}).await;
        streams.extend(opened.map_err(|error| format!("cannot watch: {error}"))?.0);
    }
    let received = Rc::new(Cell::new(0));
    let seen = Rc::clone(&received);
    let progress = Progress::draw(options.put_total.saturating_mul(watchers), false, move || seen.get());
    let servers = session.watch_servers();
    let mut watching = JoinSet::new();
    for stream in streams {
        let (puts, each) = (options.put_total, options.watchers_per_stream);
        watching.spawn_local(receive(stream, puts, each, Rc::clone(&received)));
    }
    let putting = session.own_lane().await?;
    let puts = Recorder::start(session.layout.samples);
    let put = pb::PutRequest { key, value, ..Default::default() }.encode_to_vec();
    let pacer = Pacer::start(Plan::new(options.put_total, options.put_rate));
    let mut answered = BTreeMap::new();
    while let Some(ticket) = pacer.next().await {
        let outcome = putting.call(methods::KV_PUT, &put).await;
        puts.add_ticket(&ticket, &outcome);
        let answer =
            outcome.map_err(|error| format!("Failed to Put for watch latency benchmark: {error}"))?;
        let answer = pb::PutResponse::decode(answer.as_slice()).map_err(|error| error.to_string())?;
        answered.insert(answer.header.map_or(0, |header| header.revision), Instant::now());
    }
    let events = Recorder::start(session.layout.samples);
    while let Some(joined) = watching.join_next().await {
        let seen = joined.map_err(|_| "a task failed".to_owned())?;
        for (revision, at) in seen.map_err(|error| format!("cannot watch: {error}"))? {
            // An event may come before its put's answer: then it was not late at all.
            let late =
                answered.get(&revision).map_or(Duration::ZERO, |put| at.saturating_duration_since(*put));
            events.add_latency(late);
        }
    }
    progress.finish();
    let mut phases = vec![puts.finish("put"), events.finish("watch events")];
    servers.finish(&mut phases[..1]);
    for (phase, title) in phases.into_iter().zip(["Put", "Watch events"]) {
        crate::print::say(&format!("\n{title} summary:\n"));
        session.show(phase);
    }
    Ok(())
}

/// When the event of each revision came, for each watcher of a stream.
async fn receive(
    stream: WatchTalk,
    puts: u64,
    watchers: usize,
    received: Rc<Cell<u64>>,
) -> Result<Vec<(i64, Instant)>, ctl::CallError> {
    let (mut seen, mut left) = (Vec::new(), puts.saturating_mul(watchers as u64));
    while left > 0 {
        let response = stream.next().await?;
        let now = Instant::now();
        for event in &response.events {
            seen.push((event.kv.as_ref().map_or(0, |kv| kv.mod_revision), now));
            left = left.saturating_sub(1);
            received.set(received.get() + 1);
        }
    }
    Ok(seen)
}
