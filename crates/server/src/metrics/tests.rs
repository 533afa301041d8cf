//! What a scrape shows after things happened.

use std::time::Duration;

use super::*;

struct Fixed(Gauges);

impl GaugeSource for Fixed {
    fn gauges(&self) -> Gauges {
        self.0.clone()
    }
}

fn metrics(extensive: bool) -> Metrics {
    Metrics::new(&FeatureGates::parse("").expect("gates"), extensive).expect("metrics")
}

fn assert_lines(text: &str, lines: &[&str]) {
    lines
        .iter()
        .for_each(|line| assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}"));
}

#[test]
fn states_are_asked_for() {
    let metrics = metrics(false);
    let mut gauges = Gauges {
        member_id: 0xab,
        cluster_version: Some("3.7.0".to_owned()),
        has_leader: true,
        leader_changes: 3,
        scrub_rounds: 2,
        scrubbed_bytes: 4_097,
        write_pending_s: 1.5,
        quota_bytes: 1 << 33,
        memory_limit_bytes: 1 << 32,
        memory: vec![("index", 4_096), ("leases", 17)],
        peers: vec![PeerGauges {
            id: 0xcd,
            connected: true,
            sent_bytes: 10,
            received_bytes: 20,
            send_failures: 3,
            queued_bytes: [("control", 0), ("bulk", 77)],
            ..PeerGauges::default()
        }],
        queues: vec![("input", 9)],
        alarms: vec![(0xab, "NOSPACE")],
        ..Gauges::default()
    };
    let text = metrics.render(&Fixed(gauges.clone())).expect("text");
    assert_lines(
        &text,
        &[
            "etcd_server_id{server_id=\"ab\"} 1",
            "etcd_cluster_version{cluster_version=\"3.7\"} 1",
            "etcd_server_has_leader 1",
            "etcd_server_is_leader 0",
            "etcd_server_leader_changes_seen_total 3",
            "stele_scrub_rounds 2",
            "stele_scrubbed_bytes 4097",
            "stele_write_pending_seconds 1.5",
            "etcd_server_quota_backend_bytes 8589934592",
            "stele_memory_limit_bytes 4294967296",
            "stele_memory_accounted_bytes{component=\"index\"} 4096",
            "stele_memory_accounted_bytes{component=\"leases\"} 17",
            "etcd_network_active_peers{Local=\"ab\",Remote=\"cd\"} 1",
            "etcd_network_peer_sent_bytes_total{To=\"cd\"} 10",
            "etcd_network_peer_received_bytes_total{From=\"cd\"} 20",
            "etcd_network_peer_sent_failures_total{To=\"cd\"} 3",
            "stele_peer_queued_bytes{To=\"cd\",stream=\"bulk\"} 77",
            "stele_queue_length{queue=\"input\"} 9",
            "etcd_debugging_server_alarms{alarm_type=\"NOSPACE\",server_id=\"ab\"} 1",
            "etcd_server_version{server_version=\"3.7.3\"} 1",
            "etcd_server_feature_enabled{name=\"FastLeaseKeepAlive\",stage=\"BETA\"} 1",
            "etcd_server_feature_enabled{name=\"AllAlpha\",stage=\"ALPHA\"} 0",
            "etcd_server_feature_enabled{name=\"AllBeta\",stage=\"BETA\"} 0",
            concat!("stele_version{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ],
    );
    gauges.alarms.clear();
    gauges.peers.clear();
    gauges.leader_changes = 5;
    let text = metrics.render(&Fixed(gauges)).expect("text");
    assert_lines(&text, &["etcd_server_leader_changes_seen_total 5"]);
    assert!(
        !text.contains("etcd_debugging_server_alarms{") && !text.contains("etcd_network_active_peers{"),
        "{text}"
    );
}

#[test]
fn calls_are_counted_by_method_and_code() {
    let metrics = metrics(true);
    let put = metrics.grpc.method(api::methods::KV_PUT);
    put.started();
    put.received();
    put.sent(1);
    put.handled(0, Duration::from_millis(200));
    put.handled(99, Duration::from_millis(200));
    metrics.grpc.method(api::methods::WATCH_WATCH).started();
    metrics.grpc.method("/grpc.health.v1.Health/Watch").started();
    let labels = "grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"";
    let health = "grpc_method=\"Watch\",grpc_service=\"grpc.health.v1.Health\",grpc_type=\"server_stream\"";
    assert_lines(
        &metrics.render(&Fixed(Gauges::default())).expect("text"),
        &[
            &format!("grpc_server_started_total{{{health}}} 1"),
            &format!("grpc_server_started_total{{{labels}}} 1"),
            &format!("grpc_server_handled_total{{grpc_code=\"OK\",{labels}}} 1"),
            &format!("grpc_server_handled_total{{grpc_code=\"Unknown\",{labels}}} 1"),
            &format!("grpc_server_handled_total{{grpc_code=\"Unavailable\",{labels}}} 0"),
            &format!("grpc_server_handling_seconds_count{{{labels}}} 2"),
            "grpc_server_started_total{grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"} 1",
        ],
    );
}

#[test]
fn durations_have_etcds_buckets() {
    let metrics = metrics(false);
    metrics.events.wal_fsync.observe(0.0015);
    metrics.events.applies("Put").observe(true, Duration::from_micros(100));
    metrics.events.requests("Range").observe(false, Duration::from_millis(500));
    metrics.events.range_durations().observe(true, Duration::from_millis(500));
    metrics.events.round_trips(0xcd).observe(0.001);
    assert_lines(
        &metrics.render(&Fixed(Gauges::default())).expect("text"),
        &[
            "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"} 0",
            "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.002\"} 1",
            "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"8.192\"} 1",
            "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"+Inf\"} 1",
            "etcd_server_apply_duration_seconds_bucket{op=\"Put\",success=\"true\",version=\"v3\",le=\"0.0001\"} 1",
            "etcd_server_request_duration_seconds_count{success=\"false\",type=\"Range\"} 1",
            "etcd_server_range_duration_seconds_count{success=\"true\"} 1",
            "etcd_network_peer_round_trip_time_seconds_count{To=\"cd\"} 1",
        ],
    );
}

