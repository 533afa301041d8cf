//! `check perf` and `check datascale`: put load on a cluster, and judge what it did.

use std::sync::Arc;
use std::time::Duration;

use api::etcdserverpb as pb;
use api::methods;
use cli::BarKind;
use indicatif::ProgressBar;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::client::metrics::Metrics;
use crate::client::{CallError, Client, ClientOptions};
use crate::exit::{Exit, Outcome, code};
use crate::shell::{Shell, open};

/// Seconds that `check perf` puts.
const PERF_SECONDS: u64 = 60;

/// Time that a compaction or a defragmentation afterwards may take.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(30);

/// One size of load: its names, puts a second with how many clients, and puts in all with how many clients.
type Load = (&'static [&'static str], u64, usize, u64, usize);

const LOADS: [Load; 4] = [
    (&["s", "small"], 150, 50, 10_000, 50),
    (&["m", "medium"], 1000, 200, 100_000, 200),
    (&["l", "large"], 8000, 500, 1_000_000, 500),
    (&["xl", "xLarge"], 15_000, 1000, 3_000_000, 1000),
];

pub(super) async fn run(shell: &mut Shell, which: &str) -> Outcome {
    let name = shell.values.text("load").to_owned();
    let load = LOADS
        .iter()
        .find(|load| load.0.contains(&name.as_str()))
        .ok_or_else(|| Exit::new(code::BAD_FEATURE, format!("unknown load option {name}")))?;
    let options = shell.client_options().await?;
    let prefix = shell.values.text("prefix").as_bytes().to_vec();
    let client = open(options.clone()).await?;
    let range = pb::RangeRequest {
        key: prefix.clone().into(),
        range_end: api::prefix_end(&prefix),
        limit: 1,
        ..Default::default()
    };
    let found: pb::RangeResponse = client.read(methods::KV_RANGE, &range, None).await?;
    if !found.kvs.is_empty() {
        let name = String::from_utf8_lossy(&prefix).into_owned();
        let (quoted, delete) = match which {
            "perf" => (cli::text::quote::quoted(&prefix), format!("'etcdctl del --prefix {name}'")),
            _ => (cli::text::quote::quoted(&prefix), format!("etcdctl del --prefix {name}")),
        };
        return Err(Exit::new(
            code::INVALID_INPUT,
            format!("prefix {quoted} has keys. Delete with {delete} first"),
        ));
    }
    if which == "perf" {
        performance(shell, &client, options, prefix, load).await
    } else {
        data_scale(shell, &client, options, prefix, load).await
    }
}

/// What the load was like.
#[derive(Default)]
struct Figures {
    /// Seconds that each put took.
    took: Vec<f64>,
    errors: std::collections::BTreeMap<String, u64>,
    seconds: f64,
}

/// The shape of a load.
struct Shape {
    clients: usize,
    key_bytes: usize,
    value_bytes: usize,
    /// Puts in all, if they are counted.
    puts: Option<u64>,
    /// Puts a second, if they are limited.
    rate: Option<u64>,
}

/// Puts keys below a prefix, and measures.
async fn put_load(
    options: &ClientOptions,
    prefix: &[u8],
    shape: &Shape,
    bar: &ProgressBar,
) -> Result<Figures, Exit> {
    let (send, receive) = mpsc::channel::<pb::PutRequest>(shape.clients);
    let receive = Arc::new(Mutex::new(receive));
    let (report, mut reports) = mpsc::unbounded_channel();
    let mut workers = JoinSet::new();
    for _ in 0..shape.clients {
        let client = open(options.clone()).await?;
        let (receive, report) = (receive.clone(), report.clone());
        workers.spawn(async move {
            loop {
                let Some(put) = receive.lock().await.recv().await else { return };
                let started = Instant::now();
                let done: Result<pb::PutResponse, CallError> =
                    client.write(methods::KV_PUT, &put, None).await;
                if report.send((started.elapsed().as_secs_f64(), done.err())).is_err() {
                    return;
                }
            }
        });
    }
    drop(report);
    let started = Instant::now();
    let mut figures = Figures::default();
    let collect = async {
        while let Some((took, error)) = reports.recv().await {
            match error {
                Some(error) => *figures.errors.entry(error.to_string()).or_default() += 1,
                None => figures.took.push(took),
            }
            if shape.puts.is_some() {
                bar.inc(1);
            } else {
                bar.set_position(started.elapsed().as_secs());
            }
        }
    };
    tokio::join!(feed(send, prefix, shape), collect);
    figures.seconds = started.elapsed().as_secs_f64();
    Ok(figures)
}

