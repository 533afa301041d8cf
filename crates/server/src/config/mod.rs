//! Configuration: etcd's flags, `ETCD_` variables and configuration file, as plain composed data.
//!
//! ```
//! use server::config::{Parsed, parse};
//!
//! let args = ["stele", "server", "--name", "m1", "--data-dir=/var/lib/stele"].map(Into::into);
//! let Ok(Parsed::Run(config)) = parse(args.into_iter(), std::iter::empty()) else { panic!("good flags") };
//! assert_eq!(config.cluster.initial[0].0, "m1");
//! ```
//!
//! One table ([`table`]) drives all three sources, the help text and the tests. A flag outranks its variable; a
//! configuration file replaces both. What etcd knows and Stele cannot do is refused when ignoring it would weaken
//! security or behave differently, and noted otherwise. Nothing here touches the network or the data directory.
//!
//! What must be equal on all members of a cluster: `cluster.token`, `cluster.initial` (at the start),
//! `limits.max_txn_ops` and the timing of elections. All else may differ.

mod bootstrap;
mod build;
mod duration;
mod gates;
mod help;
mod sources;
pub mod table;
mod url;
mod validate;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::auto_compaction::Policy;
use crate::logging::{Format, Level, Output};

pub(crate) use duration::parse as parse_duration;
pub use gates::{FeatureGates, Gate, Stage};
pub use url::{Scheme, Url};

/// What the command line asks for.
#[derive(Debug)]
pub enum Parsed {
    /// To run a server.
    Run(Box<Config>),
    /// To print this text and end well.
    Print(String),
}

/// What is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UsageError {
    message: String,
    /// With which code the process should end, the same as etcd's: 2 for a malformed command line, 1 for a bad value.
    pub exit_code: u8,
}

impl UsageError {
    fn usage(message: String) -> UsageError {
        UsageError { message, exit_code: 2 }
    }

    fn config(message: String) -> UsageError {
        UsageError { message, exit_code: 1 }
    }
}

/// Something to tell the operator once logging is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether it deserves attention.
    pub warning: bool,
    /// What happened.
    pub message: &'static str,
    /// Details, by name.
    pub fields: Vec<(&'static str, String)>,
}

impl Note {
    fn new<const N: usize>(warning: bool, message: &'static str, fields: [(&'static str, &str); N]) -> Note {
        let fields = fields.map(|(name, value)| (name, value.to_owned())).to_vec();
        Note { warning, message, fields }
    }

    fn warning<const N: usize>(message: &'static str, fields: [(&'static str, &str); N]) -> Note {
        Note::new(true, message, fields)
    }

    fn info<const N: usize>(message: &'static str, fields: [(&'static str, &str); N]) -> Note {
        Note::new(false, message, fields)
    }
}

/// All a server needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of this member.
    pub name: String,
    /// Directory of everything this member keeps.
    pub data_dir: PathBuf,
    /// Directory of the log being written, when apart.
    pub wal_dir: Option<PathBuf>,
    /// Where to listen and what to advertise.
    pub urls: MemberUrls,
    /// Who the members are and how they agree.
    pub cluster: Cluster,
    /// What clients may ask for.
    pub limits: Limits,
    /// How idle client connections are watched.
    pub grpc_keepalive: Keepalive,
    /// How data is kept.
    pub storage: Storage,
    /// When the server compacts by itself, if it does.
    pub auto_compaction: Option<Policy>,
    /// Passwords and tokens.
    pub auth: Auth,
    /// Who may speak HTTP.
    pub access: Access,
    /// How listeners are opened.
    pub sockets: Sockets,
    /// Log and metrics.
    pub observing: Observing,
    /// How often an idle watch is told the current revision.
    pub watch_progress_notify_interval: Duration,
    /// Whether the JSON gateway is served.
    pub grpc_gateway: bool,
    /// Gates, as etcd names them.
    pub feature_gates: FeatureGates,
    /// What to tell the operator.
    pub notes: Vec<Note>,
}

/// Where to listen and what to advertise. All lists are sorted.
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
    /// Told to clients.
    pub advertise_client: Vec<Url>,
    /// Told to other members when the cluster starts.
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

