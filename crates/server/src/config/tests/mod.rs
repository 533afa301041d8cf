//! The command line, the environment and the file, and the rules among flags.

use std::time::Duration;

use super::types::url;
use super::*;

mod rules;
mod security;
mod wrong_values;

/// Parses `line`, split at blanks, with these variables.
fn run_with(line: &str, env: &[(&str, &str)]) -> Result<ServerConfig, UsageError> {
    match parse(
        line.split_whitespace().map(Into::into),
        env.iter().map(|(name, value)| (name.into(), value.into())),
    )? {
        Parsed::Run(config) => Ok(*config),
        Parsed::Check(_) | Parsed::Print(_) => panic!("it does not run"),
    }
}

fn run(line: &str) -> ServerConfig {
    run_with(line, &[]).expect(line)
}

fn error(line: &str) -> (String, u8) {
    let error = run_with(line, &[]).expect_err(line);
    (error.to_string(), error.exit_code)
}

fn printed(line: &str) -> String {
    match parse(line.split_whitespace().map(Into::into), std::iter::empty()).expect(line) {
        Parsed::Print(text) => text,
        Parsed::Run(config) | Parsed::Check(config) => panic!("would run {config:?}"),
    }
}

#[test]
fn flags_are_read_in_gos_style() {
    for line in [
        "stele server --name x --pre-vote=false --max-txn-ops=0x10",
        "stele -name x -pre-vote=0 -max-txn-ops 16",
        "/usr/bin/etcd --name=x --pre-vote=F --max-txn-ops 16 --",
        "stele --name y --name x --pre-vote=false --max-txn-ops=16",
    ] {
        let config = run(line);
        assert_eq!(
            (config.name.as_str(), config.cluster.pre_vote, config.limits.max_txn_ops),
            ("x", false, 16),
            "{line}"
        );
        assert_eq!(config.data_dir, Path::new("x.etcd"));
    }
}

#[test]
fn a_malformed_command_line_is_told_as_go_does() {
    let cases = [
        ("stele --nonsense", "flag provided but not defined: -nonsense", 2),
        ("stele --nmae x", "flag provided but not defined: -nmae (did you mean --name?)", 2),
        ("stele --name", "flag needs an argument: -name", 2),
        ("stele ---name=x", "bad flag syntax: ---name=x", 2),
        (
            "stele --pre-vote=maybe",
            "invalid boolean value \"maybe\" for -pre-vote: expected true or false",
            2,
        ),
        ("stele gateway", "\"gateway\" is not a valid flag", 1),
        ("etcd server", "\"server\" is not a valid flag", 1),
        ("stele -- x", "\"x\" is not a valid flag", 1),
        (
            "stele --max-txn-ops=-1",
            "invalid value \"-1\" for flag -max-txn-ops: expected a whole number that is not negative",
            2,
        ),
        (
            "stele --max-concurrent-streams=4294967296",
            "invalid value \"4294967296\" for flag -max-concurrent-streams: expected a whole number from 0 to 4294967295",
            2,
        ),
        (
            "stele --listen-peer-urls=x",
            "invalid value \"x\" for flag -listen-peer-urls: URL scheme must be http, https, unix, or unixs: x",
            2,
        ),
        (
            "stele --initial-cluster-state=old",
            "invalid value \"old\" for flag -initial-cluster-state: expected new or existing",
            2,
        ),
    ];
    for (line, message, code) in cases {
        assert_eq!(error(line), (message.to_owned(), code), "{line}");
    }
}

#[test]
fn a_flag_and_its_variable_exclude_each_other_as_in_etcd() {
    let error = run_with("stele --name flag", &[("ETCD_NAME", "variable")]).expect_err("both");
    let message = "environment variable ETCD_NAME conflicts with the command-line flag --name of the same meaning: \
                   unset the variable, or leave out the flag";
    assert_eq!((error.to_string().as_str(), error.exit_code), (message, 1));
    let config = run_with("stele --name flag", &[("ETCD_MAX_TXN_OPS", "7")]).expect("good");
    assert_eq!((config.name.as_str(), config.limits.max_txn_ops), ("flag", 7));
    assert!(config.notes.iter().any(|note| note.message == "recognized and used environment variable"));
}

