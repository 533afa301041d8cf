//! Files: what is wrong with one, and what happens when one changes.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::super::certificate::CertificateNames;
use super::super::loaded::Offer;
use super::super::self_signed;
use super::super::sides::{TlsFiles, TlsSide};
use super::super::source::TlsSource;
use super::{Authority, files, parameters, write};
use crate::config::TransportSecurity;

fn error(settings: &TransportSecurity) -> String {
    TlsSource::load(files(TlsSide::Client, settings)).map(drop).expect_err("they are bad").to_string()
}

#[test]
fn an_error_names_file_flag_problem_and_what_was_expected() {
    let authority = Authority::new("ca");
    authority.issue("a", &["localhost"], 1);
    authority.issue("b", &["localhost"], 2);
    let good = authority.mutual("a");
    TlsSource::load(files(TlsSide::Client, &good)).expect("they are good");
    let garbage = authority.file("garbage");
    write(&garbage, "no PEM");
    let (file, expected) = (Some(garbage.clone()), "expected PEM with one or more sections CERTIFICATE");
    let path = garbage.display();
    let found = error(&TransportSecurity { cert_file: file.clone(), ..good.clone() });
    assert!(
        found.starts_with(&format!("{path} (--cert-file): it holds no certificate; {expected}")),
        "{found}"
    );
    let found = error(&TransportSecurity { trusted_ca_file: file.clone(), ..good.clone() });
    assert!(
        found.starts_with(&format!("{path} (--trusted-ca-file): it holds no certificate; {expected}")),
        "{found}"
    );
    let found = error(&TransportSecurity { key_file: file.clone(), ..good.clone() });
    let section = "no such section was found; expected PEM with a section PRIVATE KEY";
    assert!(found.starts_with(&format!("{path} (--key-file): {section}")), "{found}");
    let found = error(&TransportSecurity { crl_file: file, ..good.clone() });
    assert!(found.starts_with(&format!("{path} (--client-crl-file): ")), "{found}");
    assert!(
        found.ends_with("; expected a revocation list (CRL): DER, or PEM with sections X509 CRL"),
        "{found}"
    );
    let found = error(&TransportSecurity { key_file: Some(authority.file("b.key")), ..good.clone() });
    assert!(
        found.starts_with("--cert-file, --key-file: the certificate and the key cannot be used together"),
        "{found}"
    );
    let missing = TransportSecurity { cert_file: Some(authority.file("none")), ..good.clone() };
    assert!(error(&missing).contains("none (--cert-file): No such file or directory"), "{}", error(&missing));
    let section = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    write(&garbage, section);
    let found = error(&TransportSecurity { cert_file: Some(garbage.clone()), ..good });
    assert!(found.contains("(--cert-file): certificate 1: it is not X.509: "), "{found}");
}

#[test]
fn the_pair_for_dialling_is_checked_at_the_start_also_where_nothing_is_dialled() {
    let authority = Authority::new("ca");
    authority.issue("a", &["localhost"], 1);
    authority.issue("b", &["localhost"], 2);
    let file = |name: &str| Some(authority.file(name));
    let of_client = |cert_file: &str, key_file: &str| TransportSecurity {
        client_cert_file: file(cert_file),
        client_key_file: file(key_file),
        ..authority.settings("a")
    };
    TlsSource::load(files(TlsSide::Client, &of_client("b.pem", "b.key"))).expect("they are a pair");
    let found = error(&of_client("b.pem", "a.key"));
    assert!(found.starts_with("--client-cert-file, --client-key-file: "), "{found}");
    assert!(error(&of_client("none", "b.key")).contains("none (--client-cert-file): "));
}

#[test]
fn changed_files_count_from_the_next_handshake_and_bad_ones_do_not() {
    let authority = Authority::new("ca");
    authority.issue("a", &["localhost"], 1);
    let source = TlsSource::load(files(TlsSide::Client, &authority.mutual("a"))).expect("they are good");
    // What is shown identifies a configuration: the library does not say what it holds.
    let in_force = || source.current().not_after_s.expect("a certificate");
    let first = in_force();
    let (certificate, key) = (authority.file("a.pem"), authority.file("a.key"));
    let old_key = std::fs::read_to_string(&key).expect("a key");
    authority
        .issue_with("a", &["localhost"], 2, |params| params.not_after = rcgen::date_time_ymd(2048, 1, 1));
    let new_key = std::fs::read_to_string(&key).expect("a key");
    write(&key, &old_key);
    assert_eq!(in_force(), first, "the key is not that of the new certificate");
    // Its length tells it from the one that was bad, however quickly it follows.
    write(&key, &format!("{new_key}\n"));
    let second = in_force();
    assert!(second < first, "both have been replaced");
    std::fs::remove_file(&certificate).expect("it was there");
    assert_eq!(in_force(), second, "what was loaded stays in force");
    authority.issue("a", &["localhost"], 3);
    assert_eq!(in_force(), first);
}

