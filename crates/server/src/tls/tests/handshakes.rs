//! Handshakes: who is let in, with which version and protocol, and for how long.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::server::TlsStream;

use super::super::accept::{HANDSHAKE_TIMEOUT, TlsListener, certificate_of};
use super::super::files::NamedFile;
use super::super::loaded::Offer;
use super::super::sides::{TlsFiles, TlsSide};
use super::super::source::TlsSource;
use super::{Authority, files, parameters, write};
use crate::config::{TlsParameters, TlsVersion, TransportSecurity};

fn listener(files: TlsFiles, offer: Offer) -> TlsListener {
    TlsListener::new(Arc::new(TlsSource::load(files).expect("good files")), offer)
}

/// A client that trusts this authority, and shows `NAME.pem` if it is given a name.
fn client(authority: &Authority, name: Option<&str>) -> ClientConfig {
    speaking(authority, name, &[&rustls::version::TLS13, &rustls::version::TLS12])
}

fn speaking(
    authority: &Authority,
    name: Option<&str>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let named = |name: String| NamedFile { flag: "x".to_owned(), path: authority.file(&name) };
    let roots = named("ca.pem".to_owned()).authorities().expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots);
    match name {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain = named(format!("{name}.pem")).chain().expect("a certificate");
            let key = named(format!("{name}.key")).key().expect("a key");
            builder.with_client_auth_cert(chain, key).expect("a pair")
        }
    }
}

/// What both sides have after a handshake; either is none if it was rejected there, or heard of it.
pub(super) async fn meet(
    listener: &TlsListener,
    client: ClientConfig,
    remote: Option<&str>,
) -> (Option<TlsStream<DuplexStream>>, Option<Vec<u8>>) {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let name = ServerName::try_from("localhost").expect("a name");
    let connecting = async {
        let mut stream = TlsConnector::from(Arc::new(client)).connect(name, theirs).await.ok()?;
        // With TLS 1.3 a client learns of its refusal when it reads.
        stream.read_u8().await.ok()?;
        Some(stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec())
    };
    let remote = remote.map(|remote| remote.parse().expect("an address"));
    let accepting = async {
        let mut stream = listener.accept(ours, remote).await?;
        stream.write_all(b"x").await.expect("room");
        Some(stream)
    };
    tokio::join!(accepting, connecting)
}

fn rig() -> Authority {
    let authority = Authority::new("ca");
    authority.issue("server", &["localhost"], 1);
    authority.issue("alice", &["alice.example", "10.0.0.1"], 2);
    authority.revoke(&[]);
    authority
}

#[tokio::test]
async fn the_protocol_is_the_best_that_both_speak() {
    let authority = rig();
    for (offer, offered, chosen) in [
        (Offer::AnyHttp, &[&b"http/1.1"[..], b"h2"][..], Some(&b"h2"[..])),
        (Offer::AnyHttp, &[b"http/1.1"], Some(b"http/1.1")),
        (Offer::AnyHttp, &[], Some(b"")),
        (Offer::Grpc, &[b"http/1.1"], None),
        (Offer::PeersAndHttp, &[b"stele-peer"], Some(b"stele-peer")),
    ] {
        let listener = listener(files(TlsSide::Client, &authority.settings("server")), offer);
        let mut config = client(&authority, None);
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let (accepted, heard) = meet(&listener, config, None).await;
        assert_eq!(heard.as_deref(), chosen, "{offer:?} {offered:?}");
        assert_eq!(accepted.is_some(), chosen.is_some());
    }
}

