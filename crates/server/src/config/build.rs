//! Builds a [`ServerConfig`] from checked texts: defaults that depend on other flags, and refusals.

use std::path::PathBuf;
use std::time::Duration;

use super::bootstrap;
use super::diagnostics::{Note, UsageError};
use super::security::Security;
use super::settings::{
    Auth, BackupSettings, ClusterConfig, ClusterState, CorruptionChecks, GrpcKeepalive, HttpAccess,
    MemberUrls, Observing, RequestLimits, ServerConfig, ServiceDiscovery, ServiceSecurity, Sockets,
    SrvDiscovery, Storage, TracingSettings,
};
use super::table::{Effect, flag};
use super::types::{CompactionPolicy, FeatureGates, LogFormat, LogLevel, LogOutput, LogRotation, TokenKind};
use super::values::FlagValues;

const DEFAULT_NAME: &str = "default";

/// Largest value of `--distributed-tracing-sampling-rate`: every call.
const MAX_PER_MILLION: u32 = 1_000_000;

/// Costs that bcrypt accepts.
const BCRYPT_COSTS: std::ops::RangeInclusive<u64> = 4..=31;
const DEFAULT_BCRYPT_COST: u32 = 10;

/// Least time between pings of a client where the flag is 0, which means grpc-go's own rule.
const DEFAULT_CLIENT_PING_INTERVAL: Duration = Duration::from_secs(300);

/// Least time between two progress notifications of an idle watch, and the time where the flag is 0; etcd's.
const MIN_WATCH_PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
const DEFAULT_WATCH_PROGRESS_INTERVAL: Duration = Duration::from_secs(600);

/// Silence until a client is pinged, and until it must answer, where either flag is 0: grpc-go's own.
const DEFAULT_KEEPALIVE: (Duration, Duration) = (Duration::from_secs(7_200), Duration::from_secs(20));

/// Least silence until a client is pinged: grpc-go's.
const MIN_PING_INTERVAL: Duration = Duration::from_secs(1);

/// Makes a valid configuration. `from_file`: an advertised URL keeps its default even when the listening one is set.
pub(super) fn config(
    values: &FlagValues,
    mut notes: Vec<Note>,
    from_file: bool,
) -> Result<ServerConfig, UsageError> {
    check_bootstrap_flags(values)?;
    let name = values.text("name").to_owned();
    let urls = member_urls(values, from_file);
    let cluster = cluster(values, &name, &urls)?;
    check_without_effect(values)?;
    let feature_gates = FeatureGates::parse(values.text("feature-gates"))
        .map_err(|why| values.refuse("feature-gates", why))?;
    let election_timeout = cluster.election_timeout;
    let config = ServerConfig {
        data_dir: data_dir(values, &name),
        wal_dir: Some(values.text("wal-dir")).filter(|dir| !dir.is_empty()).map(PathBuf::from),
        urls,
        cluster,
        limits: limits(values),
        grpc_keepalive: grpc_keepalive(values),
        storage: storage(values, &mut notes),
        auto_compaction: auto_compaction(values)?,
        auth: auth(values, &mut notes)?,
        security: Security::of(values)?,
        access: access(values)?,
        sockets: Sockets { reuse_port: values.bool("socket-reuse-port") },
        observing: observing(values, &mut notes)?,
        tracing: tracing_settings(values)?,
        backup: backup_settings(values)?,
        watch_progress_notify_interval: watch_progress_notify_interval(values, &mut notes),
        corruption_checks: corruption_checks(values, &feature_gates, election_timeout),
        grpc_gateway: values.bool("enable-grpc-gateway"),
        feature_gates,
        notes,
        given: values.changed().map(|(flag, text)| (flag.name, text.to_owned())).collect(),
        name,
    };
    config.validate()?;
    refuse_unsupported(values)?;
    Ok(config.with_notes(values))
}

fn data_dir(values: &FlagValues, name: &str) -> PathBuf {
    match values.text("data-dir") {
        "" => format!("{name}.etcd").into(),
        default if Some(default) == flag("data-dir").map(|flag| flag.default) => {
            format!("{name}.etcd").into()
        }
        chosen => chosen.into(),
    }
}

