//! TLS: what the flags come to, and which do not fit together.

use std::path::PathBuf;

use super::*;
use crate::config::TlsVersion;

const SECURE: &str = "--listen-client-urls=https://127.0.0.1:1 --advertise-client-urls=https://127.0.0.1:1 \
                      --cert-file=c --key-file=k";

#[test]
fn flags_that_do_not_fit_together_are_refused_in_etcds_words() {
    let cases = [
        (
            "--tls-min-version=TLS1.1",
            "unexpected TLS version \"TLS1.1\" (--tls-min-version must be one of: TLS1.2, TLS1.3)",
        ),
        (
            "--tls-min-version=TLS1.3 --tls-max-version=TLS1.2",
            "min version (TLS1.3) is greater than max version (TLS1.2) (--tls-min-version, --tls-max-version)",
        ),
        (
            "--tls-min-version=TLS1.3 --cipher-suites=TLS_AES_128_GCM_SHA256",
            "cipher suites cannot be configured when only TLS1.3 is enabled",
        ),
        (
            "--cipher-suites=TLS_AES_128_GCM_SHA256 --tls-max-version=TLS1.2",
            "--cipher-suites names none of TLS 1.2 (TLS_AES_128_GCM_SHA256), which --tls-max-version asks for",
        ),
        (
            "--listen-client-urls=https://127.0.0.1:1 --advertise-client-urls=https://127.0.0.1:1",
            "TLS key/cert (--cert-file, --key-file) must be provided for client url https://127.0.0.1:1 with HTTPS scheme",
        ),
        (
            "--listen-metrics-urls=https://127.0.0.1:1",
            "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url",
        ),
        (
            "--listen-client-http-urls=unix:///a --listen-client-urls=unixs:///a --advertise-client-urls=unixs:///a \
             --auto-tls",
            "cannot bind both --listen-client-urls and --listen-client-http-urls on the same url unix:///a",
        ),
        (
            "--listen-peer-urls=https://127.0.0.1:1 --peer-cert-file=c",
            "KeyFile and CertFile must both be present[key: , cert: c]",
        ),
        (
            "--listen-peer-urls=https://127.0.0.1:1 --peer-cert-file=c --peer-key-file=k --peer-client-key-file=d",
            "ClientKeyFile and ClientCertFile must both be present or both absent: key: d, cert: ]",
        ),
        (
            "--listen-peer-urls=https://127.0.0.1:1 --peer-cert-file=c --peer-key-file=k --peer-cert-allowed-cn=a,b \
             --peer-cert-allowed-hostname=h",
            "AllowedCNs and AllowedHostnames are mutually exclusive (cns=[\"a\", \"b\"], hostnames=[\"h\"])",
        ),
        (
            "--listen-peer-urls=https://127.0.0.1:1 --peer-auto-tls --self-signed-cert-validity=0",
            "--self-signed-cert-validity must be >0 (set to 0)",
        ),
    ];
    for (flags, message) in cases {
        assert_eq!(error(&format!("stele {flags}")), (message.to_owned(), 1), "{flags}");
    }
}

#[test]
fn what_would_protect_less_than_it_says_is_refused() {
    for flags in ["--client-crl-file=l", "--client-cert-allowed-hostname=h"] {
        let (message, _) = error(&format!("stele {SECURE} {flags}"));
        assert!(
            message.starts_with("a CRL and allowed names restrict certificates, but none are asked for"),
            "{message}"
        );
        run(&format!("stele {SECURE} {flags} --trusted-ca-file=ca"));
    }
    let listening = "--listen-peer-urls=https://127.0.0.1:1 --peer-auto-tls";
    for flags in ["--peer-client-cert-auth", "--peer-trusted-ca-file=ca", "--peer-cert-allowed-cn=a"] {
        let (message, _) = error(&format!("stele {listening} {flags}"));
        assert!(message.starts_with("--peer-auto-tls authenticates no one"), "{message}");
    }
}

