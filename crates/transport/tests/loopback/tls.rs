//! The same streams with TLS around them: what arrives, who is trusted, and when a peer is given up.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use transport::{PEER_ALPN, PeerTls, PeersConfig, Refusal, RefusalReason, SendOutcome, Side, StreamClass};

use crate::cluster::{Member, begin, identity, introduce};

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What a member shows and whom it trusts.
pub(crate) struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

#[derive(Debug)]
struct Fixed(Arc<ClientConfig>);

impl PeerTls for Fixed {
    fn client_config(&self) -> Option<Arc<ClientConfig>> {
        Some(self.0.clone())
    }
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.into()]).unwrap().signed_by(&key, &self.0).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
    }

    /// Mutual TLS with a certificate for `name`.
    pub(crate) fn credentials(&self, name: &str) -> Credentials {
        self.credentials_by(name, ring::default_provider())
    }

    /// The same, with other ciphers for what is dialled.
    pub(crate) fn credentials_by(&self, name: &str, dialler: CryptoProvider) -> Credentials {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let (chain, key) = self.issue(name);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(chain.clone(), key.clone_key())
            .unwrap();
        let mut client = ClientConfig::builder_with_provider(Arc::new(dialler))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        server.alpn_protocols = vec![PEER_ALPN.to_vec()];
        client.alpn_protocols = vec![PEER_ALPN.to_vec()];
        Credentials { client: Arc::new(client), server: Arc::new(server) }
    }
}

pub(crate) fn config(id: u64, credentials: &Credentials) -> PeersConfig {
    PeersConfig { tls: Some(Arc::new(Fixed(credentials.client.clone()))), ..PeersConfig::new(identity(id)) }
}

pub(crate) fn start(config: PeersConfig, credentials: &Credentials) -> Member {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Member::accepting(config, listener, Some(credentials.server.clone()))
}

fn pair() -> (Member, Member) {
    let authority = Authority::new();
    let [first, second] = [1, 2].map(|id| {
        let credentials = authority.credentials("127.0.0.1");
        start(config(id, &credentials), &credentials)
    });
    introduce(first, second)
}

#[test]
fn frames_of_any_size_arrive_whole_and_in_order() {
    let (a, b) = pair();
    let body = |n: usize| Bytes::from(vec![n as u8; (n * 997) % 40_000]);
    for n in 0..1000 {
        let body = body(n);
        let middle = body.len() / 2;
        let parts = [body.slice(..middle), Bytes::new(), body.slice(middle..)];
        assert_eq!(a.peers.send(2, StreamClass::Bulk, &parts), SendOutcome::Queued);
    }
    let large = Bytes::from(vec![9; 20 << 20]);
    a.send(2, StreamClass::Bulk, large.clone());
    b.send(1, StreamClass::Control, "the other way");
    let seen = b.journal.wait_for("all frames", |seen| seen.frames.len() == 1001);
    let bodies = seen.bodies(StreamClass::Bulk);
    assert!((0..1000).all(|n| bodies[n] == body(n)), "they are whole, and in order");
    assert!(bodies[1000] == large);
    drop(seen);
    drop(a.journal.wait_for("the other way", |seen| seen.frames.len() == 1 && seen.round_trips > 0));
}

#[test]
fn a_queue_is_bounded_while_the_peer_does_not_read_and_goes_on_after_that() {
    let authority = Authority::new();
    let credentials = authority.credentials("127.0.0.1");
    let mut small = config(1, &credentials);
    small.limits.bulk_queue_bytes = 1 << 20;
    let (a, b) = introduce(start(small, &credentials), start(config(2, &credentials), &credentials));
    b.journal.change(|seen| seen.bulk_blocked = true);
    let body = Bytes::from(vec![7; 100_000]);
    let mut taken = 0;
    while a.peers.send(2, StreamClass::Bulk, std::slice::from_ref(&body)) == SendOutcome::Queued {
        taken += 1;
        assert!(taken < 100_000, "nothing holds the sender back");
    }
    assert!(a.peers.in_flight_bytes(2, StreamClass::Bulk) <= 1 << 20);
    b.journal.change(|seen| seen.bulk_blocked = false);
    drop(b.journal.wait_for("all that was taken", |seen| seen.frames.len() == taken));
}

