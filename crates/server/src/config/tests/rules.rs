//! The rules among flags, in etcd's words.

use super::*;

#[test]
fn rules_are_told_in_etcds_words() {
    let cases = [
        (
            "--listen-client-urls=http://0.0.0.0:2379",
            "--advertise-client-urls is required when --listen-client-urls is set explicitly",
        ),
        ("--heartbeat-interval=0", "--heartbeat-interval must be >0 (set to 0ms)"),
        ("--election-timeout=0", "--election-timeout must be >0 (set to 0ms)"),
        (
            "--heartbeat-interval=300",
            "--election-timeout[1000ms] should be at least as 5 times as --heartbeat-interval[300ms]",
        ),
        (
            "--election-timeout=50001",
            "--election-timeout[50001ms] is too long, and should be set less than 50000ms",
        ),
        (
            "--listen-peer-urls=http://example.com:2380",
            "expected IP in URL for binding (http://example.com:2380) (--listen-peer-urls)",
        ),
        (
            "--listen-metrics-urls=http://:1",
            "expected IP in URL for binding (http://:1) (--listen-metrics-urls)",
        ),
        (
            "--initial-advertise-peer-urls=http://:2380",
            "--initial-advertise-peer-urls \"http://:2380\" must be \"host:port\" (unexpected empty host (http://:2380))",
        ),
        (
            "--discovery-srv=example.com --initial-cluster=default=http://a:1",
            "multiple discovery or bootstrap flags are set. Choose one of \"initial-cluster\", \
             \"discovery-endpoints\" or \"discovery-srv\"",
        ),
        ("--discovery-token=x", "both --discovery-token and --discovery-endpoints must be set"),
        ("--compact-hash-check-time=0s", "--compact-hash-check-time must be >0 (set to 0s)"),
        (
            "--feature-gates=LeaseCheckpointPersist=true",
            "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint",
        ),
        (
            "--log-format=xml",
            "invalid value \"xml\" for --log-format: unknown log format: xml, supported values json, console",
        ),
        (
            "--listen-peer-urls=https://127.0.0.1:2380",
            "cannot listen on TLS for 127.0.0.1:2380: KeyFile and CertFile are not presented (--peer-cert-file, \
             --peer-key-file)",
        ),
        (
            "--initial-cluster=m1",
            "invalid value \"m1\" for --initial-cluster: URL scheme must be http, https, unix, or unixs: ; expected \
             name=URL,name=URL",
        ),
    ];
    for (flags, message) in cases {
        assert_eq!(error(&format!("stele {flags}")), (message.to_owned(), 1), "{flags}");
    }
}

#[test]
fn options_of_tokens_that_cannot_be_used_are_told_in_etcds_words() {
    let cases = [
        (
            "--auth-token=jwt,sign-method=none,pub-key=x",
            "auth: invalid auth options (--auth-token: unknown sign-method \"none\", known are RS256, RS384, RS512, \
             PS256, PS384, PS512, ES256, ES384, ES512, EdDSA, HS256, HS384, HS512)",
        ),
        (
            "--auth-token=jwt,sign-method",
            "auth: invalid auth options (--auth-token: \"sign-method\" is no option name=value)",
        ),
        ("--auth-token=jwt,ttl=1m,ttl=2m", "auth: invalid auth options (--auth-token: ttl is given twice)"),
        (
            "--auth-token=jwt,sign-method=HS256,ttl=0",
            "auth: invalid auth options (--auth-token: ttl must be at least 1s)",
        ),
        (
            "--auth-token=paseto",
            "auth: invalid auth options (--auth-token: unknown kind of tokens \"paseto\", known are simple and jwt)",
        ),
    ];
    for (flags, message) in cases {
        assert_eq!(error(&format!("stele {flags}")), (message.to_owned(), 1), "{flags}");
    }
}

#[test]
fn limits_of_our_own_are_told() {
    let cases = [
        (
            "--max-request-bytes=33554433",
            "--max-request-bytes must be at most 33554432 (set to 33554433): members cannot send each other a larger \
             request",
        ),
        (
            "--memory-limit-bytes=67108863",
            "--memory-limit-bytes must be 0 (no limit) or at least 67108864 (set to 67108863): what a member keeps in \
             memory at any rate takes some 40 MiB",
        ),
    ];
    for (flags, message) in cases {
        assert_eq!(error(&format!("stele {flags}")), (message.to_owned(), 1), "{flags}");
    }
}

