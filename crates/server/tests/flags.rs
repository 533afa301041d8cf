//! Every flag of etcd's server against the contract: its default, and that flag, variable and file mean the same.

use std::collections::BTreeMap;
use std::ffi::OsString;

use server::config::table::{self, Effect, Flag, FlagKind};
use server::config::{Parsed, ServerConfig, UsageError, parse};

const CONTRACT: &str = include_str!("contract/server-flags.tsv");

/// Name and default of each row; the default is none where etcd's help does not show it.
fn contract() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    CONTRACT.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (name, default) = line.split_once('\t').expect("two columns");
        let default = match default.trim() {
            "" => None,
            "'math.MaxUint32'" => Some("4294967295"),
            quoted => Some(quoted.trim_matches('\'')),
        };
        (name.trim_start_matches("--"), default)
    })
}

fn run(args: &[String], env: &[(String, String)]) -> Result<ServerConfig, UsageError> {
    let args = std::iter::once("stele".to_owned()).chain(args.iter().cloned()).map(OsString::from);
    let env = env.iter().map(|(name, value)| (name.into(), value.into()));
    match parse(args, env)? {
        Parsed::Run(config) => Ok(*config),
        Parsed::Check(_) | Parsed::Print(_) => panic!("it does not run"),
    }
}

const SERVICE: &[&str] = &["--discovery-endpoints=x", "--discovery-token=x"];
const TRACING: &[&str] = &["--enable-distributed-tracing=true"];

/// Flags whose sample is not the usual one of their kind: the flag, the value, and the other
/// flags that the value needs beside it.
const SPECIAL_SAMPLES: &[(&str, (&str, &[&str]))] = &[
    ("auth-token", ("jwt,priv-key=x,sign-method=HS256", &[])),
    ("peer-cert-file", ("x", &["--peer-key-file=x"])),
    ("peer-key-file", ("x", &["--peer-cert-file=x"])),
    ("peer-client-cert-file", ("x", &["--peer-client-key-file=x"])),
    ("peer-client-key-file", ("x", &["--peer-client-cert-file=x"])),
    ("auto-compaction-mode", ("revision", &["--auto-compaction-retention=100"])),
    ("auto-compaction-retention", ("7h", &[])),
    ("backup-url", ("file:///x", &[])),
    ("backup-interval", ("17m", &["--backup-url=file:///x"])),
    ("backup-base-interval", ("17h", &["--backup-url=file:///x"])),
    ("backup-keep", ("48h", &["--backup-url=file:///x"])),
    ("backup-encryption-key-file", ("x", &["--backup-url=file:///x"])),
    ("backend-bbolt-freelist-type", ("array", &[])),
    ("bcrypt-cost", ("12", &[])),
    ("cors", ("https://example.org", &[])),
    ("host-whitelist", ("example.org", &[])),
    ("v2-deprecation", ("gone", &[])),
    ("cipher-suites", ("TLS_AES_128_GCM_SHA256", &[])),
    ("tls-min-version", ("TLS1.3", &[])),
    ("tls-max-version", ("TLS1.2", &[])),
    ("compact-hash-check-time", ("17m", &["--feature-gates=CompactHashCheck=true"])),
    ("distributed-tracing-address", ("127.0.0.1:9", TRACING)),
    ("distributed-tracing-instance-id", ("x", TRACING)),
    ("distributed-tracing-sampling-rate", ("17", TRACING)),
    ("distributed-tracing-service-name", ("x", TRACING)),
    ("election-timeout", ("2000", &[])),
    ("feature-gates", ("CompactHashCheck=true", &[])),
    ("heartbeat-interval", ("50", &[])),
    ("initial-cluster", ("default=http://127.0.0.1:9", &[])),
    ("initial-cluster-state", ("existing", &[])),
    ("listen-client-urls", ("http://127.0.0.1:9", &["--advertise-client-urls=http://127.0.0.1:9"])),
    ("enable-log-rotation", ("true", &["--log-outputs=/tmp/x"])),
    ("log-format", ("console", &[])),
    ("log-level", ("warn", &[])),
    (
        "log-rotation-config-json",
        ("{\"maxsize\": 7}", &["--enable-log-rotation=true", "--log-outputs=/tmp/x"]),
    ),
    ("memory-limit-bytes", ("1073741824", &[])),
    ("metrics", ("extensive", &[])),
    ("discovery-endpoints", ("http://127.0.0.1:9", &["--discovery-token=x"])),
    ("discovery-token", ("x", &["--discovery-endpoints=x"])),
    ("discovery-dial-timeout", ("17m", SERVICE)),
    ("discovery-request-timeout", ("17m", SERVICE)),
    ("discovery-user", ("name:password", SERVICE)),
    (
        "discovery-password",
        ("x", &["--discovery-endpoints=x", "--discovery-token=x", "--discovery-user=u:p"]),
    ),
    ("discovery-srv-name", ("x", &["--discovery-srv=example.org"])),
    ("discovery-insecure-transport", ("false", SERVICE)),
    ("discovery-insecure-skip-tls-verify", ("true", SERVICE)),
    ("discovery-cert", ("x", SERVICE)),
    ("discovery-key", ("x", SERVICE)),
    ("discovery-cacert", ("x", SERVICE)),
];

