//! The table of etcd's `benchmark`: names, options and texts of its pages.
//!
//! It decides what exists under that name and how wrong lines are answered; `etcd.rs` reads the values. Options that
//! only newer releases have stand here with texts of our own.

use ::cli::{BLANK, Command, Flag, Kind, PageLayout, Program, switch, text_flag as text};

/// The program.
pub(crate) const BENCHMARK: Program =
    Program { name: "benchmark", original: "benchmark", root: &ROOT, layout: PageLayout::Whole };

const fn flag(name: &'static str, kind: Kind, default: &'static str, usage: &'static str) -> Flag {
    Flag { name, short: None, kind, default, usage, choices: &[] }
}

const LEASE_KEEPALIVE: Command = Command {
    usage: "lease-keepalive",
    short: "Benchmark lease keepalive",
    flags: &[flag("total", Kind::Int, "10000", "Total number of lease keepalive requests")],
    ..BLANK
};

const MVCC: Command = Command {
    usage: "mvcc",
    short: "Benchmark mvcc",
    long: "storage subcommand is a set of various benchmark tools for MVCC storage subsystem of etcd.\n\
           Actual benchmarks are implemented as its subcommands.",
    shared_flags: &[
        flag("batch-interval", Kind::Int, "100", "Interval of batching (milliseconds)"),
        flag("batch-limit", Kind::Int, "10000", "A limit of batched transaction"),
    ],
    children: &[Command {
        usage: "put",
        short: "Benchmark put performance of storage",
        flags: &[
            text("cpuprofile", "", "the path of file for storing cpu profile result"),
            flag("key-size", Kind::Int, "64", "a size of key (Byte)"),
            text("memprofile", "", "the path of file for storing heap profile result"),
            flag("total", Kind::Int, "100", "a total number of keys to put"),
            switch("txn", "put a key in transaction or not"),
            flag("txn-ops", Kind::Int, "1", "a number of keys to put per transaction"),
            flag("value-size", Kind::Int, "64", "a size of value (Byte)"),
        ],
        ..BLANK
    }],
    ..BLANK
};

const PUT: Command = Command {
    usage: "put",
    short: "Benchmark put",
    flags: &[
        switch("check-hashkv", "'true' to check hashkv"),
        flag(
            "compact-index-delta",
            Kind::Int,
            "1000",
            "Delta between current revision and compact revision (e.g. current revision 10000, compact at 9000)",
        ),
        flag(
            "compact-interval",
            Kind::Duration,
            "",
            "Interval to compact database (do not duplicate this with etcd's 'auto-compaction-retention' \
             flag) (e.g. --compact-interval=5m compacts every 5-minute)",
        ),
        flag("key-size", Kind::Int, "8", "Key size of put request"),
        flag("key-space-size", Kind::Int, "1", "Maximum possible keys"),
        flag("rate", Kind::Int, "", "Maximum puts per second (0 is no limit)"),
        switch("sequential-keys", "Use sequential keys"),
        flag("total", Kind::Int, "10000", "Total number of put requests"),
        flag("val-size", Kind::Int, "8", "Value size of put request"),
    ],
    ..BLANK
};

const RANGE: Command = Command {
    usage: "range key [end-range]",
    short: "Benchmark range",
    flags: &[
        text("consistency", "l", "Linearizable(l) or Serializable(s)"),
        switch("count-only", "Only returns the count of keys"),
        switch("keys-only", "Only returns the keys"),
        flag(
            "limit",
            Kind::Int,
            "",
            "Maximum number of results to return from range request (0 is no limit)",
        ),
        switch("paginate", "Read the whole range in pages of --limit keys, at one revision"),
        switch("prefix", "Range over all keys that begin with the key"),
        flag("rate", Kind::Int, "", "Maximum range requests per second (0 is no limit)"),
        switch("stream", "Ask with RangeStream"),
        flag("total", Kind::Int, "10000", "Total number of range requests"),
    ],
    ..BLANK
};

