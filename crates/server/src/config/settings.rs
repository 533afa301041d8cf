//! The configuration as plain composed data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::diagnostics::Note;
use super::security::Security;
use super::types::{
    CompactionPolicy, FeatureGates, LogFormat, LogLevel, LogOutput, LogRotation, TokenKind, Url,
};

/// The whole configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Name of this member.
    pub name: String,
    /// Directory of all data of this member.
    pub data_dir: PathBuf,
    /// Directory of the log's segments, if another.
    pub wal_dir: Option<PathBuf>,
    /// URLs to listen on and to advertise.
    pub urls: MemberUrls,
    /// The members, and the timing of elections.
    pub cluster: ClusterConfig,
    /// Limits on requests of clients.
    pub limits: RequestLimits,
    /// When idle client connections are pinged.
    pub grpc_keepalive: GrpcKeepalive,
    /// Checkpoints and the log's length.
    pub storage: Storage,
    /// When the server compacts by itself, if it does.
    pub auto_compaction: Option<CompactionPolicy>,
    /// Passwords and tokens.
    pub auth: Auth,
    /// TLS.
    pub security: Security,
    /// Which HTTP clients are served.
    pub access: HttpAccess,
    /// How listeners are opened.
    pub sockets: Sockets,
    /// Log and metrics.
    pub observing: Observing,
    /// Where spans of calls are exported, if they are.
    pub tracing: Option<TracingSettings>,
    /// Where the cluster is backed up to, if it is.
    pub backup: Option<BackupSettings>,
    /// Which comparisons of members' data are made besides that of state hashes.
    pub corruption_checks: CorruptionChecks,
    /// Time between two progress notifications of an idle watch.
    pub watch_progress_notify_interval: Duration,
    /// Whether the JSON gateway is served.
    pub grpc_gateway: bool,
    /// Gates, as etcd names them.
    pub feature_gates: FeatureGates,
    /// Messages for the operator.
    pub notes: Vec<Note>,
    /// The flags that are not at their defaults, as texts.
    pub given: BTreeMap<&'static str, String>,
}

/// URLs to listen on and to advertise. All lists are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberUrls {
    /// For clients: gRPC, and HTTP when `listen_client_http` is empty.
    pub listen_client: Vec<Url>,
    /// For HTTP clients only.
    pub listen_client_http: Vec<Url>,
    /// For other members.
    pub listen_peer: Vec<Url>,
    /// For metrics and health checks.
    pub listen_metrics: Vec<Url>,
    /// Advertised to clients.
    pub advertise_client: Vec<Url>,
    /// Advertised to other members when the cluster starts.
    pub initial_advertise_peer: Vec<Url>,
}

/// Whether the cluster is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// This member helps to start it.
    New,
    /// This member joins it.
    Existing,
}

/// The service at which the first members register, and the cluster they form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDiscovery {
    /// Names the cluster there; its size was registered under it.
    pub token: String,
    /// `host:port`, `http://host:port` or `https://host:port` of the service's members.
    pub endpoints: Vec<String>,
    /// Time for a connection.
    pub dial_timeout: Duration,
    /// Time for a request.
    pub request_timeout: Duration,
    /// Name and password, if the service wants them.
    pub user: Option<(String, String)>,
    /// TLS.
    pub security: ServiceSecurity,
}

/// TLS to a discovery service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceSecurity {
    /// Certificate to show.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// Authorities whose certificates are trusted; without it, those of the system.
    pub trusted_ca_file: Option<PathBuf>,
    /// Whether an endpoint without a scheme is in the clear. It is not if there is one of the files.
    pub is_insecure: bool,
    /// Whether any certificate of the service is trusted.
    pub skip_verification: bool,
}

impl ServiceSecurity {
    /// The address of an endpoint, and whether TLS is spoken there; as in etcd's client.
    pub fn address_of<'a>(&self, endpoint: &'a str) -> (&'a str, bool) {
        let has_files = self.cert_file.is_some() || self.key_file.is_some() || self.trusted_ca_file.is_some();
        match endpoint.split_once("://") {
            Some((scheme, address)) => (address, scheme == "https"),
            None => (endpoint, has_files || !self.is_insecure),
        }
    }
}

/// The SRV records that name the first members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvDiscovery {
    /// The domain.
    pub domain: String,
    /// Stands behind the name of the service; may be empty.
    pub service_name: String,
}