fn member_urls(values: &FlagValues, from_file: bool) -> MemberUrls {
    let must_advertise =
        !from_file && values.is_set("listen-client-urls") && !values.is_set("advertise-client-urls");
    MemberUrls {
        listen_client: values.urls("listen-client-urls"),
        listen_client_http: values.urls("listen-client-http-urls"),
        listen_peer: values.urls("listen-peer-urls"),
        listen_metrics: values.urls("listen-metrics-urls"),
        advertise_client: if must_advertise { Vec::new() } else { values.urls("advertise-client-urls") },
        initial_advertise_peer: values.urls("initial-advertise-peer-urls"),
    }
}

/// `--initial-cluster` and both kinds of discovery exclude each other.
fn check_bootstrap_flags(values: &FlagValues) -> Result<(), UsageError> {
    let given = |name| values.is_set(name) && !values.text(name).is_empty();
    let ways = ["initial-cluster", "discovery-srv", "discovery-endpoints"];
    if ways.into_iter().filter(|name| given(name)).count() > 1 {
        let message = "multiple discovery or bootstrap flags are set. Choose one of \"initial-cluster\", \
                       \"discovery-endpoints\" or \"discovery-srv\"";
        return Err(UsageError::config(message.to_owned()));
    }
    if given("discovery-token") != given("discovery-endpoints") {
        let message = "both --discovery-token and --discovery-endpoints must be set";
        return Err(UsageError::config(message.to_owned()));
    }
    values.one_of("discovery-fallback", &["exit"])
}

fn cluster(values: &FlagValues, name: &str, urls: &MemberUrls) -> Result<ClusterConfig, UsageError> {
    let given = values.text("initial-cluster");
    let is_default = Some(given) == flag("initial-cluster").map(|flag| flag.default);
    let discovery_srv = Some(values.text("discovery-srv")).filter(|domain| !domain.is_empty());
    let discovery_srv = discovery_srv.map(|domain| SrvDiscovery {
        domain: domain.to_owned(),
        service_name: values.text("discovery-srv-name").to_owned(),
    });
    let discovery_service = discovery_service(values)?;
    let initial = if discovery_srv.is_some() {
        Vec::new()
    } else if discovery_service.is_some() || (name != DEFAULT_NAME && is_default) {
        vec![(name.to_owned(), urls.initial_advertise_peer.clone())]
    } else {
        bootstrap::parse_initial_cluster(given)
            .map_err(|why| values.refuse("initial-cluster", format!("{why}; expected name=URL,name=URL")))?
    };
    let state = match values.text("initial-cluster-state") {
        "new" | "" => ClusterState::New,
        "existing" => ClusterState::Existing,
        other => {
            return Err(UsageError::usage(format!(
                "invalid value {other:?} for flag -initial-cluster-state: expected new or existing"
            )));
        }
    };
    Ok(ClusterConfig {
        initial,
        discovery_srv,
        discovery_service,
        token: values.text("initial-cluster-token").to_owned(),
        state,
        heartbeat_interval: Duration::from_millis(values.count("heartbeat-interval")),
        election_timeout: Duration::from_millis(values.count("election-timeout")),
        pre_vote: values.bool("pre-vote"),
        strict_reconfig_check: values.bool("strict-reconfig-check"),
        // A cluster has fewer members than this holds.
        max_learners: u16::try_from(values.integer("max-learners").min(u16::MAX.into()))
            .map_err(|_| values.refuse("max-learners", "expected a whole number that is not negative"))?,
        force_new_cluster: values.bool("force-new-cluster"),
    })
}

/// The discovery service that the flags name.
fn discovery_service(values: &FlagValues) -> Result<Option<ServiceDiscovery>, UsageError> {
    let endpoints = values.list("discovery-endpoints");
    if values.text("discovery-endpoints").is_empty() {
        return Ok(None);
    }
    let (user, password) = (values.text("discovery-user"), values.text("discovery-password"));
    let user = match (user.split_once(':'), password) {
        _ if user.is_empty() => None,
        (Some((name, password)), "") => Some((name.to_owned(), password.to_owned())),
        // etcd asks for it on the terminal.
        (None, "") => {
            let message = "--discovery-user needs a password: give name:password, or --discovery-password";
            return Err(UsageError::config(message.to_owned()));
        }
        (_, password) => Some((user.to_owned(), password.to_owned())),
    };
    let file = |name| Some(values.text(name)).filter(|text| !text.is_empty()).map(PathBuf::from);
    Ok(Some(ServiceDiscovery {
        token: values.text("discovery-token").to_owned(),
        endpoints,
        dial_timeout: values.duration("discovery-dial-timeout"),
        request_timeout: values.duration("discovery-request-timeout"),
        user,
        security: ServiceSecurity {
            cert_file: file("discovery-cert"),
            key_file: file("discovery-key"),
            trusted_ca_file: file("discovery-cacert"),
            is_insecure: values.bool("discovery-insecure-transport"),
            skip_verification: values.bool("discovery-insecure-skip-tls-verify"),
        },
    }))
}