#[test]
fn a_failed_load_is_repeated_once_a_second_and_when_a_file_changes() {
    let authority = Authority::new("ca");
    authority.issue("a", &["localhost"], 1);
    let source = TlsSource::load(files(TlsSide::Client, &authority.mutual("a"))).expect("they are good");
    write(&authority.file("a.key"), "no PEM");
    let now = Instant::now();
    let after = |elapsed_ms| source.current_at(now + Duration::from_millis(elapsed_ms));
    // Each load makes new configurations.
    let failed = after(0);
    assert!(Arc::ptr_eq(&failed, &after(0)));
    assert!(Arc::ptr_eq(&failed, &after(999)));
    let again = after(1000);
    assert!(!Arc::ptr_eq(&failed, &again));
    write(&authority.file("a.key"), "no PEM either");
    assert!(!Arc::ptr_eq(&again, &after(1000)));
}

#[test]
fn a_file_that_is_too_long_is_refused() {
    let authority = Authority::new("ca");
    authority.issue("a", &["localhost"], 1);
    let long = std::fs::File::create(authority.file("crl.pem")).expect("made");
    long.set_len((64 << 20) + 1).expect("its length is set");
    let mut settings = authority.mutual("a");
    settings.crl_file = Some(authority.file("crl.pem"));
    let found = error(&settings);
    assert!(found.contains("(--client-crl-file): it is longer than 67108864 bytes"), "{found}");
}

#[test]
fn half_a_pair_is_refused() {
    let authority = Authority::new("ca");
    authority.issue("a", &["localhost"], 1);
    for (settings, flags) in [
        (
            TransportSecurity { key_file: None, ..authority.mutual("a") },
            "--peer-cert-file, --peer-key-file: ",
        ),
        (
            TransportSecurity { client_key_file: Some(authority.file("a.key")), ..authority.mutual("a") },
            "--peer-client-cert-file, --peer-client-key-file: ",
        ),
    ] {
        let found = TlsFiles::of(TlsSide::Peer, &settings, &parameters()).map(drop).expect_err("half a pair");
        assert!(found.to_string().starts_with(flags), "{found}");
    }
}

#[test]
fn files_that_did_not_change_are_not_read_again() {
    let authority = Authority::new("ca");
    authority.issue("a", &["localhost"], 1);
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    for name in ["a.pem", "a.key", "ca.pem"] {
        let file = std::fs::File::options().write(true).open(authority.file(name)).expect("it is there");
        file.set_modified(long_ago).expect("its time is set");
    }
    let source = TlsSource::load(files(TlsSide::Client, &authority.mutual("a"))).expect("they are good");
    assert!(Arc::ptr_eq(&source.current(), &source.current()));
}

#[test]
fn a_generated_certificate_is_kept_and_its_key_is_nobody_elses() {
    let dir = tempfile::tempdir().expect("a directory");
    let hosts = ["127.0.0.1".to_owned(), "localhost".to_owned(), "localhost".to_owned()];
    let make = || self_signed::ensure(TlsSide::Peer, dir.path(), &hosts, 1).expect("made");
    let (certificate, key) = make();
    assert!(certificate.path.ends_with("fixtures/peer/cert.pem"));
    assert_eq!(key.path.metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(
        dir.path().join("fixtures").metadata().expect("it is there").permissions().mode() & 0o777,
        0o700
    );
    assert_eq!(make().0.path, certificate.path);
    // A file that was there with another mode does not stay.
    std::fs::remove_file(&certificate.path).expect("it was there");
    std::fs::set_permissions(&key.path, std::fs::Permissions::from_mode(0o644)).expect("its mode is set");
    make();
    assert_eq!(key.path.metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
    let first = std::fs::read(&certificate.path).expect("it is there");
    make();
    assert_eq!(std::fs::read(&certificate.path).expect("it is there"), first, "it is used again");
    let settings = TransportSecurity { auto_tls: true, ..TransportSecurity::default() };
    let source =
        TlsSource::load(files(TlsSide::Peer, &settings).with_generated(certificate, key)).expect("good");
    let loaded = source.current();
    assert!(loaded.server(Offer::PeersAndHttp).is_some() && loaded.peer_client().is_some());
}

#[test]
fn a_generated_certificate_is_valid_for_the_years_that_it_was_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let (certificate, _) = self_signed::ensure(TlsSide::Client, dir.path(), &[], 3).expect("made");
    let chain = certificate.chain().expect("a certificate");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let end = CertificateNames::of(&chain[0]).expect("read").not_after_s;
    let (asked_s, found_s) = (3 * 365 * 86_400, end - i64::try_from(now).expect("a time of this age"));
    assert!((asked_s - 600..=asked_s).contains(&found_s), "{found_s} s");
}