/// The members, and the timing of elections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// All members at the start, by name, each with its peer URLs.
    pub initial: Vec<(String, Vec<Url>)>,
    /// Where DNS names them instead; then `initial` is empty.
    pub discovery_srv: Option<SrvDiscovery>,
    /// The service at which they register instead; then `initial` holds this member alone.
    pub discovery_service: Option<ServiceDiscovery>,
    /// Distinguishes clusters that start with the same URLs.
    pub token: String,
    /// Whether the cluster is new.
    pub state: ClusterState,
    /// Time between two heartbeats: a tick.
    pub heartbeat_interval: Duration,
    /// Time without a leader until a member campaigns.
    pub election_timeout: Duration,
    /// Whether to ask for votes before campaigning.
    pub pre_vote: bool,
    /// Whether changes of membership that would cost the quorum are refused.
    pub strict_reconfig_check: bool,
    /// Most learners at a time.
    pub max_learners: u16,
    /// Whether this member's data goes on as a cluster of its own.
    pub force_new_cluster: bool,
}

/// Limits on requests of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of live data above which writes are refused; 0 as much as the disk allows, negative no limit.
    pub quota_backend_bytes: i64,
    /// Accounted bytes of memory above which writes are refused; 0 for no limit, `None` for a share of what there is.
    pub memory_limit_bytes: Option<u64>,
    /// Most operations in one transaction.
    pub max_txn_ops: u64,
    /// Largest request in bytes.
    pub max_request_bytes: u64,
    /// Most open streams of one connection.
    pub max_concurrent_streams: u32,
    /// A request that would wait longer in a queue is refused; zero for never.
    pub max_request_wait: Duration,
    /// Most calls that one client may begin in a second; 0 for no limit.
    pub client_request_rate: u64,
    /// Most bytes of messages of one client in a second; 0 for no limit.
    pub client_bytes_rate: u64,
    /// Most open calls of one client; 0 for no limit.
    pub client_streams: u64,
}

/// When idle client connections are pinged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcKeepalive {
    /// Time until the server pings a silent client.
    pub interval: Duration,
    /// Time a pinged client may stay silent.
    pub timeout: Duration,
    /// Least time between two pings of a client while a call runs.
    pub min_client_interval: Duration,
}

/// Checkpoints and the log's length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Applied commands between two checkpoints, above 0; `None` for the member's default.
    pub snapshot_count: Option<u64>,
    /// Log entries kept for slow followers, above 0.
    pub snapshot_catchup_entries: u64,
}

/// Passwords and tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Cost of hashing a password.
    pub bcrypt_cost: u32,
    /// Which tokens users get.
    pub token: TokenKind,
    /// Time until an unused simple token expires.
    pub token_ttl: Duration,
}

/// Which HTTP clients are served. An empty list, or one with `*`, allows all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpAccess {
    /// Origins of web pages.
    pub cors: Vec<String>,
    /// Host names under which this member is served.
    pub host_whitelist: Vec<String>,
}

/// How listeners are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Whether several processes may share a port.
    pub reuse_port: bool,
}

/// etcd's comparisons of members' data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptionChecks {
    /// Whether a member with data compares it before it serves.
    pub initial: bool,
    /// How often the leader compares the newest revision; `None` for never.
    pub periodic: Option<Duration>,
    /// How often the leader compares the hashes of compactions; `None` for never.
    pub at_compaction: Option<Duration>,
    /// Time for a peer to answer: that of a request.
    pub request_timeout: Duration,
}

/// How spans of calls are exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingSettings {
    /// `host:port` of the collector, which takes OTLP over gRPC in the clear.
    pub address: String,
    /// What the process is called in spans.
    pub service_name: String,
    /// What this member is called; empty for nothing.
    pub instance_id: String,
    /// Of a million calls whose clients have no trace, how many are sampled.
    pub sampling_per_million: u32,
}

/// A continuous backup by the member that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSettings {
    /// The archive: `file:///DIRECTORY` or `s3://BUCKET/PREFIX`.
    pub url: String,
    /// Time between two copies of new entries.
    pub interval: Duration,
    /// Time between two copies of the whole state.
    pub base_interval: Duration,
    /// For how long states can be restored; `None` means forever.
    pub keep: Option<Duration>,
    /// File with the key with which it is encrypted, if it is.
    pub key_file: Option<PathBuf>,
}

/// Log and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observing {
    /// Least severity logged.
    pub log_level: LogLevel,
    /// Form of a line; unless it is set, JSON, or columns for people where the output is a terminal.
    pub log_format: Option<LogFormat>,
    /// Destinations of lines.
    pub log_outputs: Vec<LogOutput>,
    /// When the one file among the destinations makes room for a new one, if it does.
    pub log_rotation: Option<LogRotation>,
    /// Whether profiles are served.
    pub profiles: bool,
    /// Whether metrics include a histogram of the time each gRPC takes.
    pub extensive_metrics: bool,
    /// An apply that takes longer is logged.
    pub warning_apply_duration: Duration,
    /// A request that takes longer is logged.
    pub warning_unary_request_duration: Duration,
}