/// Hands out the puts: so many, or so many a second for the time of the check.
async fn feed(send: mpsc::Sender<pb::PutRequest>, prefix: &[u8], shape: &Shape) {
    let end = Instant::now() + Duration::from_secs(PERF_SECONDS);
    let mut ticks = shape.rate.map(|rate| tokio::time::interval(Duration::from_secs(1) / rate as u32));
    if let Some(ticks) = &mut ticks {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    }
    for number in 0..shape.puts.unwrap_or(u64::MAX) {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
            if Instant::now() >= end {
                return;
            }
        }
        // Keys that lie far from each other, as random ones do.
        let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let mut key = [prefix, &scattered].concat();
        key.resize(prefix.len() + shape.key_bytes, 0);
        let put = pb::PutRequest {
            key: key.into(),
            value: vec![0; shape.value_bytes].into(),
            ..Default::default()
        };
        if send.send(put).await.is_err() {
            return;
        }
    }
}

async fn performance(
    shell: &mut Shell,
    client: &Client,
    options: ClientOptions,
    prefix: Vec<u8>,
    load: &Load,
) -> Outcome {
    let (_, rate, clients, ..) = *load;
    let shape = Shape { clients, key_bytes: 256, value_bytes: 1024, puts: None, rate: Some(rate) };
    let bar = shell.streams.bar(BarKind::Seconds("putting"), PERF_SECONDS);
    let measured = tokio::select! {
        measured = put_load(&options, &prefix, &shape, &bar) => Some(measured?),
        _ = tokio::signal::ctrl_c() => None,
    };
    bar.finish_and_clear();
    clean_up(shell, client, &options, &prefix).await?;
    let Some(figures) = measured else { return Err(Exit::silent(code::ERROR)) };
    let mut passed = errors(shell, &figures)?;
    let count = figures.took.len() as f64;
    let throughput = count / figures.seconds;
    let slowest = figures.took.iter().copied().fold(0.0, f64::max);
    let mean = figures.took.iter().sum::<f64>() / count.max(1.0);
    let deviation =
        (figures.took.iter().map(|took| (took - mean).powi(2)).sum::<f64>() / count.max(1.0)).sqrt();
    let shown = throughput as u64 + 1;
    if throughput / rate as f64 <= 0.9 {
        shell.say(format!("FAIL: Throughput too low: {shown} writes/s"))?;
        passed = false;
    } else {
        shell.say(format!("PASS: Throughput is {shown} writes/s"))?;
    }
    if slowest > 0.5 {
        shell.say(format!("Slowest request took too long: {slowest:.6}s"))?;
        passed = false;
    } else {
        shell.say(format!("PASS: Slowest request took {slowest:.6}s"))?;
    }
    if deviation > 0.1 {
        shell.say(format!("Stddev too high: {deviation:.6}s"))?;
        passed = false;
    } else {
        shell.say(format!("PASS: Stddev is {deviation:.6}s"))?;
    }
    shell.say(if passed { "PASS" } else { "FAIL" })?;
    if passed { Ok(()) } else { Err(Exit::silent(code::ERROR)) }
}

/// Shows the errors, if there were any.
fn errors(shell: &mut Shell, figures: &Figures) -> Result<bool, Exit> {
    if figures.errors.is_empty() {
        return Ok(true);
    }
    shell.say("FAIL: too many errors")?;
    for (error, count) in &figures.errors {
        shell.say(format!("FAIL: ERROR({error}) -> {count}"))?;
    }
    Ok(false)
}

