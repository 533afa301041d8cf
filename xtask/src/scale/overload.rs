//! A lone member on one core, and a load on another that asks for twice what the member can do.
//!
//! Loads of puts over the same number of connections: as many as the member can do (the peak), half of that, and twice
//! that. A rate is an open loop over all connections in turn. A client waits for its answer before it sends the next
//! put, so less than twice the peak is sent; how much is a figure of its own. A put waits for a client that is free
//! before it is sent, which no server can change; so the promise is about the time from then on, and the time from when
//! it was due is a figure of its own.
//!
//! There are two peaks. With few clients few connections are in use, which stay in the processor's caches: then a put
//! takes less time. The loads are so many times the peak with all connections in use, and both peaks are reported.

use std::path::Path;
use std::time::Duration;

use super::bench::{Bench, Missing, RowFigures, told};
use super::promise::{Promise, RowFigure};
use crate::measure::cluster::{Cluster, Site};
use crate::measure::figures::Figures;
use crate::measure::generator::Load;

const CONNECTIONS: u64 = 10_000;

/// Clients with which the peak of few connections is looked for: the most that they reach without a refusal.
const PEAK_CLIENTS: [u64; 3] = [100, 200, 400];

/// Rates at which the peak of all connections is looked for, of that of few: the most that is answered.
const PEAK_RATES: [f64; 2] = [0.7, 0.8];

/// Descriptors of the member: its connections, and what it needs besides ([limits]).
///
/// [limits]: ../../../docs/operating/limits.md
const OPEN_FILES: u64 = 16_384;

/// Cores of the member and of the generator.
const MEMBER_CORE: usize = 0;
const GENERATOR_CORE: usize = 1;

/// Time of the loads that the last one is compared with, and of that.
const SHORT: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(600);

/// Least time of a load, at any factor.
const LEAST: Duration = Duration::from_secs(5);

/// The promise about answered puts, of the peak.
const GOODPUT: f64 = 0.9;

/// The promise about the p99 of answered puts, of that at half the peak.
const P99: f64 = 5.0;

pub(super) fn run(bench: &Bench) -> RowFigures {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() <= GENERATOR_CORE) {
        return Err(Missing::Skipped("the member and the generator need a core each".to_owned()));
    }
    let site = Site { core: Some(MEMBER_CORE), ..bench.site(Some(OPEN_FILES)) };
    let mut cluster = Cluster::start(&bench.system, 1, &site)?;
    let (short, long) = (bench.scaled_time(SHORT, LEAST), bench.scaled_time(LONG, LEAST));
    let connections = bench.scaled(CONNECTIONS);
    let mut puts = |clients: u64, rate: Option<f64>, time: Duration| -> Result<Figures, String> {
        let load = load(connections, clients, rate, time, bench.system.binary());
        bench.drive(&mut cluster, load)
    };
    let mut few: f64 = 0.0;
    for clients in PEAK_CLIENTS {
        let figures = puts(clients, None, short)?;
        if figures.errors == 0 {
            few = few.max(told(figures.per_second, "throughput")?);
        }
    }
    if few == 0.0 {
        return Err(format!("puts were refused with {} clients already", PEAK_CLIENTS[0]).into());
    }
    let mut peak: f64 = 0.0;
    for part in PEAK_RATES {
        peak = peak.max(told(puts(connections, Some(few * part), short)?.per_second, "throughput")?);
    }
    let half = puts(connections, Some(peak / 2.0), short)?;
    let half = told(half.free_p99_ms, "latency")?;
    let over = puts(connections, Some(peak * 2.0), long)?;
    let (goodput, p99) = (told(over.per_second, "throughput")?, told(over.free_p99_ms, "latency")?);
    let sent = goodput * (over.requests + over.errors) as f64 / over.requests.max(1) as f64;
    Ok(vec![
        RowFigure::promised("answered, of the peak", goodput / peak, "", Promise::AtLeast(GOODPUT)),
        RowFigure::at_most("p99, of that at half the peak", p99 / half, "", P99),
        RowFigure::new("answered, of the peak of few connections", goodput / few, ""),
        RowFigure::new("sent, of the peak", sent / peak, ""),
        RowFigure::new("peak", peak, "/s"),
        RowFigure::new("peak of few connections", few, "/s"),
        RowFigure::new("p99 at half the peak", half, "ms"),
        RowFigure::new("p99 at twice the peak", p99, "ms"),
        RowFigure::new("p99 at twice the peak, from when puts were due", told(over.p99_ms, "latency")?, "ms"),
        RowFigure::new("missed: no client was free", over.missed.unwrap_or(0) as f64, ""),
        RowFigure::new("refused", over.errors as f64, ""),
        RowFigure::new("resident memory, peak", told(over.peak_mb, "peak")?, "MB"),
    ])
}

/// Puts for so long: at a rate, or as many as the clients can make.
fn load(connections: u64, clients: u64, rate: Option<f64>, time: Duration, stele: &Path) -> Load {
    let rate = rate.map_or_else(String::new, |rate| format!(" --rate={rate:.0} --open-loop"));
    let clients = format!("--conns={connections} --clients={clients}");
    let values = "--key-space-size=100000 --val-size=256";
    let line = format!("put {clients} {values} --total=4000000000 --duration={}s{rate}", time.as_secs());
    Load { core: Some(GENERATOR_CORE), ..Load::benchmark(&line).made_by(Some(stele)) }
}