const STM: Command = Command {
    usage: "stm",
    short: "Benchmark STM",
    flags: &[
        text(
            "isolation",
            "r",
            "Read Committed (c), Repeatable Reads (r), Serializable (s), or Snapshot (ss)",
        ),
        flag("keys", Kind::Int, "1", "Total unique keys accessible by the benchmark"),
        flag("keys-per-txn", Kind::Int, "1", "Number of keys to access per transaction"),
        flag("rate", Kind::Int, "", "Maximum STM transactions per second (0 is no limit)"),
        text(
            "stm-locker",
            "stm",
            "Wrap STM transaction with a custom locking mechanism (stm, lock-client, lock-rpc)",
        ),
        flag("total", Kind::Int, "10000", "Total number of completed STM transactions"),
        flag("txn-wr-percent", Kind::Int, "50", "Percentage of keys to overwrite per transaction"),
        flag("val-size", Kind::Int, "8", "Value size of each STM put request"),
    ],
    ..BLANK
};

const TXN_MIXED: Command = Command {
    usage: "txn-mixed key [end-range]",
    short: "Benchmark a mixed load of txn-put & txn-range.",
    flags: &[
        text("consistency", "l", "Linearizable(l) or Serializable(s)"),
        text(
            "end-key",
            "",
            "Read operation range end key. By default, we do full range query with the default limit of 1000.",
        ),
        flag("key-size", Kind::Int, "8", "Key size of mixed txn"),
        flag("key-space-size", Kind::Int, "1", "Maximum possible keys"),
        flag("limit", Kind::Int, "1000", "Read operation range result limit"),
        flag("rate", Kind::Int, "", "Maximum txns per second (0 is no limit)"),
        flag("rw-ratio", Kind::Float, "1", "Read/write ops ratio"),
        flag("total", Kind::Int, "10000", "Total number of txn requests"),
        flag("val-size", Kind::Int, "8", "Value size of mixed txn"),
    ],
    ..BLANK
};

const TXN_PUT: Command = Command {
    usage: "txn-put",
    short: "Benchmark txn-put",
    flags: &[
        flag("key-size", Kind::Int, "8", "Key size of txn put"),
        flag("key-space-size", Kind::Int, "1", "Maximum possible keys"),
        flag("rate", Kind::Int, "", "Maximum txns per second (0 is no limit)"),
        flag("total", Kind::Int, "10000", "Total number of txn requests"),
        flag("txn-ops", Kind::Int, "1", "Number of puts per txn"),
        flag("val-size", Kind::Int, "8", "Value size of txn put"),
    ],
    ..BLANK
};

const WATCH: Command = Command {
    usage: "watch",
    short: "Benchmark watch",
    long: "Benchmark watch tests the performance of processing watch requests and\n\
           sending events to watchers. It tests the sending performance by\n\
           changing the value of the watched keys with concurrent put\nrequests.\n\n\
           During the test, each watcher watches (--total/--watchers) keys\n\n\
           (a watcher might watch on the same key multiple times if\n--watched-key-total is small).\n\n\
           Each key is watched by (--total/--watched-key-total) watchers.",
    flags: &[
        flag("key-size", Kind::Int, "32", "Key size of watch request"),
        flag("key-space-size", Kind::Int, "1", "Maximum possible keys"),
        flag("put-rate", Kind::Int, "", "Number of keys to put per second"),
        flag("put-total", Kind::Int, "1000", "Number of put requests"),
        switch("sequential-keys", "Use sequential keys"),
        flag("streams", Kind::Int, "10", "Total watch streams"),
        flag("watch-per-stream", Kind::Int, "100", "Total watchers per stream"),
        flag("watched-key-total", Kind::Int, "1", "Total number of keys to be watched"),
    ],
    ..BLANK
};

