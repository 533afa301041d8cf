//! What one load on one cluster came to.

use serde::Serialize;

/// The unit of figures that end in `_mb`.
pub(crate) const MEGABYTE: f64 = 1_000_000.0;

/// More than this part of the machine in the hands of others makes figures worthless.
pub(crate) const MAX_FOREIGN: f64 = 0.1;

/// What was measured; a figure that means nothing for a load is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) per_second: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) p999_ms: Option<f64>,
    /// At a rate: counted from when a client was free to make a request; the others count from when it was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) free_p99_ms: Option<f64>,
    /// At a rate: requests that were due and not made, because no client was free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missed: Option<u64>,
    /// Pairs of a percentage and the milliseconds in which so many were answered, as far as the generator tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) percentiles: Vec<(f64, f64)>,
    /// Of the slowest request; only `load` tells it.
    pub(crate) worst_ms: Option<f64>,
    /// User and system time of all members for a request.
    pub(crate) cpu_us: Option<f64>,
    /// User and system time of the load generator for a request.
    pub(crate) client_cpu_us: Option<f64>,
    /// Of all members together, at the end.
    pub(crate) resident_mb: Option<f64>,
    /// The sum of each member's peak during the load.
    pub(crate) peak_mb: Option<f64>,
    /// Bytes that all members sent to the disk for a request.
    pub(crate) written_bytes: Option<f64>,
    /// All members' data directories at the end.
    pub(crate) disk_mb: Option<f64>,
    /// The part of the machine that was kept busy by others, 0 to 1.
    pub(crate) foreign: f64,
}
