//! Every flag of the server: name, default, section, kind of value, effect.
//!
//! This one table is read by the command line, the environment, the configuration file, `--help` and the tests. Names,
//! defaults and sections are etcd's, but for [`OWN`]; the descriptions are ours. A flag of etcd that Stele does not
//! support is listed too: [`Effect`] says whether setting it is refused or only noted.

mod clustering;
mod flag;
mod member;
mod observing;
mod security;
mod tuning;

pub use flag::{Effect, Flag, FlagKind, Section};

/// All flags, section after section.
pub fn flags() -> impl Iterator<Item = &'static Flag> {
    const GROUPS: [&[Flag]; 7] = [
        member::FLAGS,
        clustering::FLAGS,
        security::FLAGS,
        observing::AUTH_AND_PROFILING,
        observing::LOGGING,
        tuning::TRACING,
        tuning::FEATURES,
    ];
    GROUPS.iter().copied().flatten()
}

/// Flags that etcd does not have.
pub const OWN: [&str; 10] = [
    "memory-limit-bytes",
    "max-request-wait",
    "client-max-request-rate",
    "client-max-bytes-rate",
    "client-max-streams",
    "backup-url",
    "backup-interval",
    "backup-base-interval",
    "backup-keep",
    "backup-encryption-key-file",
];

/// The flag of that name.
pub fn flag(name: &str) -> Option<&'static Flag> {
    flags().find(|flag| flag.name == name)
}

/// Flags of the releases before etcd 3, which etcd still accepts and ignores.
pub const OBSOLETE: [&str; 13] = [
    "cluster-active-size",
    "cluster-remove-delay",
    "cluster-sync-interval",
    "config",
    "force",
    "max-result-buffer",
    "max-retry-attempts",
    "peer-heartbeat-interval",
    "peer-election-timeout",
    "retry-interval",
    "snapshot",
    "v",
    "vv",
];