#[test]
fn the_series_of_a_peer_ends_with_it() {
    let metrics = metrics(false);
    let series = || {
        let text = metrics.render(&Fixed(Gauges::default())).expect("text");
        text.lines()
            .filter(|line| line.starts_with("etcd_network_peer_round_trip_time_seconds_count"))
            .count()
    };
    [1, 2].iter().for_each(|peer| metrics.events.round_trips(*peer).observe(0.001));
    assert_eq!(series(), 2);
    [1, 3].iter().for_each(|peer| metrics.events.forget_peer(*peer));
    assert_eq!(series(), 1);
}

#[test]
fn clients_cannot_make_up_versions_without_end() {
    let metrics = metrics(false);
    let text = metrics.render(&Fixed(Gauges::default())).expect("text");
    let none = "etcd_server_client_requests_total{client_api_version=\"unknown\",type=\"unary\"} 0";
    assert_lines(&text, &[none]);
    (0..1000).for_each(|n| metrics.events.client_request(false, &format!("9.9.{n}")));
    metrics.events.client_request(true, "9.9.0");
    let text = metrics.render(&Fixed(Gauges::default())).expect("text");
    let lines = text.lines().filter(|line| line.starts_with("etcd_server_client_requests_total{"));
    assert_eq!(lines.count(), 130);
    assert_lines(
        &text,
        &[
            "etcd_server_client_requests_total{client_api_version=\"9.9.0\",type=\"stream\"} 1",
            "etcd_server_client_requests_total{client_api_version=\"unknown\",type=\"unary\"} 936",
        ],
    );
}

#[test]
fn a_long_version_of_a_client_is_not_kept() {
    let metrics = metrics(false);
    metrics.events.client_request(false, &"9".repeat(10_000));
    let text = metrics.render(&Fixed(Gauges::default())).expect("text");
    assert!(!text.contains(&"9".repeat(65)));
    assert_lines(
        &text,
        &["etcd_server_client_requests_total{client_api_version=\"unknown\",type=\"unary\"} 1"],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_is_described() {
    let text = metrics(false).render(&Fixed(Gauges::default())).expect("text");
    for name in
        ["process_resident_memory_bytes", "process_open_fds", "os_fd_limit", "process_start_time_seconds"]
    {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        assert!(value.is_some_and(|value| value > 0.0), "{name} is {value:?}");
    }
}
