//! `watch-get`: gets while many watchers read history.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use api::etcdserverpb as pb;
use api::methods;
use prost::Message;
use tokio::task::JoinSet;

use super::watchers::{WatchTalk, watcher};
use crate::cli::etcd::WatchGetOptions;
use crate::progress::Progress;
use crate::record::Recorder;
use crate::session::BenchSession;

pub(super) async fn run(session: &mut BenchSession, options: &WatchGetOptions) -> Result<(), String> {
    let streams = options.streams.max(1);
    let (first, getting) = (session.lane(0), session.own_lane().await?);
    let mut revision = 0;
    for number in 0..options.events {
        let value = number.to_string().into();
        let put = pb::PutRequest { key: "watchkey".into(), value, ..Default::default() };
        let done: Result<pb::PutResponse, _> = first.ask(methods::KV_PUT, &put).await;
        let done = done.map_err(|error| format!("cannot put: {error}"))?;
        if number == 0 {
            revision = done.header.map_or(0, |header| header.revision);
        }
    }
    let received = Rc::new(Cell::new(0));
    let seen = Rc::clone(&received);
    let progress =
        Progress::draw((options.watchers as u64).saturating_mul(options.events), false, move || seen.get());
    let servers = session.watch_servers();
    let recorder = Recorder::start(session.layout.samples);
    let mut watching = JoinSet::new();
    for number in 0..streams {
        let (lane, received) = (session.lane(number), Rc::clone(&received));
        let watchers = (number..options.watchers).step_by(streams).count() as u64;
        watching.spawn_local(catch_up(
            lane,
            watchers,
            watchers.saturating_mul(options.events),
            revision,
            received,
        ));
    }
    let gets = tokio::task::spawn_local({
        let recorder = Rc::clone(&recorder);
        async move {
            let get = pb::RangeRequest { key: "abc".into(), serializable: true, ..Default::default() };
            let get = get.encode_to_vec();
            loop {
                let begin = Instant::now();
                let outcome = getting.call(methods::KV_RANGE, &get).await;
                recorder.add(begin, &outcome);
            }
        }
    });
    while let Some(joined) = watching.join_next().await {
        joined.map_err(|_| "a task failed".to_owned())?.map_err(|error| format!("cannot watch: {error}"))?;
    }
    gets.abort();
    progress.finish();
    let mut phases = [recorder.finish("get during watch")];
    servers.finish(&mut phases);
    crate::print::say("Get during watch summary:\n");
    phases.into_iter().for_each(|phase| session.show(phase));
    Ok(())
}

/// Creates watchers from a revision of the past on one stream, and waits for their events.
async fn catch_up(
    lane: Rc<crate::client::Lane>,
    watchers: u64,
    events: u64,
    revision: i64,
    received: Rc<Cell<u64>>,
) -> Result<(), ctl::CallError> {
    if watchers == 0 {
        return Ok(());
    }
    let request = pb::WatchCreateRequest { start_revision: revision, ..watcher("watchkey".into()) };
    let stream = WatchTalk::open(&lane, request.clone()).await?;
    (1..watchers).for_each(|_| stream.create(request.clone()));
    let mut left = events;
    while left > 0 {
        let count = stream.next().await?.events.len() as u64;
        left = left.saturating_sub(count);
        received.set(received.get() + count);
    }
    Ok(())
}
