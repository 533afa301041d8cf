//! `watch`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use prost::Message;
use tokio::task::JoinSet;

use super::keys::{check_key_space, number_key};
use super::watchers::{WatchTalk, watcher};
use crate::cli::etcd::WatchOptions;
use crate::client::Lane;
use crate::progress::Progress;
use crate::record::Recorder;
use crate::schedule::Pacer;
use crate::session::BenchSession;

/// Creates watchers, puts to their keys, and waits for all events.
pub(super) async fn run(session: &mut BenchSession, options: &WatchOptions) -> Result<(), String> {
    let key_space = check_key_space(options.key_space_size)?;
    if options.watched_key_total == 0 {
        return Err("expected positive --watched-key-total, got (0)".to_owned());
    }
    let watched: Rc<[Bytes]> = (0..options.watched_key_total as u64)
        .map(|number| if options.sequential_keys { number % key_space } else { fastrand::u64(..key_space) })
        .map(|number| number_key(number, options.key_size).into())
        .collect();
    let (streams, watchers_of) = create(session, options, &watched).await?;
    let expected: u64 = (0..options.put_total as usize).map(|put| watchers_of[put % watched.len()]).sum();
    let recorder = Recorder::start(session.layout.samples);
    let seen = Rc::clone(&recorder);
    let progress = Progress::draw(expected, false, move || seen.done());
    let servers = session.watch_servers();
    let left = Rc::new(Cell::new(expected));
    let mut receiving = JoinSet::new();
    for (stream, early) in streams {
        receiving.spawn_local(receive(stream, early, Rc::clone(&recorder), Rc::clone(&left)));
    }
    let pacer = Pacer::start(crate::schedule::Plan::new(options.put_total, options.put_rate));
    let mut putting = JoinSet::new();
    for client in 0..session.reach.clients as usize {
        putting.spawn_local(put(session.lane(client), Rc::clone(&pacer), Rc::clone(&watched)));
    }
    let failure =
        |joined: Result<Result<(), String>, _>| joined.map_err(|_| "a task failed".to_owned()).flatten();
    while let Some(joined) = putting.join_next().await {
        failure(joined)?;
    }
    while left.get() > 0
        && let Some(joined) = receiving.join_next().await
    {
        failure(joined)?;
    }
    progress.finish();
    let mut phases = [recorder.finish("watch events")];
    servers.finish(&mut phases);
    crate::print::say("Watch events received summary:\n");
    phases.into_iter().for_each(|phase| session.show(phase));
    Ok(())
}

type WatchTalks = Vec<(WatchTalk, Vec<pb::WatchResponse>)>;

/// Creates all watchers, and returns their streams and how many watch each key. As `benchmark` has it, watchers of one
/// key in the list count for every equal key in it.
async fn create(
    session: &mut BenchSession,
    options: &WatchOptions,
    watched: &Rc<[Bytes]>,
) -> Result<(WatchTalks, Vec<u64>), String> {
    let recorder = Recorder::start(session.layout.samples);
    let total = options.streams.saturating_mul(options.watch_per_stream);
    let seen = Rc::clone(&recorder);
    let progress = Progress::draw(total as u64, false, move || seen.done());
    let servers = session.watch_servers();
    let mut creating = JoinSet::new();
    for number in 0..options.streams {
        let (lane, recorder, watched) = (session.lane(number), Rc::clone(&recorder), Rc::clone(watched));
        let watchers = number..total;
        let step = options.streams;
        creating.spawn_local(async move {
            let watchers = watchers.step_by(step).map(|at| watcher(watched[at % watched.len()].clone()));
            WatchTalk::open_all(&lane, watchers, |begin| recorder.add(begin, &Ok::<_, String>(()))).await
        });
    }
    let mut streams = Vec::new();
    while let Some(joined) = creating.join_next().await {
        let opened = joined.map_err(|_| "a task failed".to_owned())?;
        let (stream, early) = opened.map_err(|error| format!("cannot watch: {error}"))?;
        streams.extend(stream.map(|stream| (stream, early)));
    }
    progress.finish();
    let mut phases = [recorder.finish("watch creation")];
    servers.finish(&mut phases);
    crate::print::say("Watch creation summary:\n");
    phases.into_iter().for_each(|phase| session.show(phase));
    let mut watchers_of: BTreeMap<&Bytes, u64> = BTreeMap::new();
    for at in 0..total {
        *watchers_of.entry(&watched[at % watched.len()]).or_default() += 1;
    }
    let of_each = watched.iter().map(|key| watchers_of.get(key).copied().unwrap_or(0)).collect();
    Ok((streams, of_each))
}

async fn receive(
    stream: WatchTalk,
    early: Vec<pb::WatchResponse>,
    recorder: Rc<Recorder>,
    left: Rc<Cell<u64>>,
) -> Result<(), String> {
    let mut early = early.into_iter();
    while left.get() > 0 {
        let response = match early.next() {
            Some(response) => response,
            None => stream.next().await.map_err(|error| format!("cannot watch: {error}"))?,
        };
        let received = Instant::now();
        for _ in &response.events {
            recorder.add(received, &Ok::<_, String>(()));
            left.set(left.get().saturating_sub(1));
        }
    }
    Ok(())
}

async fn put(lane: Rc<Lane>, pacer: Rc<Pacer>, watched: Rc<[Bytes]>) -> Result<(), String> {
    while let Some(ticket) = pacer.next().await {
        let key = watched[ticket.number as usize % watched.len()].clone();
        let put = pb::PutRequest { key, value: "data".into(), ..Default::default() };
        lane.call(methods::KV_PUT, &put.encode_to_vec())
            .await
            .map_err(|error| format!("cannot put: {error}"))?;
    }
    Ok(())
}