const WATCH_GET: Command = Command {
    usage: "watch-get",
    short: "Benchmark watch with get",
    long: "Benchmark for serialized key gets with many unsynced watchers",
    flags: &[
        flag("events", Kind::Int, "8", "Number of events per watcher"),
        flag("streams", Kind::Int, "1", "Total number of watcher streams"),
        flag("watchers", Kind::Int, "10000", "Total number of watchers"),
    ],
    ..BLANK
};

const WATCH_LATENCY: Command = Command {
    usage: "watch-latency",
    short: "Benchmark watch latency",
    long: "Benchmarks the latency for watches by measuring\n\
           \tthe latency between writing to a key and receiving the\n\tassociated watch response.",
    flags: &[
        flag("key-size", Kind::Int, "32", "Key size of watch response"),
        switch("prevkv", "PrevKV enabled on watch requests"),
        flag("put-rate", Kind::Int, "100", "Number of keys to put per second"),
        flag("put-total", Kind::Int, "1000", "Total number of put requests"),
        flag("streams", Kind::Int, "10", "Total watch streams"),
        flag("val-size", Kind::Int, "32", "Value size of watch response"),
        flag("watchers-per-stream", Kind::Int, "10", "Total watchers per stream"),
    ],
    ..BLANK
};

const NO_DESCRIPTIONS: &[Flag] = &[switch("no-descriptions", "disable completion descriptions")];

/// A shell whose script can be made.
const fn shell(usage: &'static str, short: &'static str) -> Command {
    Command { usage, short, flags: NO_DESCRIPTIONS, ..BLANK }
}

const COMPLETION: Command = Command {
    usage: "completion",
    short: "Generate the autocompletion script for the specified shell",
    long: "Generate the autocompletion script for benchmark for the specified shell.\n\
           See each sub-command's help for details on how to use the generated script.",
    children: &[
        shell("bash", "Generate the autocompletion script for bash"),
        shell("fish", "Generate the autocompletion script for fish"),
        shell("powershell", "Generate the autocompletion script for powershell"),
        shell("zsh", "Generate the autocompletion script for zsh"),
    ],
    ..BLANK
};

const HELP: Command = Command {
    usage: "help [command]",
    short: "Help about any command",
    long: "Help provides help for any command in the application.\n\
           Simply type benchmark help [path to command] for full details.",
    ..BLANK
};

static ROOT: Command = Command {
    usage: "benchmark",
    long: "benchmark is a low-level benchmark tool for etcd3.\n\
           It uses gRPC client directly and does not depend on\netcd client library.",
    shared_flags: &[
        flag(
            "auto-sync-interval",
            Kind::Duration,
            "",
            "AutoSyncInterval is the interval to update endpoints with its latest members",
        ),
        text("cacert", "", "verify certificates of HTTPS-enabled servers using this CA bundle"),
        text("cert", "", "identify HTTPS client using this SSL certificate file"),
        flag("clients", Kind::Uint, "1", "Total number of gRPC clients"),
        flag("conns", Kind::Uint, "1", "Total number of gRPC connections"),
        flag("dial-timeout", Kind::Duration, "", "dial timeout for client connections"),
        flag("endpoints", Kind::List, "127.0.0.1:2379", "gRPC endpoints"),
        switch("insecure-skip-tls-verify", "skip server certificate verification"),
        text("key", "", "identify HTTPS client using this SSL key file"),
        switch("precise", "use full floating point precision"),
        switch(
            "report-perfdash",
            "write a JSON report for perf-dash into the folder of the variable ARTIFACTS",
        ),
        switch("sample", "'true' to sample requests for every second"),
        switch("target-leader", "connect only to the leader node"),
        text("user", "", "provide username[:password] and prompt if password is not supplied."),
    ],
    children: &[
        COMPLETION,
        HELP,
        LEASE_KEEPALIVE,
        MVCC,
        PUT,
        RANGE,
        STM,
        TXN_MIXED,
        TXN_PUT,
        WATCH,
        WATCH_GET,
        WATCH_LATENCY,
    ],
    ..BLANK
};