#[tokio::test]
async fn versions_and_suites_are_those_of_the_flags() {
    let authority = rig();
    let settings = authority.settings("server");
    let (tls12, tls13) = (&rustls::version::TLS12, &rustls::version::TLS13);
    let only12 = TlsParameters { max_version: TlsVersion::Tls12, ..parameters() };
    let only13 = TlsParameters { min_version: TlsVersion::Tls13, ..parameters() };
    // A suite of TLS 1.2 for keys that this server does not have, and one for its own.
    let for_rsa = TlsParameters { cipher_suites: vec![0xc02f], ..parameters() };
    let for_ecdsa = TlsParameters { cipher_suites: vec![0xc02c], ..parameters() };
    for (parameters, version, is_served) in [
        (&only12, tls12, true),
        (&only12, tls13, false),
        (&only13, tls12, false),
        (&only13, tls13, true),
        (&for_rsa, tls12, false),
        (&for_rsa, tls13, true),
        (&for_ecdsa, tls12, true),
    ] {
        let files = TlsFiles::of(TlsSide::Client, &settings, parameters).expect("whole pairs");
        let listener = listener(files, Offer::AnyHttp);
        let (accepted, _) = meet(&listener, speaking(&authority, None, &[version]), None).await;
        assert_eq!(accepted.is_some(), is_served, "{parameters:?} {:?}", version.version);
        if let Some(suite) = accepted.and_then(|stream| stream.get_ref().1.negotiated_cipher_suite()) {
            let number = u16::from(suite.suite());
            assert!(
                parameters.cipher_suites.contains(&number) || number >> 8 == 0x13 || parameters == &only12
            );
        }
    }
}

#[tokio::test]
async fn a_demanded_certificate_must_be_trusted_valid_allowed_and_not_revoked() {
    let (authority, foreign) = (rig(), rig());
    let past = rcgen::date_time_ymd(2020, 1, 1);
    authority.issue_with("expired", &[], 3, |params| params.not_after = past);
    authority.issue_with("early", &[], 4, |params| params.not_before = rcgen::date_time_ymd(2100, 1, 1));
    let mutual = authority.mutual("server");
    let with = |change: fn(&mut TransportSecurity)| {
        let mut settings = authority.mutual("server");
        settings.crl_file = Some(authority.file("crl.der"));
        change(&mut settings);
        listener(files(TlsSide::Client, &settings), Offer::AnyHttp)
    };
    let plain = listener(files(TlsSide::Client, &mutual), Offer::AnyHttp);
    let (accepted, _) = meet(&plain, client(&authority, Some("alice")), None).await;
    let names = certificate_of(&accepted.expect("a good certificate")).expect("it was shown");
    assert_eq!(names.common_name, "alice");
    for name in [None, Some("expired"), Some("early")] {
        let (accepted, heard) = meet(&plain, client(&authority, name), None).await;
        assert!(accepted.is_none() && heard.is_none(), "{name:?}");
    }
    // The foreign client trusts our server, and shows a certificate of another authority.
    std::fs::copy(authority.file("ca.pem"), foreign.file("ca.pem")).expect("copied");
    assert!(meet(&plain, client(&foreign, Some("alice")), None).await.0.is_none());

    let allowed = with(|settings| settings.allowed_hostnames = vec!["alice.example".to_owned()]);
    assert!(meet(&allowed, client(&authority, Some("alice")), None).await.0.is_some());
    let others = with(|settings| settings.allowed_hostnames = vec!["bob.example".to_owned()]);
    assert!(meet(&others, client(&authority, Some("alice")), None).await.0.is_none());
    let named = with(|settings| settings.allowed_common_names = vec!["alice".to_owned()]);
    assert!(meet(&named, client(&authority, Some("alice")), None).await.0.is_some());
    authority.revoke(&[2]);
    for file in ["crl.pem", "crl.der"] {
        let mut settings = authority.mutual("server");
        settings.crl_file = Some(authority.file(file));
        let revoking = listener(files(TlsSide::Client, &settings), Offer::AnyHttp);
        assert!(meet(&revoking, client(&authority, Some("alice")), None).await.0.is_none(), "{file}");
    }
}