/// Deletes what the check has put; compacts and defragments if asked to.
async fn clean_up(shell: &mut Shell, client: &Client, options: &ClientOptions, prefix: &[u8]) -> Outcome {
    let deadline = Some(Instant::now() + CLEAN_UP_TIMEOUT);
    let request = pb::DeleteRangeRequest {
        key: bytes::Bytes::copy_from_slice(prefix),
        range_end: api::prefix_end(prefix),
        prev_kv: false,
    };
    let deleted: Result<pb::DeleteRangeResponse, CallError> =
        client.write(methods::KV_DELETE_RANGE, &request, deadline).await;
    let deleted = match deleted {
        Ok(deleted) => deleted,
        Err(error) => return shell.say(format!("FAIL: Cleanup failed during key deletion: ERROR({error})")),
    };
    if shell.values.switch("auto-compact") {
        let revision = deleted.header.map_or(0, |header| header.revision);
        shell.say(format!("Compacting with revision {revision}"))?;
        let request = pb::CompactionRequest { revision, physical: true };
        let _: pb::CompactionResponse = client.write(methods::KV_COMPACT, &request, deadline).await?;
        shell.say(format!("Compacted with revision {revision}"))?;
    }
    if shell.values.switch("auto-defrag") {
        for endpoint in &options.endpoints {
            let name = cli::text::quote::quoted(endpoint.name.as_bytes());
            let one = ClientOptions { endpoints: vec![endpoint.clone()], ..options.clone() };
            shell.say(format!("Defragmenting {name}"))?;
            let deadline = Some(Instant::now() + CLEAN_UP_TIMEOUT);
            let _: pb::DefragmentResponse = open(one)
                .await?
                .write(methods::MAINTENANCE_DEFRAGMENT, &pb::DefragmentRequest {}, deadline)
                .await?;
            shell.say(format!("Defragmented {name}"))?;
        }
    }
    Ok(())
}

async fn data_scale(
    shell: &mut Shell,
    client: &Client,
    options: ClientOptions,
    prefix: Vec<u8>,
    load: &Load,
) -> Outcome {
    let (_, _, _, puts, clients) = *load;
    let shape = Shape { clients, key_bytes: 512, value_bytes: 512, puts: Some(puts), rate: None };
    let before = memory(shell, &options, "before").await?;
    shell.say(format!(
        "Start data scale check for work load [{puts} key-value pairs, 1024 bytes per key-value, {clients} concurrent \
         clients]."
    ))?;
    let bar = shell.streams.bar(BarKind::Count("putting", "puts"), puts);
    let figures = put_load(&options, &prefix, &shape, &bar).await?;
    bar.finish_and_clear();
    let after = memory(shell, &options, "after").await?;
    clean_up(shell, client, &options, &prefix).await?;
    if !errors(shell, &figures)? {
        return Err(Exit::silent(code::ERROR));
    }
    let used = (after - before) / f64::from(1024 * 1024);
    shell.say(format!("PASS: Approximate system memory used : {used:.2} MB."))
}

/// The resident memory of the first endpoint's process, in bytes.
async fn memory(shell: &mut Shell, options: &ClientOptions, when: &str) -> Result<f64, Exit> {
    let metrics = match Metrics::fetch(&options.endpoints[0], options).await {
        Ok(metrics) => metrics,
        Err(why) => {
            shell.say(format!("fetch error: {why}"))?;
            Metrics::default()
        }
    };
    if let Some(bytes) = metrics.sum("process_resident_memory_bytes", "").filter(|bytes| *bytes > 0.0) {
        return Ok(bytes);
    }
    shell.say(format!("FAIL: Could not read process_resident_memory_bytes {when} the put operations."))?;
    Err(Exit::silent(code::ERROR))
}
