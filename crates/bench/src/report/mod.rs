//! What comes of a run, and its forms.
//!
//! | file | does |
//! |---|---|
//! | `text.rs` | the report of etcd's `benchmark`, byte for byte in its layout |
//! | `extra.rs` | what we print below it |
//! | `file.rs` | JSON, and the report for perf-dash |
//! | `html.rs` | the page |

pub(crate) mod extra;
pub(crate) mod file;
pub(crate) mod html;
pub(crate) mod text;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The version of the JSON that [`mod@file`] writes and reads. It changes when a field changes its meaning.
pub(crate) const FORMAT: u32 = 1;

/// One run of the generator.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct RunReport {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The words of the line, without secrets.
    pub(crate) command: String,
    /// What the server says it is, if it was asked.
    pub(crate) server: String,
    /// Seconds since 1970 when it began.
    pub(crate) unix_seconds: u64,
    pub(crate) phases: Vec<Phase>,
}

/// A part of a run whose requests belong together.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Phase {
    pub(crate) name: String,
    /// Those that succeeded; latencies are theirs.
    pub(crate) requests: u64,
    /// How many failed, by the text of the error.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    pub(crate) fastest_ms: f64,
    pub(crate) slowest_ms: f64,
    pub(crate) average_ms: f64,
    pub(crate) stddev_ms: f64,
    /// Pairs of a percentage and the milliseconds in which so many were answered.
    pub(crate) percentiles: Vec<[f64; 2]>,
    /// The same of an open loop, counted from when a client was free to make a request instead of from when it was due.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) since_taken: Vec<[f64; 2]>,
    /// Requests of an open loop that were due and not made before the end; those of all kinds, in the first phase.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) missed: u64,
    /// Upper bounds in milliseconds, and how many were in the class.
    pub(crate) histogram: Vec<(f64, u64)>,
    pub(crate) moments: Vec<Moment>,
    /// By second since 1970; only with `--sample`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unix_seconds: BTreeMap<u64, UnixSecond>,
    /// User and system time of this process for a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_cpu_us: Option<f64>,
    /// What the servers used, as far as they run on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) servers: Option<ServerUse>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Phase {
    /// The milliseconds in which so many per cent were answered; 0 for a percentage that is not kept.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        percentile(&self.percentiles, percent)
    }

    /// The same, counted from when a client was free.
    pub(crate) fn percentile_since_taken(&self, percent: f64) -> f64 {
        percentile(&self.since_taken, percent)
    }

    /// How many requests failed.
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

fn percentile(percentiles: &[[f64; 2]], percent: f64) -> f64 {
    let found = percentiles.iter().find(|[kept, _]| (kept - percent).abs() < 1e-9);
    found.map_or(0.0, |[_, ms]| *ms)
}

/// One second of a phase.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Moment {
    /// Counted from 0.
    pub(crate) second: u64,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) slowest_ms: f64,
}

/// One second of the wall clock, in which requests began.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct UnixSecond {
    pub(crate) requests: u64,
    pub(crate) fastest_ns: u64,
    pub(crate) slowest_ns: u64,
    pub(crate) total_ns: u64,
}

impl UnixSecond {
    /// Adds a latency.
    pub(crate) fn add(&mut self, latency: Duration) {
        let nanoseconds = latency.as_nanos() as u64;
        self.fastest_ns = if self.requests == 0 { nanoseconds } else { self.fastest_ns.min(nanoseconds) };
        self.slowest_ns = self.slowest_ns.max(nanoseconds);
        self.total_ns += nanoseconds;
        self.requests += 1;
    }
}

/// What processes of servers used during a phase.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct ServerUse {
    pub(crate) processes: Vec<u32>,
    /// User and system time of all of them for a request.
    pub(crate) cpu_us: f64,
    /// Of all of them, at the end.
    pub(crate) resident_mb: f64,
    /// The greatest sum that was seen.
    pub(crate) peak_mb: f64,
    /// Second of the phase, CPUs in use, megabytes.
    pub(crate) moments: Vec<(f64, f64, f64)>,
}
