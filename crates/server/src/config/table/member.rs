//! Section "Member".

use super::flag::{Flag, FlagKind, count, duration, integer, switch, text, urls};

const NO_BBOLT: &str = "there is no bbolt";
const OWN_FILES: &str = "log segments and checkpoints are freed when nothing needs them";

pub(super) const FLAGS: &[Flag] = &[
    text("name", "default", "Name of this member; must differ from those of the others."),
    text("data-dir", "${name}.etcd", "Directory of everything this member keeps."),
    text("wal-dir", "", "Separate directory for the log that is being written, if any."),
    count(
        "snapshot-count",
        "10000",
        "How many applied commands until a checkpoint is due. Without this flag it is 100,000.",
    ),
    count("heartbeat-interval", "100", "Milliseconds between two heartbeats of a leader."),
    count("election-timeout", "1000", "Milliseconds without a leader until a member campaigns."),
    switch("initial-election-tick-advance", "true", "Shorten the first wait for a leader after the start.")
        .no_effect("a member that knows it is alone campaigns at once, others wait one election timeout"),
    urls("listen-peer-urls", "http://localhost:2380", "Where to listen for other members."),
    urls(
        "listen-client-urls",
        "http://localhost:2379",
        "Where to listen for clients: gRPC, and HTTP unless --listen-client-http-urls is set.",
    ),
    urls(
        "listen-client-http-urls",
        "",
        "Where to listen for HTTP clients only; disables HTTP on the client URLs.",
    ),
    count("max-snapshots", "5", "How many snapshot files to keep.").no_effect(OWN_FILES),
    count("max-wals", "5", "How many log files to keep.").no_effect(OWN_FILES),
    switch("memory-mlock", "false", "Keep the pages of bbolt in memory.").no_effect(NO_BBOLT),
    integer(
        "quota-backend-bytes",
        "0",
        "Bytes of live data above which writes are refused and an alarm is raised; 0 means as much as the disk allows, \
         a negative number no limit.",
    ),
    count(
        "memory-limit-bytes",
        "",
        "Accounted bytes of memory above which writes are refused and an alarm is raised; unless it is set, half of \
         what the machine or the cgroup allows; 0 means no limit, other values are at least 67108864 (64 MiB). Not a \
         flag of etcd.",
    ),
    text("backend-bbolt-freelist-type", "map", "How bbolt keeps its free pages.").no_effect(NO_BBOLT),
    duration("backend-batch-interval", "", "Longest time until bbolt commits.").no_effect(NO_BBOLT),
    integer("backend-batch-limit", "0", "Most operations until bbolt commits.").no_effect(NO_BBOLT),
    count("max-txn-ops", "128", "Most operations in one transaction."),
    count(
        "max-request-bytes",
        "1572864",
        "Largest request accepted from a client, in bytes; at most 33554432 (32 MiB).",
    ),
    Flag::new(
        FlagKind::Count(32),
        "max-concurrent-streams",
        "4294967295",
        "Most streams a client may have open on one connection.",
    ),
    duration(
        "max-request-wait",
        "2s",
        "A request that would wait longer in a queue is refused at once, with a hint when to try again; 0 turns that \
         off. Not a flag of etcd.",
    ),
    count(
        "client-max-request-rate",
        "0",
        "Most calls that one client (a user, a certificate or an address) may begin in a second; 0 means no limit. \
         Not a flag of etcd.",
    ),
    count(
        "client-max-bytes-rate",
        "0",
        "Most bytes of messages that one client may send and receive in a second; 0 means no limit. Not a flag of \
         etcd.",
    ),
    count(
        "client-max-streams",
        "0",
        "Most calls that one client may have open, on all its connections; 0 means no limit. Not a flag of etcd.",
    ),
    duration("grpc-keepalive-min-time", "5s", "A client that pings more often than this is disconnected."),
    duration(
        "grpc-keepalive-interval",
        "2h",
        "How often the server pings a silent client, 1s at least; 0 means the defaults of this and its time-out.",
    ),
    duration(
        "grpc-keepalive-timeout",
        "20s",
        "How long a pinged client may stay silent; 0 means the defaults of this and its interval.",
    ),
    switch("socket-reuse-port", "false", "Let several processes listen on one port (SO_REUSEPORT)."),
    switch("socket-reuse-address", "false", "Listen on an address still in TIME_WAIT (SO_REUSEADDR).")
        .no_effect("listeners always do"),
    switch("enable-grpc-gateway", "true", "Serve the JSON gateway below /v3/."),
    duration("raft-read-timeout", "5s", "How long a silent connection between members is kept for reading.")
        .no_effect("peer streams are watched by heartbeats"),
    duration(
        "raft-write-timeout",
        "5s",
        "How long a blocked connection between members is kept for writing.",
    )
    .no_effect("peer streams are watched by heartbeats"),
    text("feature-gates", "", "Comma-separated Feature=true|false pairs."),
];