#[test]
fn a_side_that_only_dials_keeps_the_same_rules() {
    let dialling = "--name=a --initial-cluster=a=http://localhost:2380,b=https://127.0.0.1:9";
    for (flags, text) in [
        ("--peer-auto-tls --peer-trusted-ca-file=ca", "--peer-auto-tls authenticates no one"),
        ("--peer-cert-file=c", "KeyFile and CertFile must both be present"),
        (
            "--peer-cert-file=c --peer-key-file=k --peer-client-key-file=d",
            "ClientKeyFile and ClientCertFile must both be present",
        ),
        ("--peer-crl-file=l", "a CRL and allowed names restrict certificates"),
    ] {
        let (message, _) = error(&format!("stele {dialling} {flags}"));
        assert!(message.starts_with(text), "{message}");
    }
}

#[test]
fn what_protects_nothing_is_told() {
    let told = |flags: &str, text: &str| {
        let config = run(&format!("stele {flags}"));
        assert!(config.notes.iter().any(|note| note.warning && note.message.contains(text)), "{flags}");
    };
    told("--cert-file=c --key-file=k", "ignoring key and cert files");
    told("--peer-client-cert-auth", "ignoring client cert auth for this URL");
    told("--auto-tls --cert-file=c --key-file=k", "ignoring client auto TLS since certs given");
    told("--listen-peer-urls=https://127.0.0.1:1 --peer-auto-tls", "authenticates no member");
    let pair = "--peer-cert-file=c --peer-key-file=k";
    told(&format!("--listen-peer-urls=https://127.0.0.1:1 {pair}"), "authenticates no member that connects");
    for flags in [
        "--peer-cert-allowed-cn=a",
        "--peer-cert-allowed-hostname=h",
        "--peer-crl-file=l",
        "--client-crl-file=l",
        "--client-cert-allowed-hostname=h",
    ] {
        told(flags, "flags restrict certificates");
        let flag = flags.split_once('=').expect("a flag").0;
        let notes = run(&format!("stele {flags}")).notes;
        assert!(notes.iter().any(|note| note.fields.iter().any(|(_, text)| text == flag)), "{flag}");
    }
}

/// etcd has no flag for the common names of clients.
#[test]
fn a_file_may_restrict_clients_by_their_common_names() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("stele.yaml");
    let text = "listen-client-urls: https://127.0.0.1:1\nadvertise-client-urls: https://127.0.0.1:1\n\
                client-transport-security:\n  cert-file: c\n  key-file: k\n  trusted-ca-file: ca\n  \
                allowed-cn: [b, \"Doe, Jane\", b]\n";
    std::fs::write(&path, text).expect("write");
    let security = run(&format!("stele --config-file={}", path.display())).security;
    assert_eq!(security.client.allowed_common_names, ["Doe, Jane", "b"]);
    assert!(security.peer.allowed_common_names.is_empty());
}

#[test]
fn a_file_says_the_same_as_flags() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("stele.yaml");
    let text = "listen-client-urls: https://127.0.0.1:1\nadvertise-client-urls: https://127.0.0.1:1\n\
                tls-min-version: TLS1.3\nclient-transport-security:\n  cert-file: c\n  key-file: k\n  \
                trusted-ca-file: ca\n  client-cert-auth: true\n  crl-file: l\n  allowed-hostname: [b, a]\n\
                peer-transport-security:\n  cert-file: c\n  key-file: k\n  trusted-ca-file: ca\n  \
                allowed-cn: [x]\n  skip-client-san-verification: true\n  auto-tls: true\n";
    std::fs::write(&path, text).expect("write");
    let security = run(&format!("stele --config-file={}", path.display())).security;
    let file = |name: &str| Some(PathBuf::from(name));
    assert_eq!((security.client.cert_file, security.client.crl_file), (file("c"), file("l")));
    assert!(security.client.client_cert_auth);
    assert_eq!(security.client.allowed_hostnames, ["a", "b"]);
    assert_eq!(security.peer.allowed_common_names, ["x"]);
    assert!(security.peer.skip_client_san_verification && security.peer.auto_tls);
    assert_eq!(security.parameters.min_version, TlsVersion::Tls13);
}