#[test]
fn a_snapshot_arrives_whole_and_the_receivers_reason_reaches_the_sender() {
    let (a, b) = pair();
    let content = Bytes::from((0..3_000_000u32).map(|n| n.wrapping_mul(31) as u8).collect::<Vec<_>>());
    let mut sender = a.peers.open_snapshot(2, "header".into()).unwrap();
    for chunk in content.chunks(70_000) {
        sender.chunk(&[content.slice_ref(chunk)]).unwrap();
    }
    sender.finish().unwrap();
    assert!(b.journal.wait_for("the end", |seen| !seen.snapshots.ended.is_empty()).snapshots.kept == content);
    b.journal.change(|seen| seen.snapshots.refuse = Some("busy".into()));
    let refused = a.peers.open_snapshot(2, Bytes::new()).unwrap_err();
    assert_eq!(refused.to_string(), "the receiver of the snapshot failed: busy");
}

#[test]
fn a_peer_that_takes_nothing_is_given_up() {
    let authority = Authority::new();
    let credentials = authority.credentials("127.0.0.1");
    let mut hasty = config(1, &credentials);
    hasty.timeouts.stall = Duration::from_millis(50);
    let (a, b) = introduce(start(hasty, &credentials), start(config(2, &credentials), &credentials));
    b.journal.change(|seen| seen.bulk_blocked = true);
    // The first is in the sink; more than any socket buffer takes waits behind it.
    for _ in 0..2 {
        let _ = a.peers.send(2, StreamClass::Bulk, &[Bytes::from(vec![0; 32 << 20])]);
    }
    drop(a.journal.wait_for("the stream to be given up", |seen| {
        seen.downs.iter().any(|(_, class, why)| {
            *class == StreamClass::Bulk && (why.contains("no data exchanged") || why.contains("timed out"))
        })
    }));
}

#[test]
fn a_peer_that_cannot_prove_who_it_is_is_not_trusted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let good = ours.credentials("127.0.0.1");
    let a = start(config(1, &good), &good);
    let error = |credentials: &Credentials, id: u64| {
        let other = start(config(id, credentials), credentials);
        a.peers.set(id, &other.url()).unwrap();
        a.peers.open_snapshot(id, Bytes::new()).unwrap_err().to_string()
    };
    let elsewhere = error(&ours.credentials("127.0.0.9"), 2);
    assert!(elsewhere.contains("not valid for name"), "{elsewhere}");
    let foreign = error(&theirs.credentials("127.0.0.1"), 3);
    assert!(foreign.contains("invalid peer certificate"), "{foreign}");
    assert!(a.journal.wait_for("nothing", |_| true).ups.is_empty(), "no hello was sent");
    // Without a certificate of ours, the acceptor hears nothing of the dialler either.
    let b = start(config(4, &theirs.credentials("127.0.0.1")), &good);
    b.peers.set(1, &a.url()).unwrap();
    assert!(b.peers.open_snapshot(1, Bytes::new()).is_err());
    assert!(a.journal.wait_for("nothing", |_| true).refusals.is_empty(), "it was refused before its hello");
}

#[test]
fn a_refusal_is_reported_over_tls() {
    let authority = Authority::new();
    let [a, b] = [1, 2].map(|id| {
        let credentials = authority.credentials("127.0.0.1");
        start(config(id, &credentials), &credentials)
    });
    let removed = Refusal::new(RefusalReason::RemovedMember, "member 1 was removed");
    b.journal.change(|seen| seen.barred.insert(1, removed.clone()));
    a.peers.set(2, &b.url()).unwrap();
    let reported = (2, Side::Remote, removed);
    drop(a.journal.wait_for("a refusal", |seen| seen.refusals.contains(&reported)));
}

#[test]
fn members_meet_at_a_unix_socket_with_tls() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m2.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let [here, there] = ["localhost", "127.0.0.1"].map(|name| authority.credentials(name));
    let (first, second) = (start(config(1, &there), &there), start(config(2, &there), &there));
    let peers = Arc::downgrade(&second.peers);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Some(peers) = peers.upgrade() else { return };
            let connection = TcpStream::from(OwnedFd::from(connection.unwrap()));
            if let Some(connection) = begin(connection, Some(&here.server)) {
                peers.accept(connection).unwrap();
            }
        }
    });
    first.peers.set(2, &[format!("unixs://{}", path.display())]).unwrap();
    second.peers.set(1, &first.url()).unwrap();
    first.journal.wait_up(2, 1);
    first.send(2, StreamClass::Bulk, vec![7; 1 << 20]);
    drop(second.journal.wait_for("a frame", |seen| seen.bodies(StreamClass::Bulk).len() == 1));
}

#[test]
fn an_https_url_is_not_dialled_in_the_clear() {
    let a = Member::start(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    a.peers.set(2, &[format!("https://{address}")]).unwrap();
    let error = a.peers.open_snapshot(2, Bytes::new()).unwrap_err();
    assert_eq!(error.to_string(), format!("no TLS is configured for {address}"));
}
