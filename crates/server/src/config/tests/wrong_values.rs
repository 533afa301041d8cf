//! Wrong values of every flag: the error names the flag, the value and what is allowed.

use super::table::FlagKind;
use super::*;

/// Texts and lists of which some are wrong: the flag, a wrong value, the part of the error that says what is allowed,
/// and the flags with which the value is read at all.
const WRONG: &[(&str, &str, &str, &str)] = &[
    ("name", "", "must not be empty", ""),
    ("initial-cluster", "m1", "expected name=URL,name=URL", ""),
    ("initial-cluster-state", "old", "expected new or existing", ""),
    ("discovery-fallback", "proxy", "expected exit", ""),
    ("auto-compaction-mode", "weekly", "expected one of: periodic, revision", ""),
    ("auto-compaction-mode", "", "expected one of: periodic, revision", ""),
    ("auto-compaction-retention", "soon", "expected a number of hours, or a duration", ""),
    ("auto-compaction-retention", "-1h", "expected a number of hours, or a duration", ""),
    ("auto-compaction-retention", "5m", "expected a number of revisions", "--auto-compaction-mode=revision"),
    (
        "v2-deprecation",
        "soon",
        "expected one of: write-only, write-only-skip-check, write-only-drop-data, gone",
        "",
    ),
    ("backend-bbolt-freelist-type", "list", "expected one of: array, map", ""),
    ("auth-token", "paseto", "known are simple and jwt", ""),
    ("feature-gates", "X=true", "expected one of AllAlpha, AllBeta, CompactHashCheck", ""),
    ("feature-gates", "PriorityRequest=maybe", "expected true or false", ""),
    ("feature-gates", "PriorityRequest", "expected PriorityRequest=true", ""),
    ("logger", "logrus", "expected zap", ""),
    ("log-level", "loud", "supported values debug, info", ""),
    ("log-format", "xml", "supported values json, console", ""),
    ("log-outputs", "default,stdout", "expected \"default\" alone", ""),
    (
        "log-rotation-config-json",
        "{",
        "expected {\"maxsize\": MiB",
        "--enable-log-rotation --log-outputs=/tmp/x",
    ),
    ("distributed-tracing-address", "bogus", "expected host:port", "--enable-distributed-tracing"),
    ("distributed-tracing-address", "http://a:1", "expected host:port", "--enable-distributed-tracing"),
    ("cors", "bogus", "expected *, or scheme://host", ""),
    ("cors", "http://a/path", "expected *, or scheme://host", ""),
    ("host-whitelist", "http://a", "expected *, or host names", ""),
    ("host-whitelist", "a:2379", "expected *, or host names", ""),
    ("tls-min-version", "TLS1.1", "must be one of: TLS1.2, TLS1.3", ""),
    ("tls-max-version", "x", "must be one of: TLS1.2, TLS1.3", ""),
    ("cipher-suites", "x", "expected one of TLS_AES_128_GCM_SHA256, ", ""),
];

/// Numbers and times with a narrower range than their kind.
const OUT_OF_RANGE: &[(&str, &str, &str, &str)] = &[
    ("heartbeat-interval", "0", "must be >0", ""),
    ("heartbeat-interval", "300", "at least as 5 times", ""),
    ("election-timeout", "0", "must be >0", ""),
    ("election-timeout", "50001", "less than 50000ms", ""),
    ("max-learners", "-1", "not negative", ""),
    ("max-txn-ops", "0", "must be >0", ""),
    ("max-request-bytes", "0", "must be >0", ""),
    ("max-request-bytes", "33554433", "at most 33554432", ""),
    ("memory-limit-bytes", "67108863", "at least 67108864", ""),
    ("compaction-batch-limit", "0", "above 0", ""),
    ("compact-hash-check-time", "0s", "must be >0", ""),
    ("distributed-tracing-sampling-rate", "-1", "expected 0 to 1000000", "--enable-distributed-tracing"),
    ("distributed-tracing-sampling-rate", "1000001", "expected 0 to 1000000", "--enable-distributed-tracing"),
    ("backup-interval", "99ms", "expected 100ms or more", "--backup-url=/x"),
    ("backup-base-interval", "1s", "expected --backup-interval", "--backup-url=/x"),
    ("backup-keep", "1h", "expected --backup-base-interval", "--backup-url=/x"),
    (
        "self-signed-cert-validity",
        "0",
        "must be >0",
        "--auto-tls --listen-client-urls=https://127.0.0.1:1 \
      --advertise-client-urls=https://127.0.0.1:1",
    ),
];