/// Who the members are and how they agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// All members at the start, by name, each with its peer URLs.
    pub initial: Vec<(String, Vec<Url>)>,
    /// Keeps clusters apart.
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
    pub max_learners: usize,
}

/// What clients may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of live data above which writes are refused; 0 as much as the disk allows, negative no limit.
    pub quota_backend_bytes: i64,
    /// Most operations in one transaction.
    pub max_txn_ops: u64,
    /// Largest request in bytes.
    pub max_request_bytes: u64,
    /// Most open streams of one connection.
    pub max_concurrent_streams: u32,
}

/// How idle client connections are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Time until the server pings a silent client; zero never.
    pub interval: Duration,
    /// Time a pinged client may stay silent; zero forever.
    pub timeout: Duration,
}

/// How data is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// How many applied commands until a checkpoint is due.
    pub snapshot_count: u64,
    /// Whether somebody chose `snapshot_count`.
    pub snapshot_count_is_explicit: bool,
    /// Log entries kept for followers a little behind.
    pub snapshot_catchup_entries: u64,
}

/// Passwords and tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Cost of hashing a password.
    pub bcrypt_cost: u32,
    /// How long an unused token stays good.
    pub token_ttl: Duration,
}

/// Who may speak HTTP. An empty list, or one with `*`, allows all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Origins of web pages.
    pub cors: Vec<String>,
    /// Names by which this member may be addressed.
    pub host_whitelist: Vec<String>,
}

/// How listeners are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Whether several processes may share a port.
    pub reuse_port: bool,
}

/// Log and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observing {
    /// Least severity logged.
    pub log_level: Level,
    /// Form of a line.
    pub log_format: Format,
    /// Where lines go.
    pub log_outputs: Vec<Output>,
    /// Whether metrics include a histogram of the time each gRPC takes.
    pub extensive_metrics: bool,
    /// An apply that takes longer is logged.
    pub warning_apply_duration: Duration,
    /// A request that takes longer is logged.
    pub warning_unary_request_duration: Duration,
}

/// Reads a command line, with its program's name first, and the environment.
///
/// The program is `stele server`, or plain `stele`, or called as `etcd`.
///
/// # Errors
/// What is wrong, for the user to read.
pub fn parse(
    args: impl Iterator<Item = OsString>,
    env: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Parsed, UsageError> {
    let mut args = args.map(into_text).collect::<Result<Vec<_>, _>>()?.into_iter().peekable();
    let called_as = args.next().unwrap_or_default();
    let is_etcd = Path::new(&called_as).file_stem().is_some_and(|name| name == "etcd");
    let program = if is_etcd { "etcd" } else { "stele server" };
    if !is_etcd {
        args.next_if(|arg| arg == "server");
    }
    let args: Vec<_> = args.collect();
    let mut values = values::Values::defaults();
    let mut notes = Vec::new();
    let request = sources::command_line(&args, &mut values, &mut notes)?;
    if request.help {
        return Ok(Parsed::Print(help::help(program)));
    }
    if request.version {
        return Ok(Parsed::Print(help::version(program)));
    }
    // Variables that are not text can be none of ours, as their names and values are.
    let variables: BTreeMap<_, _> =
        env.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
    let from_variable = variables.get(sources::FILE_VARIABLE).filter(|path| !path.is_empty()).cloned();
    match request.file.filter(|path| !path.is_empty()).or(from_variable) {
        Some(path) => {
            values = values::Values::defaults();
            notes = vec![Note::info(
                "loaded server configuration, other flags and environment variables are ignored",
                [("path", &path)],
            )];
            let text = std::fs::read_to_string(&path)
                .map_err(|e| UsageError::config(format!("cannot read configuration file {path}: {e}")))?;
            sources::file(&text, &mut values, &mut notes)?;
            build::config(&values, notes, true)
        }
        None => {
            sources::environment(&variables, &mut values, &mut notes)?;
            build::config(&values, notes, false)
        }
    }
    .map(|config| Parsed::Run(Box::new(config)))
}

fn into_text(arg: OsString) -> Result<String, UsageError> {
    arg.into_string().map_err(|arg| UsageError::usage(format!("{arg:?} is not valid UTF-8")))
}

#[cfg(test)]
mod tests;
