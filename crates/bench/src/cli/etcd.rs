//! The options of `benchmark`'s commands, with its names, defaults and texts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::values::{count, duration, size};

/// `put`.
#[derive(Args, Debug)]
pub(crate) struct PutOptions {
    /// Key size of put request
    #[arg(long, default_value = "8", value_parser = size)]
    pub(crate) key_size: usize,
    /// Value size of put request
    #[arg(long, default_value = "8", value_parser = size)]
    pub(crate) val_size: usize,
    /// Maximum puts per second (0 is no limit)
    #[arg(long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// Total number of put requests
    #[arg(long, default_value_t = 10000)]
    pub(crate) total: u64,
    /// Maximum possible keys
    #[arg(long, default_value_t = 1)]
    pub(crate) key_space_size: i64,
    /// Use sequential keys
    #[arg(long)]
    pub(crate) sequential_keys: bool,
    /// Interval to compact database (e.g. --compact-interval=5m compacts every 5 minutes)
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub(crate) compact_interval: Duration,
    /// Delta between current revision and compact revision (e.g. current revision 10000, compact at 9000)
    #[arg(long, default_value_t = 1000)]
    pub(crate) compact_index_delta: i64,
    /// check hashkv
    #[arg(long)]
    pub(crate) check_hashkv: bool,
}

/// `range`.
#[derive(Args, Debug)]
pub(crate) struct RangeOptions {
    /// The first key, and the key that ends the range
    #[arg(value_name = "KEY [END-RANGE]")]
    pub(crate) keys: Vec<OsString>,
    /// Maximum range requests per second (0 is no limit)
    #[arg(long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// Total number of range requests
    #[arg(long, default_value_t = 10000)]
    pub(crate) total: u64,
    /// Linearizable(l) or Serializable(s)
    #[arg(long, default_value = "l", value_parser = ["l", "s"])]
    pub(crate) consistency: String,
    /// Maximum number of results to return from range request (0 is no limit)
    #[arg(long, default_value_t = 0)]
    pub(crate) limit: i64,
    /// Only returns the count of keys
    #[arg(long)]
    pub(crate) count_only: bool,
    /// Only returns the keys
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// Range over all keys that begin with KEY
    #[arg(long)]
    pub(crate) prefix: bool,
    /// Read the whole range in pages of --limit keys, at one revision
    #[arg(long)]
    pub(crate) paginate: bool,
    /// Ask with RangeStream
    #[arg(long)]
    pub(crate) stream: bool,
}

/// `txn-put`.
#[derive(Args, Debug)]
pub(crate) struct TxnPutOptions {
    /// Key size of txn put
    #[arg(long, default_value = "8", value_parser = size)]
    pub(crate) key_size: usize,
    /// Value size of txn put
    #[arg(long, default_value = "8", value_parser = size)]
    pub(crate) val_size: usize,
    /// Number of puts per txn
    #[arg(long, default_value_t = 1)]
    pub(crate) txn_ops: i64,
    /// Maximum txns per second (0 is no limit)
    #[arg(long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// Total number of txn requests
    #[arg(long, default_value_t = 10000)]
    pub(crate) total: u64,
    /// Maximum possible keys
    #[arg(long, default_value_t = 1)]
    pub(crate) key_space_size: i64,
}

/// `txn-mixed`.
#[derive(Args, Debug)]
pub(crate) struct TxnMixedOptions {
    /// Ignored, as benchmark does
    #[arg(num_args = 0..=2, hide = true)]
    pub(crate) keys: Vec<OsString>,
    /// Key size of mixed txn
    #[arg(long, default_value = "8", value_parser = size)]
    pub(crate) key_size: usize,
    /// Value size of mixed txn
    #[arg(long, default_value = "8", value_parser = size)]
    pub(crate) val_size: usize,
    /// Maximum txns per second (0 is no limit)
    #[arg(long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// Total number of txn requests
    #[arg(long, default_value_t = 10000)]
    pub(crate) total: u64,
    /// End of the range that is read; by default all keys, up to the limit
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) end_key: OsString,
    /// Read operation range result limit
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: i64,
    /// Maximum possible keys
    #[arg(long, default_value_t = 1)]
    pub(crate) key_space_size: i64,
    /// Linearizable(l) or Serializable(s)
    #[arg(long, default_value = "l", value_parser = ["l", "s"])]
    pub(crate) consistency: String,
    /// Read/write ops ratio
    #[arg(long, default_value_t = 1.0)]
    pub(crate) rw_ratio: f64,
}

/// `stm`.
#[derive(Args, Debug)]
pub(crate) struct StmOptions {
    /// Read Committed (c), Repeatable Reads (r), Serializable (s), or Snapshot (ss)
    #[arg(long, default_value = "r", value_parser = ["c", "r", "s", "ss"])]
    pub(crate) isolation: String,
    /// Total unique keys accessible by the benchmark
    #[arg(long, default_value_t = 1)]
    pub(crate) keys: i64,
    /// Total number of completed STM transactions
    #[arg(long, default_value_t = 10000)]
    pub(crate) total: u64,
    /// Number of keys to access per transaction
    #[arg(long, default_value_t = 1)]
    pub(crate) keys_per_txn: i64,
    /// Percentage of keys to overwrite per transaction
    #[arg(long, default_value_t = 50)]
    pub(crate) txn_wr_percent: i64,
    /// Wrap STM transaction with a custom locking mechanism (stm, lock-client, lock-rpc)
    #[arg(long, default_value = "stm", value_parser = ["stm", "lock-client", "lock-rpc"])]
    pub(crate) stm_locker: String,
    /// Value size of each STM put request
    #[arg(long, default_value = "8", value_parser = size)]
    pub(crate) val_size: usize,
    /// Maximum STM transactions per second (0 is no limit)
    #[arg(long, default_value_t = 0)]
    pub(crate) rate: u64,
}