#[test]
fn unknown_variables_are_noted_and_empty_ones_ignored() {
    let config =
        run_with("stele", &[("ETCD_NONSENSE", "1"), ("ETCD_NAME", ""), ("HOME", "/")]).expect("good");
    let note =
        config.notes.iter().find(|note| note.message == "unrecognized environment variable").expect("note");
    assert_eq!(note.fields, [("environment-variable", "ETCD_NONSENSE=1".to_owned())]);
    assert_eq!(config.name, "default");
    let error = run_with("stele", &[("ETCD_MAX_TXN_OPS", "many")]).expect_err("bad");
    assert_eq!(
        error.to_string(),
        "invalid value \"many\" for ETCD_MAX_TXN_OPS: expected a whole number that is not negative"
    );
}

#[test]
fn zero_means_what_it_means_to_grpc_go() {
    let streams = |flag: &str| run(&format!("stele {flag}")).limits.max_concurrent_streams;
    assert_eq!((streams(""), streams("--max-concurrent-streams 0")), (u32::MAX, u32::MAX));
    assert_eq!(streams("--max-concurrent-streams 7"), 7);
    let interval = |flag: &str| run(&format!("stele {flag}")).grpc_keepalive.min_client_interval.as_secs();
    assert_eq!((interval(""), interval("--grpc-keepalive-min-time 0s")), (5, 300));
    for (interval, timeout, seconds) in
        [("9s", "3s", (9, 3)), ("0s", "3s", (7_200, 20)), ("9s", "0s", (7_200, 20)), ("1ms", "2s", (1, 2))]
    {
        let flags = format!("--grpc-keepalive-interval {interval} --grpc-keepalive-timeout {timeout}");
        let keepalive = run(&format!("stele {flags}")).grpc_keepalive;
        assert_eq!((keepalive.interval.as_secs(), keepalive.timeout.as_secs()), seconds, "{flags}");
    }
}

#[test]
fn a_file_replaces_flags_and_variables() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("stele.yaml");
    let text = "name: from-file\nlog-outputs: [stderr, /tmp/x]\ngrpc-keepalive-interval: 600000000000\n\
                listen-client-urls: http://127.0.0.1:9\nmax-txn-ops: null\nunheard-of: 1\n\
                client-transport-security:\n  client-cert-auth: false\n";
    std::fs::write(&path, text).expect("write");
    let path = path.display().to_string();
    for config in [
        run(&format!("stele --name flag --max-txn-ops 5 --config-file {path}")),
        run_with("stele --max-txn-ops=5", &[("ETCD_CONFIG_FILE", &path), ("ETCD_NAME", "x")]).expect("good"),
    ] {
        assert_eq!((config.name.as_str(), config.limits.max_txn_ops), ("from-file", 128));
        assert_eq!(config.grpc_keepalive.interval, Duration::from_secs(600));
        assert_eq!(config.observing.log_outputs.len(), 2);
        assert_eq!(url::join(&config.urls.advertise_client), "http://localhost:2379");
        assert!(config.notes.iter().any(|note| note.fields == [("key", "unheard-of".to_owned())]));
    }
}

/// The keys of etcd's own sample (`tests/go/operating` reads the sample itself), and its maps.
#[test]
fn a_file_has_etcds_keys_and_maps() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("stele.yaml");
    let text = "name: a\ndata-dir:\ncors:\ndiscovery:\ndiscovery-fallback: proxy\ninitial-cluster:\nproxy: 'off'\n\
                proxy-read-timeout: 0\nsocket-options:\n  reuse-port: true\n  reuse-address: true\n\
                discovery-config:\n  token: t\n  client:\n    endpoints: [http://127.0.0.1:9]\n    dial-timeout: 3000000000\n\
                log-levle: debug\n";
    std::fs::write(&path, text).expect("write");
    let config = run(&format!("stele --config-file={}", path.display()));
    assert!(config.sockets.reuse_port);
    let service = config.cluster.discovery_service.expect("one");
    assert_eq!((service.token.as_str(), service.dial_timeout), ("t", Duration::from_secs(3)));
    let unknown: Vec<_> = config
        .notes
        .iter()
        .filter(|note| note.message == "unrecognized key in the configuration file")
        .flat_map(|note| note.fields.iter().map(|(_, key)| key.as_str()))
        .collect();
    let slip = "log-levle (did you mean log-level?)";
    assert_eq!(unknown, ["discovery-fallback", slip, "proxy", "proxy-read-timeout"]);
    for refused in ["secure", "auth"] {
        let text = format!("discovery-config:\n  client:\n    {refused}:\n      cacert: x\n");
        std::fs::write(&path, text).expect("write");
        let (message, _) = error(&format!("stele --config-file={}", path.display()));
        let key = format!("discovery-config.client.{refused}");
        assert_eq!(message, format!("{key} is not supported in the configuration file"));
    }
}