/// Pings, by grpc-go's rules: etcd tells it the interval and the time-out only if both are set.
fn grpc_keepalive(values: &FlagValues) -> GrpcKeepalive {
    let [interval, timeout, min_client_interval] =
        ["grpc-keepalive-interval", "grpc-keepalive-timeout", "grpc-keepalive-min-time"]
            .map(|flag| Some(values.duration(flag)).filter(|time| !time.is_zero()));
    let (interval, timeout) = interval.zip(timeout).unwrap_or(DEFAULT_KEEPALIVE);
    GrpcKeepalive {
        interval: interval.max(MIN_PING_INTERVAL),
        timeout,
        min_client_interval: min_client_interval.unwrap_or(DEFAULT_CLIENT_PING_INTERVAL),
    }
}

fn limits(values: &FlagValues) -> RequestLimits {
    RequestLimits {
        quota_backend_bytes: values.integer("quota-backend-bytes"),
        memory_limit_bytes: Some(values.text("memory-limit-bytes"))
            .filter(|text| !text.is_empty())
            .map(|_| values.count("memory-limit-bytes")),
        max_txn_ops: values.count("max-txn-ops"),
        max_request_bytes: values.count("max-request-bytes"),
        // The kind of the flag limits it to 32 bits.
        // As in grpc-go, 0 is no limit.
        max_concurrent_streams: match u32::try_from(values.count("max-concurrent-streams")) {
            Ok(0) | Err(_) => u32::MAX,
            Ok(count) => count,
        },
        max_request_wait: values.duration("max-request-wait"),
        client_request_rate: values.count("client-max-request-rate"),
        client_bytes_rate: values.count("client-max-bytes-rate"),
        client_streams: values.count("client-max-streams"),
    }
}

fn storage(values: &FlagValues, notes: &mut Vec<Note>) -> Storage {
    let snapshot_count = Some(values.count("snapshot-count")).filter(|count| *count > 0);
    if snapshot_count.is_none() {
        let updated = member::DEFAULT_CHECKPOINT_COMMANDS.to_string();
        notes.push(Note::info("updating snapshot-count to default", [("updated-snapshot-count", &updated)]));
    }
    let catchup_entries = match values.count("snapshot-catchup-entries") {
        0 => {
            let updated = member::DEFAULT_CATCHUP_ENTRIES.to_string();
            let fields = [("updated-snapshot-catchup-entries", updated.as_str())];
            notes.push(Note::info("updating snapshot catch-up entries to default", fields));
            member::DEFAULT_CATCHUP_ENTRIES
        }
        given => given,
    };
    Storage {
        snapshot_count: snapshot_count.filter(|_| values.is_set("snapshot-count")),
        snapshot_catchup_entries: catchup_entries,
    }
}

/// A watch stream asks for a timer with this period: it must not be zero, and a short one keeps idle streams busy.
fn watch_progress_notify_interval(values: &FlagValues, notes: &mut Vec<Note>) -> Duration {
    let given = values.duration("watch-progress-notify-interval");
    if given.is_zero() {
        return DEFAULT_WATCH_PROGRESS_INTERVAL;
    }
    if given < MIN_WATCH_PROGRESS_INTERVAL {
        let minimum = format!("{MIN_WATCH_PROGRESS_INTERVAL:?}");
        notes.push(Note::warning(
            "adjusting watch progress notify interval to minimum period",
            [("min-watch-progress-notify-interval", minimum.as_str())],
        ));
    }
    given.max(MIN_WATCH_PROGRESS_INTERVAL)
}

fn auto_compaction(values: &FlagValues) -> Result<Option<CompactionPolicy>, UsageError> {
    let (mode, retention) = ("auto-compaction-mode", "auto-compaction-retention");
    values.one_of(mode, &["periodic", "revision"])?;
    CompactionPolicy::parse(values.text(mode), values.text(retention)).map_err(|why| {
        let allowed = match values.text(mode) {
            "revision" => "a number of revisions",
            _ => "a number of hours, or a duration such as 90m",
        };
        values.refuse(retention, format!("{why}; expected {allowed}, or 0"))
    })
}