/// A value that differs from the default, and other flags it needs beside it.
fn sample(flag: &Flag) -> (String, Vec<String>) {
    let special = SPECIAL_SAMPLES.iter().find(|(name, _)| *name == flag.name);
    if let Some((_, (value, beside))) = special {
        return ((*value).to_owned(), beside.iter().map(|flag| (*flag).to_owned()).collect());
    }
    let value = match flag.kind {
        FlagKind::Bool if flag.default == "true" => "false",
        FlagKind::Bool => "true",
        FlagKind::Count(_) | FlagKind::Integer => "17",
        FlagKind::Duration => "17m",
        FlagKind::Text | FlagKind::List => "something",
        FlagKind::Urls => "http://127.0.0.1:9",
    };
    (value.to_owned(), Vec::new())
}

/// The configuration without what was noted on the way.
fn quiet(mut config: ServerConfig) -> ServerConfig {
    config.notes.clear();
    config.given.clear();
    config
}

#[test]
fn the_table_has_exactly_etcds_flags_and_defaults_and_our_own() {
    let contract: BTreeMap<_, _> = contract().collect();
    let mut ours: BTreeMap<_, _> = table::flags().map(|flag| (flag.name, flag.default)).collect();
    assert_eq!(table::flags().count(), ours.len(), "no flag twice");
    assert!(table::OWN.iter().all(|own| ours.remove(own).is_some()), "each flag of our own is in the table");
    assert_eq!(ours.keys().collect::<Vec<_>>(), contract.keys().collect::<Vec<_>>());
    for (name, default) in contract {
        if let Some(default) = default {
            assert_eq!(ours[name], default, "--{name}");
        }
    }
}

#[test]
fn every_flag_does_what_the_table_says() {
    for name in contract().map(|(name, _)| name).chain(table::OWN) {
        let flag = table::flag(name).expect(name);
        // These accept one value only.
        if ["logger", "discovery-fallback"].contains(&name) {
            assert!(run(&[format!("--{name}=other")], &[]).is_err(), "{name}");
            continue;
        }
        let (value, beside) = sample(flag);
        // The flags beside may themselves be wrong alone.
        let plain = run(&beside, &[]);
        let with = |args: &[String]| run(&[args, &beside[..]].concat(), &[]);
        let set = with(&[format!("--{name}={value}")]);
        match flag.effect {
            Effect::Full => {
                let plain = plain.ok().map(quiet);
                assert_ne!(Some(quiet(set.expect(name))), plain, "--{name} changes nothing");
            }
            Effect::None(_) => {
                let set = set.expect(name);
                assert!(format!("{:?}", set.notes).contains(&format!("--{name} (")), "--{name} is noted");
                assert_eq!(quiet(set), quiet(plain.expect(name)), "--{name} changes something");
            }
            Effect::Refused(_) => {
                let error = set.expect_err(name);
                assert!(error.to_string().contains("is not supported yet: "), "{error}");
                assert_eq!(error.exit_code, 1);
            }
        }
    }
}

#[test]
fn flag_variable_and_file_agree() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("config.yaml");
    for flag in table::flags().filter(|flag| flag.effect == Effect::Full && flag.name != "logger") {
        let (value, beside) = sample(flag);
        // Switches take their value after `=` only, as in Go.
        let args = match flag.kind {
            FlagKind::Bool => vec![format!("-{}={value}", flag.name)],
            _ => vec![format!("-{}", flag.name), value.clone()],
        };
        let expected = quiet(run(&[args, beside.clone()].concat(), &[]).expect(flag.name));
        let by_variable = run(&beside, &[(flag.variable(), value.clone())]).expect(flag.name);
        assert!(
            by_variable.notes.iter().any(|note| note.message == "recognized and used environment variable")
        );
        assert_eq!(quiet(by_variable), expected, "{}", flag.variable());

        let beside: String =
            beside.iter().filter_map(|flag| flag.trim_start_matches('-').split_once('=')).map(line).collect();
        std::fs::write(&path, format!("{}{beside}", line((flag.name, &value)))).expect("write");
        let by_file = run(&[format!("--config-file={}", path.display())], &[]).expect(flag.name);
        assert_eq!(quiet(by_file), expected, "{} in a file", flag.name);
    }
}

fn line((name, value): (&str, &str)) -> String {
    // A value that would be a map is quoted.
    if value.starts_with('{') { format!("{name}: {value:?}\n") } else { format!("{name}: {value}\n") }
}