/// Texts of which each is allowed, or of which the file, the service or the network decides.
const FREE: &[&str] = &[
    "data-dir",
    "wal-dir",
    "initial-cluster-token",
    "discovery",
    "discovery-token",
    "discovery-endpoints",
    "discovery-cert",
    "discovery-key",
    "discovery-cacert",
    "discovery-user",
    "discovery-password",
    "discovery-proxy",
    "discovery-srv",
    "discovery-srv-name",
    "cert-file",
    "key-file",
    "client-cert-file",
    "client-key-file",
    "client-crl-file",
    "client-cert-allowed-hostname",
    "trusted-ca-file",
    "peer-cert-file",
    "peer-key-file",
    "peer-client-cert-file",
    "peer-client-key-file",
    "peer-trusted-ca-file",
    "peer-cert-allowed-cn",
    "peer-cert-allowed-hostname",
    "peer-crl-file",
    "distributed-tracing-service-name",
    "distributed-tracing-instance-id",
    "backup-encryption-key-file",
    // Checked when the archive is opened, before a port is bound.
    "backup-url",
    // As in etcd another text is taken as "basic", with a warning that names what is allowed.
    "metrics",
];

#[test]
fn every_wrong_value_is_refused_with_flag_value_and_what_is_allowed() {
    for flag in table::flags() {
        let is_free = FREE.contains(&flag.name);
        let (wrong, allowed) = match flag.kind {
            FlagKind::Bool => ("maybe", "expected true or false"),
            FlagKind::Count(_) => ("-1", "expected a whole number"),
            FlagKind::Integer => ("many", "expected a whole number"),
            FlagKind::Duration => ("5", "expected for example 300ms"),
            FlagKind::Urls => ("bogus", "URL scheme must be http, https, unix, or unixs"),
            FlagKind::Text | FlagKind::List => {
                let is_listed = WRONG.iter().any(|(name, ..)| *name == flag.name);
                assert!(is_listed != is_free, "--{}: a wrong value is listed, or all are allowed", flag.name);
                continue;
            }
        };
        assert!(!is_free, "--{}", flag.name);
        expect_refusal(flag.name, wrong, allowed, "");
    }
    for (name, wrong, allowed, with) in WRONG.iter().chain(OUT_OF_RANGE) {
        expect_refusal(name, wrong, allowed, with);
    }
}

fn expect_refusal(name: &str, wrong: &str, allowed: &str, with: &str) {
    let (message, _) = error(&format!("stele {with} --{name}={wrong}"));
    // A zero time is quoted with its unit.
    let value = if wrong.is_empty() { "\"\"" } else { wrong };
    for part in [name, value, allowed] {
        assert!(message.contains(part), "--{name}={wrong}: {message} has no {part}");
    }
}

#[test]
fn values_that_etcd_replaces_are_replaced() {
    let interval = |text: &str| {
        let config = run(&format!("stele --watch-progress-notify-interval={text}"));
        let is_noted =
            config.notes.iter().any(|note| note.warning && note.message.contains("minimum period"));
        (config.watch_progress_notify_interval.as_millis(), is_noted)
    };
    assert_eq!([interval("0"), interval("1ns")], [(600_000, false), (100, true)]);
    assert_eq!([interval("100ms"), interval("2s")], [(100, false), (2000, false)]);
    let storage = |flags: &str| run(&format!("stele {flags}")).storage;
    let zero = storage("--snapshot-count=0 --snapshot-catchup-entries=0");
    assert_eq!((zero.snapshot_count, zero.snapshot_catchup_entries), (None, 5000));
    let given = storage("--snapshot-count=7 --snapshot-catchup-entries=9");
    assert_eq!((given.snapshot_count, given.snapshot_catchup_entries), (Some(7), 9));
    assert_eq!(storage("").snapshot_count, None);
}

#[test]
fn origins_and_hosts_that_can_occur_are_allowed() {
    let access = run(
        "stele --cors=http://a,https://b.example:1,app://x,http://[::1]:3 --host-whitelist=a.example,10.0.0.1,::1,*",
    )
    .access;
    assert_eq!((access.cors.len(), access.host_whitelist.len()), (4, 4));
}