/// An origin or a host name that no request can have would only seem to allow something.
fn access(values: &FlagValues) -> Result<HttpAccess, UsageError> {
    let access = HttpAccess { cors: values.list("cors"), host_whitelist: values.list("host-whitelist") };
    if let Some(bad) = access.cors.iter().find(|item| *item != "*" && !is_origin(item)) {
        let why = format!(
            "{bad:?} is no origin; expected *, or scheme://host or scheme://host:port without a path"
        );
        return Err(values.refuse("cors", why));
    }
    if let Some(bad) = access.host_whitelist.iter().find(|item| *item != "*" && !is_host(item)) {
        let why = format!("{bad:?} is no host; expected *, or host names and IP addresses without a port");
        return Err(values.refuse("host-whitelist", why));
    }
    Ok(access)
}

fn is_origin(text: &str) -> bool {
    let parts = text.split_once("://");
    parts.is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty() && is_plain(host))
}

fn is_host(text: &str) -> bool {
    is_plain(text) && (!text.contains([':', '[']) || text.parse::<std::net::Ipv6Addr>().is_ok())
}

fn is_plain(text: &str) -> bool {
    !text.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '?' | '#' | '@'))
}

/// Checks flags without effect: a wrong value is refused nevertheless.
fn check_without_effect(values: &FlagValues) -> Result<(), UsageError> {
    let refused = |text: &str| Err(UsageError::config(text.to_owned()));
    let stages = ["write-only", "write-only-skip-check", "write-only-drop-data", "gone"];
    values.one_of("v2-deprecation", &stages)?;
    values.one_of("backend-bbolt-freelist-type", &["array", "map"])?;
    if values.integer("compaction-batch-limit") <= 0 {
        return Err(values.refuse("compaction-batch-limit", "expected a whole number above 0"));
    }
    if values.duration("compact-hash-check-time").is_zero() {
        return refused("--compact-hash-check-time must be >0 (set to 0s)");
    }
    Ok(())
}

fn auth(values: &FlagValues, notes: &mut Vec<Note>) -> Result<Auth, UsageError> {
    let cost = values.count("bcrypt-cost");
    let bcrypt_cost = if BCRYPT_COSTS.contains(&cost) {
        cost as u32
    } else {
        let message = "use default bcrypt cost instead of the invalid given cost";
        let (default, given) = (DEFAULT_BCRYPT_COST.to_string(), cost.to_string());
        let allowed = format!("--bcrypt-cost from {} to {}", BCRYPT_COSTS.start(), BCRYPT_COSTS.end());
        let fields =
            [("default-cost", default.as_str()), ("given-cost", &given), ("allowed", allowed.as_str())];
        notes.push(Note::warning(message, fields));
        DEFAULT_BCRYPT_COST
    };
    let (token, unknown) = TokenKind::parse(values.text("auth-token")).map_err(UsageError::config)?;
    if !unknown.is_empty() {
        notes.push(Note::warning("unknown JWT options", [("keys", unknown.join(",").as_str())]));
    }
    Ok(Auth { bcrypt_cost, token, token_ttl: Duration::from_secs(values.count("auth-token-ttl")) })
}

/// Time a request has for agreement, beside two election timeouts; etcd's.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(5);

fn corruption_checks(
    values: &FlagValues,
    gates: &FeatureGates,
    election_timeout: Duration,
) -> CorruptionChecks {
    let interval = |name| Some(values.duration(name)).filter(|interval| !interval.is_zero());
    CorruptionChecks {
        initial: gates.enabled("InitialCorruptCheck"),
        periodic: interval("corrupt-check-time"),
        at_compaction: interval("compact-hash-check-time").filter(|_| gates.enabled("CompactHashCheck")),
        request_timeout: AGREEMENT_TIMEOUT.saturating_add(election_timeout.saturating_mul(2)),
    }
}

fn observing(values: &FlagValues, notes: &mut Vec<Note>) -> Result<Observing, UsageError> {
    values.one_of("logger", &["zap"])?;
    let metrics = values.text("metrics");
    if !["basic", "extensive"].contains(&metrics) {
        let fields = [("metrics", metrics), ("allowed", "basic, extensive")];
        notes.push(Note::warning("unknown value of --metrics is taken as 'basic'", fields));
    }
    let log_format =
        LogFormat::parse(values.text("log-format")).map_err(|why| values.refuse("log-format", why))?;
    let log_outputs = LogOutput::parse_list(&values.list("log-outputs"))
        .map_err(|why| values.refuse("log-outputs", format!("{why}; expected \"default\" alone")))?;
    let rotates = values.bool("enable-log-rotation");
    let rotation = || LogRotation::parse(values.text("log-rotation-config-json"), &log_outputs);
    let log_rotation = rotates.then(rotation).transpose().map_err(UsageError::config)?;
    Ok(Observing {
        log_level: LogLevel::parse(values.text("log-level"))
            .map_err(|why| values.refuse("log-level", why))?,
        log_format: values.is_set("log-format").then_some(log_format),
        log_outputs,
        log_rotation,
        profiles: values.bool("enable-pprof"),
        extensive_metrics: metrics == "extensive",
        warning_apply_duration: values.duration("warning-apply-duration"),
        warning_unary_request_duration: values.duration("warning-unary-request-duration"),
    })
}