#[test]
fn the_largest_request_that_a_frame_carries_may_be_allowed() {
    assert_eq!(run("stele --max-request-bytes=33554432").limits.max_request_bytes, 32 << 20);
    assert_eq!(run("stele").limits.memory_limit_bytes, None);
    assert_eq!(run("stele --memory-limit-bytes=0").limits.memory_limit_bytes, Some(0));
    assert_eq!(run("stele --memory-limit-bytes=67108864").limits.memory_limit_bytes, Some(64 << 20));
}

#[test]
fn naming_a_member_names_it_in_the_initial_cluster() {
    let cluster = run("stele --name m1 --initial-advertise-peer-urls http://b:1,http://a:1").cluster;
    assert_eq!(format!("{:?}", cluster.initial), "[(\"m1\", [http://a:1, http://b:1])]");
}

#[test]
fn the_initial_cluster_is_sorted_and_merged() {
    let cluster = run("stele --name b --initial-cluster b=http://b:2,a=http://a:1,b=http://b:1").cluster;
    assert_eq!(
        format!("{:?}", cluster.initial),
        "[(\"a\", [http://a:1]), (\"b\", [http://b:1, http://b:2])]"
    );
}

#[test]
fn a_new_member_must_fit_into_its_cluster() {
    let check =
        |flags: &str| run(&format!("stele --name m {flags}")).validate_bootstrap().map_err(|e| e.to_string());
    assert_eq!(check(""), Ok(()));
    assert_eq!(
        check("--initial-cluster=m=http://127.0.0.1:2380,n=http://127.0.0.1:9"),
        Ok(()),
        "the same when resolved"
    );
    let cases = [
        (
            "--initial-cluster=n=http://127.0.0.1:1",
            "couldn't find local name \"m\" in the initial cluster configuration",
        ),
        (
            "--initial-cluster=m=http://127.0.0.1:1 --initial-advertise-peer-urls=http://127.0.0.1:2",
            "--initial-cluster has m=http://127.0.0.1:1 but missing from --initial-advertise-peer-urls=http://127.0.0.1:2",
        ),
        (
            "--initial-cluster=m=http://127.0.0.1:1 --initial-advertise-peer-urls=http://127.0.0.1:1,http://127.0.0.1:2",
            "--initial-advertise-peer-urls has http://127.0.0.1:2 but missing from --initial-cluster=m=http://127.0.0.1:1",
        ),
        (
            "--initial-cluster=m=http://localhost:2380,n=http://localhost:2380",
            "initial cluster m=http://localhost:2380,n=http://localhost:2380 has duplicate url",
        ),
        ("--initial-cluster=", "initial cluster unset and no discovery endpoints found"),
    ];
    for (flags, message) in cases {
        assert_eq!(check(flags), Err(message.to_owned()), "{flags}");
    }
    let joining = "--initial-cluster-state=existing --initial-cluster=m=http://127.0.0.1:1";
    assert_eq!(check(joining), Ok(()), "a joining member was announced before");
}

#[test]
fn a_backup_has_intervals_that_fit() {
    assert_eq!(run("stele").backup, None);
    let flags = "--backup-url=s3://b/x --backup-keep=48h --backup-encryption-key-file=k";
    let backup = run(&format!("stele {flags}")).backup.expect("it is asked for");
    assert_eq!((backup.url.as_str(), backup.interval.as_secs()), ("s3://b/x", 10));
    assert_eq!(
        (backup.base_interval.as_secs(), backup.keep.map(|keep| keep.as_secs())),
        (86_400, Some(172_800))
    );
    assert_eq!(backup.key_file, Some("k".into()));
    for (flags, why) in [
        ("--backup-interval=99ms", "\"99ms\" for --backup-interval: expected 100ms or more"),
        (
            "--backup-interval=2h --backup-base-interval=1h",
            "--backup-base-interval: expected --backup-interval (2h)",
        ),
        ("--backup-keep=1h", "--backup-keep: expected --backup-base-interval (24h) or more"),
    ] {
        let (message, code) = error(&format!("stele --backup-url=/x {flags}"));
        assert!(code == 1 && message.contains(why), "{flags}: {message}");
    }
}

#[test]
fn hashes_of_compactions_are_compared_only_with_the_gate() {
    let at_compaction = |flags: &str| run(&format!("stele {flags}")).corruption_checks.at_compaction;
    assert_eq!(at_compaction("--compact-hash-check-time=1s"), None);
    assert_eq!(at_compaction("--compact-hash-check-time=1s --feature-gates=CompactHashCheck=false"), None);
    let second = Some(Duration::from_secs(1));
    assert_eq!(at_compaction("--compact-hash-check-time=1s --feature-gates=CompactHashCheck=true"), second);
}
