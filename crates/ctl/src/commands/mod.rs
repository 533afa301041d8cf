//! The table of commands: names, flags and texts of etcdctl 3.7.3, and the commands of our own.

mod access;
mod cluster;
mod keys;
mod rest;

#[cfg(test)]
mod tests;

use cli::{BLANK, Command, Flag, Kind, PageLayout, Program, int, switch, switch_on, text_flag as text};

/// `etcdctl`: exactly etcdctl's commands.
pub(crate) const ETCDCTL: Program =
    Program { name: "etcdctl", original: "etcdctl", root: &ROOT, layout: PageLayout::Split };

/// `stele ctl`: those, and ours.
pub(crate) const STELE_CTL: Program = Program { name: "stele ctl", ..ETCDCTL };

/// Formats that every command may print in.
pub(crate) const FORMATS: &[&str] = &["fields", "json", "protobuf", "simple", "table"];

const fn duration(name: &'static str, default: &'static str, usage: &'static str) -> Flag {
    Flag { name, short: None, kind: Kind::Duration, default, usage, choices: &[] }
}

/// The flags of all commands. Each can be given as a variable, such as `ETCDCTL_ENDPOINTS`.
const GLOBAL: &[Flag] = &[
    text(
        "auth-jwt-token",
        "",
        "JWT token used for authentication (if this option is used, --user and --password should not be set)",
    ),
    text("cacert", "", "verify certificates of TLS-enabled secure servers using this CA bundle"),
    text("cert", "", "identify secure client using this TLS certificate file"),
    duration("command-timeout", "5s", "timeout for short running command (excluding dial timeout)"),
    switch("debug", "enable client-side debug logging"),
    duration("dial-timeout", "2s", "dial timeout for client connections"),
    Flag {
        short: Some('d'),
        ..text("discovery-srv", "", "domain name to query for SRV records describing cluster endpoints")
    },
    text("discovery-srv-name", "", "service name to query when using DNS discovery"),
    Flag { kind: Kind::List, ..text("endpoints", "127.0.0.1:2379", "gRPC endpoints") },
    switch("hex", "print byte strings as hex encoded strings"),
    switch_on("insecure-discovery", "accept insecure SRV records describing cluster endpoints"),
    switch(
        "insecure-skip-tls-verify",
        "skip server certificate verification (CAUTION: this option should be enabled only for testing purposes)",
    ),
    switch_on("insecure-transport", "disable transport security for client connections"),
    duration("keepalive-time", "2s", "keepalive time for client connections"),
    duration("keepalive-timeout", "6s", "keepalive timeout for client connections"),
    text("key", "", "identify secure client using this TLS key file"),
    int(
        "max-recv-bytes",
        "client-side response receive limit in bytes (if 0, it defaults to \"math.MaxInt32\")",
    ),
    int(
        "max-request-bytes",
        "client-side request send limit in bytes (if 0, it defaults to 2.0 MiB (2 * 1024 * 1024).)",
    ),
    text(
        "password",
        "",
        "password for authentication (if this option is used, --user option shouldn't include password)",
    ),
    text("user", "", "username[:password] for authentication (prompt if password is not supplied)"),
    Flag {
        short: Some('w'),
        choices: FORMATS,
        ..text("write-out", "simple", "set the output format (fields, json, protobuf, simple, table)")
    },
];

/// The program itself.
pub(crate) static ROOT: Command = Command {
    usage: "etcdctl",
    short: "A simple command line client for etcd3.",
    shared_flags: GLOBAL,
    children: &[
        access::AUTH,
        access::ROLE,
        access::USER,
        cluster::ALARM,
        cluster::DEFRAG,
        cluster::DOWNGRADE,
        cluster::ENDPOINT,
        cluster::MEMBER,
        cluster::MOVE_LEADER,
        cluster::RELOAD,
        cluster::SNAPSHOT,
        cluster::STATUS,
        cluster::TOP,
        keys::COMPACTION,
        keys::DEL,
        keys::DIFF,
        keys::GET,
        keys::LEASE,
        keys::PUT,
        keys::TXN,
        keys::WATCH,
        rest::BACKUP,
        rest::CHECK,
        rest::COMPLETION,
        rest::ELECT,
        rest::FOLLOW,
        rest::HELP,
        rest::LOCK,
        rest::MAKE_MIRROR,
        rest::OPTIONS,
        rest::VERSION,
    ],
    ..BLANK
};