/// `lease-keepalive`.
#[derive(Args, Debug)]
pub(crate) struct LeaseOptions {
    /// Total number of lease keepalive requests
    #[arg(long, default_value_t = 10000)]
    pub(crate) total: u64,
}

/// `watch`.
#[derive(Args, Debug)]
pub(crate) struct WatchOptions {
    /// Total watch streams
    #[arg(long, default_value = "10", value_parser = count)]
    pub(crate) streams: usize,
    /// Total watchers per stream
    #[arg(long, default_value = "100", value_parser = count)]
    pub(crate) watch_per_stream: usize,
    /// Total number of keys to be watched
    #[arg(long, default_value = "1", value_parser = count)]
    pub(crate) watched_key_total: usize,
    /// Number of keys to put per second
    #[arg(long, default_value_t = 0)]
    pub(crate) put_rate: u64,
    /// Number of put requests
    #[arg(long, default_value_t = 1000)]
    pub(crate) put_total: u64,
    /// Key size of watch request
    #[arg(long, default_value = "32", value_parser = size)]
    pub(crate) key_size: usize,
    /// Maximum possible keys
    #[arg(long, default_value_t = 1)]
    pub(crate) key_space_size: i64,
    /// Use sequential keys
    #[arg(long)]
    pub(crate) sequential_keys: bool,
}

/// `watch-get`.
#[derive(Args, Debug)]
pub(crate) struct WatchGetOptions {
    /// Total number of watchers
    #[arg(long, default_value = "10000", value_parser = count)]
    pub(crate) watchers: usize,
    /// Total number of watcher streams
    #[arg(long, default_value = "1", value_parser = count)]
    pub(crate) streams: usize,
    /// Number of events per watcher
    #[arg(long, default_value_t = 8)]
    pub(crate) events: u64,
}

/// `watch-latency`.
#[derive(Args, Debug)]
pub(crate) struct WatchLatencyOptions {
    /// Total watch streams
    #[arg(long, default_value = "10", value_parser = count)]
    pub(crate) streams: usize,
    /// Total watchers per stream
    #[arg(long, default_value = "10", value_parser = count)]
    pub(crate) watchers_per_stream: usize,
    /// PrevKV enabled on watch requests
    #[arg(long)]
    pub(crate) prevkv: bool,
    /// Total number of put requests
    #[arg(long, default_value_t = 1000)]
    pub(crate) put_total: u64,
    /// Number of keys to put per second
    #[arg(long, default_value_t = 100)]
    pub(crate) put_rate: u64,
    /// Key size of watch response
    #[arg(long, default_value = "32", value_parser = size)]
    pub(crate) key_size: usize,
    /// Value size of watch response
    #[arg(long, default_value = "32", value_parser = size)]
    pub(crate) val_size: usize,
}

/// `mvcc`.
#[derive(Debug, Subcommand)]
pub(crate) enum MvccTask {
    /// Benchmark put performance of storage
    Put(MvccOptions),
}

/// `mvcc put`.
#[derive(Args, Debug)]
pub(crate) struct MvccOptions {
    /// Interval of batching (milliseconds)
    #[arg(long, default_value_t = 100)]
    pub(crate) batch_interval: u64,
    /// A limit of batched transaction
    #[arg(long, default_value_t = 10000)]
    pub(crate) batch_limit: u64,
    /// a total number of keys to put
    #[arg(long, default_value_t = 100)]
    pub(crate) total: u64,
    /// a size of key (Byte)
    #[arg(long, default_value = "64", value_parser = size)]
    pub(crate) key_size: usize,
    /// a size of value (Byte)
    #[arg(long, default_value = "64", value_parser = size)]
    pub(crate) value_size: usize,
    /// put a key in transaction or not
    #[arg(long)]
    pub(crate) txn: bool,
    /// a number of keys to put per transaction
    #[arg(long, default_value_t = 1)]
    pub(crate) txn_ops: u64,
    /// the path of file for storing cpu profile result
    #[arg(long)]
    pub(crate) cpuprofile: Option<PathBuf>,
    /// the path of file for storing heap profile result
    #[arg(long)]
    pub(crate) memprofile: Option<PathBuf>,
}

/// A shell.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ShellName {
    Bash,
    Fish,
    Powershell,
    Zsh,
}

/// `completion`.
#[derive(Args, Debug)]
pub(crate) struct CompletionOptions {
    /// The shell
    pub(crate) shell: ShellName,
    /// disable completion descriptions (accepted: shells show them or not)
    #[arg(long)]
    pub(crate) no_descriptions: bool,
}