#[tokio::test]
async fn no_session_outlives_what_its_certificate_was_checked_against() {
    let authority = rig();
    let mut settings = authority.mutual("server");
    settings.crl_file = Some(authority.file("crl.pem"));
    let listener = listener(files(TlsSide::Client, &settings), Offer::AnyHttp);
    // Copies of one configuration share the sessions that the client remembers.
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let remembering = speaking(&authority, Some("alice"), &[version]);
        authority.revoke(&[]);
        for _ in 0..2 {
            let (accepted, heard) = meet(&listener, remembering.clone(), None).await;
            assert!(heard.is_some());
            let kind = accepted.expect("a good certificate").get_ref().1.handshake_kind();
            assert_eq!(kind, Some(HandshakeKind::Full), "{:?}", version.version);
        }
        authority.revoke(&[2]);
        assert!(meet(&listener, remembering, None).await.0.is_none(), "{:?}", version.version);
    }
}

/// Issues the certificate of the member, in files that look as if they were written a while ago: new ones are read at
/// each handshake, which ends sessions, too.
fn issue_settled(authority: &Authority, age_s: u64) {
    authority.issue("server", &["localhost"], 9);
    for name in ["server.pem", "server.key"] {
        let file = std::fs::File::options().write(true).open(authority.file(name)).expect("it was written");
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(age_s);
        file.set_modified(then).expect("the file's time is set");
    }
}

#[tokio::test]
async fn sessions_end_with_the_certificate_that_they_began_with() {
    let authority = rig();
    issue_settled(&authority, 1_000);
    let listener = listener(files(TlsSide::Client, &authority.settings("server")), Offer::AnyHttp);
    for (version, age_s) in [(&rustls::version::TLS12, 900), (&rustls::version::TLS13, 800)] {
        let remembering = speaking(&authority, None, &[version]);
        let kind = async || {
            let (accepted, heard) = meet(&listener, remembering.clone(), None).await;
            assert!(heard.is_some(), "{:?}", version.version);
            accepted.and_then(|stream| stream.get_ref().1.handshake_kind())
        };
        assert_eq!(kind().await, Some(HandshakeKind::Full), "{:?}", version.version);
        assert_eq!(kind().await, Some(HandshakeKind::Resumed), "{:?}", version.version);
        issue_settled(&authority, age_s);
        assert_eq!(kind().await, Some(HandshakeKind::Full), "{:?}, another certificate", version.version);
        assert_eq!(kind().await, Some(HandshakeKind::Resumed), "{:?}", version.version);
    }
}

#[test]
fn no_listener_takes_early_data() {
    let authority = rig();
    for settings in [authority.settings("server"), authority.mutual("server")] {
        let source = TlsSource::load(files(TlsSide::Client, &settings)).expect("good files");
        for offer in Offer::ALL {
            let config = source.current().server(offer).expect("there is a certificate");
            assert_eq!(config.max_early_data_size, 0, "{offer:?}");
        }
    }
}

#[tokio::test]
async fn a_bad_key_keeps_no_revocation_and_no_authority_from_counting() {
    let (authority, other) = (rig(), rig());
    authority.issue("bob", &["bob.example"], 3);
    let mut settings = authority.mutual("server");
    settings.crl_file = Some(authority.file("crl.pem"));
    let listener = listener(files(TlsSide::Client, &settings), Offer::AnyHttp);
    assert!(meet(&listener, client(&authority, Some("alice")), None).await.0.is_some());
    let (alice, bob) = (client(&authority, Some("alice")), client(&authority, Some("bob")));
    write(&authority.file("server.key"), "no PEM");
    authority.revoke(&[2]);
    assert!(meet(&listener, alice, None).await.0.is_none(), "revoked");
    assert!(meet(&listener, bob.clone(), None).await.0.is_some(), "the pair before is shown");
    std::fs::copy(other.file("ca.pem"), authority.file("ca.pem")).expect("copied");
    assert!(meet(&listener, bob, None).await.0.is_none(), "its authority was removed");
}