/// As in etcd, the flags are read only if tracing is on.
fn tracing_settings(values: &FlagValues) -> Result<Option<TracingSettings>, UsageError> {
    if !values.bool("enable-distributed-tracing") {
        return Ok(None);
    }
    let rate = u32::try_from(values.integer("distributed-tracing-sampling-rate")).ok();
    let rate = rate.filter(|rate| *rate <= MAX_PER_MILLION).ok_or_else(|| {
        let why = format!("distributed tracing configuration is not valid: expected 0 to {MAX_PER_MILLION}");
        values.refuse("distributed-tracing-sampling-rate", why)
    })?;
    let address = values.text("distributed-tracing-address");
    let is_address = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && is_plain(host) && port.parse::<u16>().is_ok());
    if !is_address {
        return Err(values.refuse("distributed-tracing-address", "expected host:port"));
    }
    Ok(Some(TracingSettings {
        address: address.to_owned(),
        service_name: values.text("distributed-tracing-service-name").to_owned(),
        instance_id: values.text("distributed-tracing-instance-id").to_owned(),
        sampling_per_million: rate,
    }))
}

/// The shortest `--backup-interval`: each copy costs a round of the leader, and the store an object.
const MIN_BACKUP_INTERVAL: Duration = Duration::from_millis(100);

fn backup_settings(values: &FlagValues) -> Result<Option<BackupSettings>, UsageError> {
    let given = |name: &str| Some(values.text(name)).filter(|text| !text.is_empty());
    let Some(url) = given("backup-url") else { return Ok(None) };
    let (interval, base_interval) =
        (values.duration("backup-interval"), values.duration("backup-base-interval"));
    let keep = Some(values.duration("backup-keep")).filter(|keep| !keep.is_zero());
    if interval < MIN_BACKUP_INTERVAL {
        return Err(values.refuse("backup-interval", "expected 100ms or more"));
    }
    if base_interval < interval {
        let why = format!("expected --backup-interval ({}) or more", values.text("backup-interval"));
        return Err(values.refuse("backup-base-interval", why));
    }
    if keep.is_some_and(|keep| keep < base_interval) {
        let least = values.text("backup-base-interval");
        let why = format!("expected --backup-base-interval ({least}) or more, or 0, which means forever");
        return Err(values.refuse("backup-keep", why));
    }
    let key_file = given("backup-encryption-key-file").map(PathBuf::from);
    Ok(Some(BackupSettings { url: url.to_owned(), interval, base_interval, keep, key_file }))
}

fn refuse_unsupported(values: &FlagValues) -> Result<(), UsageError> {
    for (flag, _) in values.changed() {
        if let Effect::Refused(missing) = flag.effect {
            return Err(UsageError::config(format!(
                "--{} is not supported yet: {missing} is missing in this release",
                flag.name
            )));
        }
    }
    Ok(())
}

impl ServerConfig {
    fn with_notes(mut self, values: &FlagValues) -> ServerConfig {
        let ignored: Vec<_> = values
            .changed()
            .filter_map(|(flag, _)| match flag.effect {
                Effect::None(why) => Some(format!("--{} ({why})", flag.name)),
                _ => None,
            })
            .collect();
        if !ignored.is_empty() {
            self.notes.push(Note::info("flags without effect", [("flags", ignored.join(", ").as_str())]));
        }
        let gates = self.feature_gates.without_effect().join(", ");
        if !gates.is_empty() {
            self.notes.push(Note::info("feature gates without effect", [("gates", gates.as_str())]));
        }
        let about_security = self.security_notes();
        self.notes.extend(about_security);
        if self.name == DEFAULT_NAME {
            let message = "it isn't recommended to use default name, please set a value for --name";
            self.notes.push(Note::warning(message, [("name", self.name.as_str())]));
        }
        self
    }
}
