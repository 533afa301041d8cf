//! Long-lived streams to a lone member: leases kept alive, a watch beside another one of its stream, and thousands of
//! watchers while metrics are scraped.

use super::bench::{Bench, RowFigures, told};
use super::promise::RowFigure;
use crate::measure::generator::Load;

/// The promise about a second watch's answers, in milliseconds.
const SECOND_WATCH_MS: f64 = 20.0;

/// The promise about the processor time of a scrape, in milliseconds.
const SCRAPE_MS: f64 = 5.0;

/// Streams of the watchers while metrics are scraped, and connections.
const SCRAPED_STREAMS: u64 = 1_000;
const SCRAPED_CONNECTIONS: u64 = 100;

/// Scrapes that are measured, 40 at a time.
const SCRAPES: u64 = 400;

/// Leases that clients keep alive, all leases of a client on one stream.
#[derive(Clone, Copy)]
pub(super) struct Leases {
    pub(super) leases: u64,
    pub(super) clients: u64,
    pub(super) ttl_seconds: u64,
    /// How long they are kept alive: some times the time to live.
    pub(super) hold_seconds: u64,
}

impl Leases {
    pub(super) fn run(self, bench: &Bench) -> RowFigures {
        let Self { clients, ttl_seconds, hold_seconds, .. } = self;
        let leases = bench.scaled(self.leases);
        let mut cluster = bench.start(1)?;
        let line =
            format!("lease --conns={clients} --total={leases} --ttl={ttl_seconds}s --hold={hold_seconds}s");
        let figures = bench.drive(&mut cluster, Load::ours(&line))?;
        Ok(vec![
            RowFigure::at_most("leases lost", figures.errors as f64, "", 0.0),
            RowFigure::new("leases kept", figures.requests as f64, ""),
        ])
    }
}

/// Creates and cancels a watch on a stream whose first watch catches up over so many events.
pub(super) fn second_watch(bench: &Bench, events: u64) -> RowFigures {
    let events = bench.scaled(events);
    let mut cluster = bench.start(1)?;
    bench.drive_all(&mut cluster, Load::fill(events, 256))?;
    let figures = bench.drive_all(&mut cluster, Load::ours(&format!("second-watch --total={events}")))?;
    Ok(vec![
        RowFigure::at_most("create or cancel, p50", told(figures.p50_ms, "latency")?, "ms", SECOND_WATCH_MS),
        RowFigure::new("the slowest", told(figures.worst_ms, "latency")?, "ms"),
        RowFigure::new("creates and cancels", figures.requests as f64, ""),
    ])
}

/// Scrapes the metrics while so many watchers are open. The load tells the processor time of the member's process.
pub(super) fn scrape(bench: &Bench, watchers: u64) -> RowFigures {
    let watchers = bench.scaled(watchers);
    let streams = SCRAPED_STREAMS.min(watchers);
    let mut cluster = bench.start(1)?;
    let opened = format!("--watchers={watchers} --clients={streams} --conns={SCRAPED_CONNECTIONS}");
    let figures = bench.drive_all(&mut cluster, Load::ours(&format!("scrape {opened} --total={SCRAPES}")))?;
    Ok(vec![
        RowFigure::at_most("CPU of a scrape, p50", told(figures.p50_ms, "CPU")?, "ms", SCRAPE_MS),
        RowFigure::new("that of the 40 that took most", told(figures.worst_ms, "CPU")?, "ms"),
    ])
}