#[tokio::test]
async fn a_bad_list_of_revocations_or_authorities_lets_no_one_in_until_it_is_good() {
    let authority = rig();
    for (flag, name) in [("crl", "crl.pem"), ("ca", "ca.pem")] {
        let mut settings = authority.mutual("server");
        settings.crl_file = Some(authority.file("crl.pem"));
        let source = Arc::new(TlsSource::load(files(TlsSide::Peer, &settings)).expect("good files"));
        let listener = TlsListener::new(source.clone(), Offer::PeersAndHttp);
        let alice = client(&authority, Some("alice"));
        let from = Some("10.0.0.1:9");
        assert!(meet(&listener, alice.clone(), from).await.0.is_some(), "{flag}");
        assert!(source.current().peer_client().is_some() && source.current().http_client().is_some());
        let good = std::fs::read_to_string(authority.file(name)).expect("it is there");
        write(&authority.file(name), "neither PEM nor DER");
        assert!(meet(&listener, alice.clone(), from).await.0.is_none(), "{flag}");
        assert!(source.current().peer_client().is_none() && source.current().http_client().is_none());
        write(&authority.file(name), &good);
        assert!(meet(&listener, alice, from).await.0.is_some(), "{flag}");
    }
}

#[tokio::test]
async fn the_authorities_of_the_machine_are_followed_too() {
    let (authority, other) = (rig(), rig());
    let mut demanding =
        files(TlsSide::Client, &TransportSecurity { client_cert_auth: true, ..authority.settings("server") });
    assert!(demanding.system.is_some(), "no flag names others");
    demanding.system = Some(NamedFile { flag: "x".to_owned(), path: authority.file("ca.pem") });
    let listener = listener(demanding, Offer::AnyHttp);
    let alice = client(&authority, Some("alice"));
    assert!(meet(&listener, alice.clone(), None).await.0.is_some());
    std::fs::copy(other.file("ca.pem"), authority.file("ca.pem")).expect("copied");
    assert!(meet(&listener, alice.clone(), None).await.0.is_none(), "its authority was removed");
    write(&authority.file("ca.pem"), "no PEM");
    assert!(meet(&listener, alice, None).await.0.is_none(), "no one is let in");
}

#[tokio::test]
async fn a_peer_must_connect_from_an_address_of_its_certificate_and_a_client_need_not() {
    let authority = rig();
    authority.issue("member", &["10.0.0.1", "::1"], 5);
    let meets = async |side: TlsSide, skips: bool, remote: &str| {
        let settings =
            TransportSecurity { skip_client_san_verification: skips, ..authority.mutual("server") };
        let listener = listener(files(side, &settings), Offer::PeersAndHttp);
        meet(&listener, client(&authority, Some("member")), Some(remote)).await.0.is_some()
    };
    assert!(meets(TlsSide::Peer, false, "10.0.0.1:9").await);
    assert!(meets(TlsSide::Peer, false, "[::ffff:10.0.0.1]:9").await, "the same address in IPv6");
    assert!(!meets(TlsSide::Peer, false, "10.0.0.2:9").await);
    assert!(meets(TlsSide::Peer, true, "10.0.0.2:9").await);
    assert!(meets(TlsSide::Client, false, "10.0.0.2:9").await);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_never_ends_is_given_up() {
    let authority = rig();
    let listener = listener(files(TlsSide::Client, &authority.settings("server")), Offer::AnyHttp);
    for said in [&b""[..], &[0x16, 3, 1, 0, 200, 1]] {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        theirs.write_all(said).await.expect("room");
        let begun = Instant::now();
        assert!(listener.accept(ours, None).await.is_none());
        assert_eq!(begun.elapsed().as_secs(), HANDSHAKE_TIMEOUT.as_secs());
    }
    let (ours, mut theirs) = tokio::io::duplex(1024);
    theirs.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("room");
    assert!(listener.accept(ours, None).await.is_none(), "what is no TLS is rejected at once");
}
