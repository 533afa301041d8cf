//! Commands and options that `benchmark` does not have.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{count, duration, share, size};

/// Options of every run.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options that benchmark does not have")]
pub(crate) struct RunOptions {
    /// With a rate: requests are due at fixed times, and latencies count from then (no coordinated omission)
    #[arg(long, global = true)]
    pub(crate) open_loop: bool,
    /// How long requests are made; --total has no effect then
    #[arg(long, global = true, value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// How long the same requests are made before anything is measured
    #[arg(long, global = true, value_parser = duration)]
    pub(crate) warm_up: Option<Duration>,
    /// Write the result to this file as JSON
    #[arg(long, global = true)]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with plots to this file
    #[arg(long, global = true)]
    pub(crate) html: Option<PathBuf>,
}

/// `mixed`.
#[derive(Args, Debug)]
pub(crate) struct MixedOptions {
    /// Shares of put, get, range, delete and txn (a compare and a put)
    #[arg(long, value_delimiter = ',', value_parser = share, default_value = "put=20,get=70,range=5,delete=1,txn=4")]
    pub(crate) shares: Vec<(String, f64)>,
    /// Requests a second (0 is no limit)
    #[arg(long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// Requests to make
    #[arg(long, default_value_t = 10000)]
    pub(crate) total: u64,
    /// Different keys
    #[arg(long, default_value_t = 10000)]
    pub(crate) key_space_size: u64,
    /// Bytes of a value
    #[arg(long, default_value = "256", value_parser = size)]
    pub(crate) val_size: usize,
    /// Keys of one range
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: i64,
    /// Linearizable(l) or Serializable(s)
    #[arg(long, default_value = "l", value_parser = ["l", "s"])]
    pub(crate) consistency: String,
}

/// `kubernetes`.
#[derive(Args, Debug)]
pub(crate) struct KubernetesOptions {
    /// Nodes; each renews a lease object by an update
    #[arg(long, default_value_t = 10000)]
    pub(crate) nodes: u64,
    /// How often a node renews its lease object
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) renew_interval: Duration,
    /// Objects that are there when the run begins, besides the lease objects
    #[arg(long, default_value_t = 20000)]
    pub(crate) objects: u64,
    /// Bytes of an object
    #[arg(long, default_value = "1024", value_parser = size)]
    pub(crate) val_size: usize,
    /// Updates of objects a second: each compares and puts
    #[arg(long, default_value_t = 500)]
    pub(crate) update_rate: u64,
    /// Lists a second: pages of --page keys at one revision
    #[arg(long, default_value_t = 1)]
    pub(crate) list_rate: u64,
    /// Keys of a page
    #[arg(long, default_value_t = 500)]
    pub(crate) page: i64,
    /// Events a second: objects that are created with a lease
    #[arg(long, default_value_t = 50)]
    pub(crate) event_rate: u64,
    /// How long an event lives
    #[arg(long, default_value = "1h", value_parser = duration)]
    pub(crate) event_ttl: Duration,
    /// API servers; each watches every kind of resource, and asks for progress
    #[arg(long, default_value = "5", value_parser = count)]
    pub(crate) api_servers: usize,
    /// Kinds of resources
    #[arg(long, default_value = "120", value_parser = count)]
    pub(crate) resources: usize,
    /// How often each watch stream asks for progress
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub(crate) progress_interval: Duration,
    /// How often the history is compacted
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub(crate) compact_interval: Duration,
    /// Multiplies nodes, objects and rates
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
}

/// `suite`.
#[derive(Args, Debug)]
pub(crate) struct SuiteOptions {
    /// Multiplies the numbers of requests
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Bytes of a key
    #[arg(long, default_value = "8", value_parser = size)]
    pub(crate) key_size: usize,
    /// Bytes of a value
    #[arg(long, default_value = "256", value_parser = size)]
    pub(crate) val_size: usize,
}

/// `report`.
#[derive(Args, Debug)]
pub(crate) struct ReportOptions {
    /// One or two files that --json wrote; two are drawn side by side
    #[arg(num_args = 1..=2, required = true)]
    pub(crate) results: Vec<PathBuf>,
}
