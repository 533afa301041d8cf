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
    let feature_gates = FeatureGates::parse(values.text("feature-gates")).map_err(|why| {
        UsageError::config(format!(
            "invalid value {:?} for --feature-gates: {why}",
            values.text("feature-gates")
        ))
    })?;
    let election_timeout = cluster.election_timeout;
    let config = ServerConfig {
        data_dir: data_dir(values, &name),
        wal_dir: Some(values.text("wal-dir")).filter(|dir| !dir.is_empty()).map(PathBuf::from),
        urls,
        cluster,
        limits: limits(values),
        grpc_keepalive: grpc_keepalive(values),
        storage: storage(values),
        auto_compaction: CompactionPolicy::parse(
            values.text("auto-compaction-mode"),
            values.text("auto-compaction-retention"),
        )
        .map_err(UsageError::config)?,
        auth: auth(values, &mut notes)?,
        security: Security::of(values)?,
        access: HttpAccess { cors: values.list("cors"), host_whitelist: values.list("host-whitelist") },
        sockets: Sockets { reuse_port: values.bool("socket-reuse-port") },
        observing: observing(values, &mut notes)?,
        tracing: tracing_settings(values)?,
        backup: backup_settings(values)?,
        watch_progress_notify_interval: values.duration("watch-progress-notify-interval"),
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
    if values.text("discovery-fallback") != "exit" {
        let message = "v2 proxy is deprecated, and --discovery-fallback can only be configured as \"exit\"";
        return Err(UsageError::config(message.to_owned()));
    }
    Ok(())
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
        bootstrap::parse_initial_cluster(given).map_err(|why| {
            UsageError::config(format!("invalid value {given:?} for --initial-cluster: {why}"))
        })?
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
            .map_err(|_| UsageError::config("--max-learners must not be negative".to_owned()))?,
        force_new_cluster: values.bool("force-new-cluster"),
    })
}

/// The discovery service that the flags name.
fn discovery_service(values: &FlagValues) -> Result<Option<ServiceDiscovery>, UsageError> {
    let endpoints = values.list("discovery-endpoints");
    if values.text("discovery-endpoints").is_empty() {
        return Ok(None);
    }
    if endpoints.iter().any(String::is_empty) {
        return Err(UsageError::config("--discovery-endpoints must not contain empty endpoints".to_owned()));
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

fn storage(values: &FlagValues) -> Storage {
    Storage {
        snapshot_count: values.count("snapshot-count"),
        snapshot_count_is_explicit: values.is_set("snapshot-count"),
        snapshot_catchup_entries: values.count("snapshot-catchup-entries"),
    }
}

/// Checks flags without effect: a value that etcd refuses is refused here as well.
fn check_without_effect(values: &FlagValues) -> Result<(), UsageError> {
    let refused = |text: &str| Err(UsageError::config(text.to_owned()));
    if values.integer("compaction-batch-limit") <= 0 {
        return refused("--compaction-batch-limit must be >0");
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
        notes.push(Note::warning(
            message,
            [("default-cost", default.as_str()), ("given-cost", given.as_str())],
        ));
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
    let logger = values.text("logger");
    if logger != "zap" {
        return Err(UsageError::config(format!("unknown logger option {logger:?}, supported is zap")));
    }
    let metrics = values.text("metrics");
    if !["basic", "extensive"].contains(&metrics) {
        notes.push(Note::warning("unknown value of --metrics is taken as 'basic'", [("metrics", metrics)]));
    }
    let log_format = LogFormat::parse(values.text("log-format")).map_err(UsageError::config)?;
    let log_outputs = LogOutput::parse_list(&values.list("log-outputs")).map_err(UsageError::config)?;
    let rotates = values.bool("enable-log-rotation");
    let rotation = || LogRotation::parse(values.text("log-rotation-config-json"), &log_outputs);
    let log_rotation = rotates.then(rotation).transpose().map_err(UsageError::config)?;
    Ok(Observing {
        log_level: LogLevel::parse(values.text("log-level")).map_err(UsageError::config)?,
        log_format: values.is_set("log-format").then_some(log_format),
        log_outputs,
        log_rotation,
        profiles: values.bool("enable-pprof"),
        extensive_metrics: metrics == "extensive",
        warning_apply_duration: values.duration("warning-apply-duration"),
        warning_unary_request_duration: values.duration("warning-unary-request-duration"),
    })
}

/// The rules and texts are etcd's, which reads the rate only if tracing is on.
fn tracing_settings(values: &FlagValues) -> Result<Option<TracingSettings>, UsageError> {
    if !values.bool("enable-distributed-tracing") {
        return Ok(None);
    }
    let rate = values.integer("distributed-tracing-sampling-rate");
    let problem =
        |why: String| UsageError::config(format!("distributed tracing configurition is not valid: ({why})"));
    if rate < 0 {
        return Err(problem("tracing sampling rate must be positive".to_owned()));
    }
    let rate = u32::try_from(rate).ok().filter(|rate| *rate <= MAX_PER_MILLION);
    let rate =
        rate.ok_or_else(|| problem(format!("tracing sampling rate must be less than {MAX_PER_MILLION}")))?;
    Ok(Some(TracingSettings {
        address: values.text("distributed-tracing-address").to_owned(),
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
    let wrong = |why: &str| Err(UsageError::config(why.to_owned()));
    if interval < MIN_BACKUP_INTERVAL || base_interval < interval {
        return wrong(
            "--backup-interval must be 100ms or more, and --backup-base-interval not shorter than it",
        );
    }
    if keep.is_some_and(|keep| keep < base_interval) {
        return wrong("--backup-keep must not be shorter than --backup-base-interval, or 0 for ever");
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
