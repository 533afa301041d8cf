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
//! One table ([`table`]) drives all three sources, the help text and the tests. A flag and its variable exclude each
//! other; a configuration file replaces both. A flag of etcd that Stele does not support is refused if ignoring it
//! would weaken security or change behaviour, and otherwise noted in the log. Nothing here touches the network or the
//! data directory.
//!
//! ```text
//!   command line, variables, file --sources--> values (texts, checked by table) --build--> ServerConfig --validate
//! ```
//!
//! What must be equal on all members of a cluster: `cluster.token`, `cluster.initial` (at the start),
//! `limits.max_txn_ops` and the timing of elections. All else may differ.

mod bootstrap;
mod build;
mod changes;
mod diagnostics;
mod help;
mod secure_urls;
mod security;
mod settings;
mod sources;
pub mod table;
mod types;
mod validate;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

pub use diagnostics::{Note, UsageError};
pub use security::{Security, TlsParameters, TlsVersion, TransportSecurity};
pub use settings::{
    Auth, BackupSettings, ClusterConfig, ClusterState, CorruptionChecks, GrpcKeepalive, HttpAccess,
    MemberUrls, Observing, RequestLimits, ServerConfig, ServiceDiscovery, ServiceSecurity, Sockets,
    SrvDiscovery, Storage, TracingSettings,
};
pub use types::{
    CompactionPolicy, FeatureGate, FeatureGates, GateStage, JwtOptions, LogFormat, LogLevel, LogOutput,
    LogRotation, Scheme, SignMethod, TokenKind, Url,
};

pub(crate) use bootstrap::parse_initial_cluster;
pub(crate) use changes::FlagChanges;
pub(crate) use types::cipher_suites::is_tls13 as is_tls13_suite;
#[cfg(test)]
pub(crate) use types::url::join as join_urls;
pub(crate) use validate::MIN_MEMORY_LIMIT_BYTES;
use values::FlagValues;

/// What the command line asks for.
#[derive(Debug)]
pub enum Parsed {
    /// To run a server.
    Run(Box<ServerConfig>),
    /// To check whether a server could run (`--check`).
    Check(Box<ServerConfig>),
    /// To print this text and exit with success.
    Print(String),
}

/// Reads a command line, with its program's name first, and the environment.
///
/// The program is `stele server`, or plain `stele`, or called as `etcd`.
///
/// # Errors
/// What is wrong, as a message for the user.
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
    let mut values = FlagValues::defaults();
    let mut notes = Vec::new();
    let request = sources::command_line(&args, &mut values, &mut notes)?;
    if request.help {
        return Ok(Parsed::Print(help::help(program)));
    }
    if request.version {
        return Ok(Parsed::Print(help::version(program)));
    }
    // Names and values of our variables are text, so others can be ignored.
    let variables: BTreeMap<_, _> =
        env.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
    let from_variable = variables.get(sources::FILE_VARIABLE).filter(|path| !path.is_empty()).cloned();
    match request.file.filter(|path| !path.is_empty()).or(from_variable) {
        Some(path) => {
            values = FlagValues::defaults();
            notes = vec![Note::info(
                "loaded server configuration, other flags and environment variables are ignored",
                [("path", &path)],
            )];
            let text = std::fs::read_to_string(&path)
                .map_err(|e| UsageError::config(format!("cannot read configuration file {path}: {e}")))?;
            sources::file::read(&text, &mut values, &mut notes)?;
            build::config(&values, notes, true)
        }
        None => {
            sources::environment(&variables, &mut values, &mut notes)?;
            build::config(&values, notes, false)
        }
    }
    .map(|config| if request.check { Parsed::Check } else { Parsed::Run }(Box::new(config)))
}

fn into_text(arg: OsString) -> Result<String, UsageError> {
    arg.into_string().map_err(|arg| UsageError::usage(format!("{arg:?} is not valid UTF-8")))
}

#[cfg(test)]
mod tests;