#[test]
fn changes_are_told_apart_by_when_they_take_effect() {
    let started = run("stele --cors=http://a --max-txn-ops=7 --name=x");
    let new = run("stele --log-level=debug --max-txn-ops=7 --name=y --snapshot-count=9");
    let changes = FlagChanges::between(&started, &started, &new);
    assert_eq!(changes.effective, ["--cors (the default)", "--log-level (debug)"]);
    assert_eq!(changes.at_restart, ["--name", "--snapshot-count"]);
    // What was read since the start and needs a restart changed nothing.
    let again = FlagChanges::between(&started, &new, &new);
    assert_eq!((again.effective.len(), again.at_restart), (0, changes.at_restart));
    let back = FlagChanges::between(&started, &new, &started);
    assert_eq!((back.effective.len(), back.at_restart.len()), (2, 0));
    let mut named = started.clone();
    named.security.client.allowed_common_names = vec!["app".to_owned()];
    let changes = FlagChanges::between(&started, &started, &named);
    assert_eq!(changes.at_restart, ["client-transport-security.allowed-cn"]);
    let known = |name: &&str| table::flag(name).is_some();
    assert!(changes::RELOADED.iter().all(known), "every flag exists");
}

const NO_NAME: &str = "invalid value for client-transport-security.allowed-cn in the configuration file: an empty name; \
                       leave the key out to allow every name";

#[test]
fn a_bad_file_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("stele.yaml");
    let cases = [
        (
            "listen-peer-urls: https://127.0.0.1:1\npeer-transport-security:\n  cert-file: x\n",
            "KeyFile and CertFile must both be present[key: , cert: x]",
        ),
        (
            "client-transport-security:\n  allowed-cn: {x: y}\n",
            "invalid value for client-transport-security.allowed-cn in the configuration file: expected no map",
        ),
        ("client-transport-security:\n  allowed-cn: \"\"\n", NO_NAME),
        ("client-transport-security:\n  allowed-cn: []\n", NO_NAME),
        ("client-transport-security:\n  allowed-cn: [a, \"\"]\n", NO_NAME),
        (
            "client-transport-security: 5\n",
            "invalid client-transport-security in the configuration file: expected a map",
        ),
        ("name: {a: b}\n", "invalid value for name in the configuration file: expected no map"),
        (
            "max-txn-ops: lots\n",
            "invalid value \"lots\" for max-txn-ops in the configuration file: expected a whole number that is not negative",
        ),
    ];
    for (text, message) in cases {
        std::fs::write(&path, text).expect("write");
        assert_eq!(error(&format!("stele --config-file={}", path.display())), (message.to_owned(), 1));
    }
    std::fs::write(&path, "- a\n- b\n").expect("write");
    assert!(
        error(&format!("stele --config-file={}", path.display()))
            .0
            .starts_with("error parsing configuration file: ")
    );
    assert!(
        error("stele --config-file=/nonexistent")
            .0
            .starts_with("cannot read configuration file /nonexistent: ")
    );
}

#[test]
fn version_and_help_are_printed() {
    let own = concat!("stele Version: ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(printed("stele --version").starts_with(own));
    assert!(printed("stele server -version").contains("etcd Version: 3.7.3\n"));
    for line in
        ["/usr/local/bin/etcd --version", "etcd --data-dir x -version", "etcd --version=true --name y"]
    {
        let as_etcd = printed(line);
        let names: Vec<_> = as_etcd.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert_eq!(names, ["etcd Version", "Git SHA", "Go Version", "Go OS/Arch"], "{line}");
        assert!(as_etcd.starts_with("etcd Version: 3.7.3\n"), "{as_etcd}");
    }
    let help = printed("stele --help");
    let mut rest = help.as_str();
    for heading in [
        "Usage:",
        "\nMember:",
        "\nClustering:",
        "\nSecurity:",
        "\nAuth:",
        "\nProfiling and Monitoring:",
        "\nLogging:",
        "\nDistributed tracing:",
        "\nFeatures:",
        "\nUnsafe feature:",
    ] {
        rest = rest.split_once(heading).map(|(_, rest)| rest).unwrap_or_else(|| panic!("{heading} in order"));
    }
    table::flags()
        .for_each(|flag| assert!(help.contains(&format!("  --{} '{}'\n", flag.name, flag.default))));
}
