//! Members that are dialled: who is trusted, and what is shown to them.

use std::sync::Arc;

use super::super::accept::{TlsListener, certificate_of};
use super::super::loaded::Offer;
use super::super::sides::TlsSide;
use super::super::source::TlsSource;
use super::handshakes::meet;
use super::{Authority, files};
use crate::config::TransportSecurity;

/// A member that others dial, for `localhost`, with the serial number 3.
fn dialled(authority: &Authority) -> TlsListener {
    authority.issue("dialled", &["localhost", "dialled.example"], 3);
    let files = files(TlsSide::Client, &authority.mutual("dialled"));
    TlsListener::new(Arc::new(TlsSource::load(files).expect("good files")), Offer::PeersAndHttp)
}

fn rig() -> Authority {
    let authority = Authority::new("ca");
    authority.issue("member", &["localhost"], 1);
    authority.revoke(&[]);
    authority
}

/// Whether a member with these settings trusts the one that it dials: for streams and for HTTP alike.
async fn trusts(settings: &TransportSecurity, listener: &TlsListener) -> bool {
    let loaded = TlsSource::load(files(TlsSide::Peer, settings)).expect("good files").current();
    let streams = loaded.peer_client().expect("someone is trusted");
    let http = loaded.http_client().expect("someone is trusted");
    let streams = meet(listener, Arc::unwrap_or_clone(streams), None).await;
    let http = meet(listener, Arc::unwrap_or_clone(http), None).await;
    assert_eq!(streams.1.is_some(), http.1.is_some());
    assert_eq!((streams.0.is_some(), http.0.is_some()), (streams.1.is_some(), http.1.is_some()));
    streams.1.is_some()
}

#[tokio::test]
async fn a_member_that_is_dialled_must_be_trusted_allowed_and_not_revoked() {
    let (authority, foreign) = (rig(), rig());
    let listener = dialled(&authority);
    let mutual = authority.mutual("member");
    assert!(trusts(&mutual, &listener).await);
    let settings = TransportSecurity { trusted_ca_file: Some(foreign.file("ca.pem")), ..mutual.clone() };
    assert!(!trusts(&settings, &listener).await, "of another authority");
    for (allowed, is_trusted) in [("dialled", true), ("member", false)] {
        let allowed_common_names = vec![allowed.to_owned()];
        let settings = TransportSecurity { allowed_common_names, ..mutual.clone() };
        assert_eq!(trusts(&settings, &listener).await, is_trusted, "common name {allowed}");
    }
    for (allowed, is_trusted) in [("dialled.example", true), ("other.example", false)] {
        let settings = TransportSecurity { allowed_hostnames: vec![allowed.to_owned()], ..mutual.clone() };
        assert_eq!(trusts(&settings, &listener).await, is_trusted, "host name {allowed}");
    }
    let settings = TransportSecurity { crl_file: Some(authority.file("crl.pem")), ..mutual };
    for (revoked, is_trusted) in [(2, true), (3, false)] {
        authority.revoke(&[revoked]);
        assert_eq!(trusts(&settings, &listener).await, is_trusted, "serial number {revoked} is revoked");
    }
}

#[tokio::test]
async fn the_pair_for_dialling_is_shown_when_there_is_one() {
    let authority = rig();
    let listener = dialled(&authority);
    authority.issue("dialler", &["localhost"], 2);
    let mutual = authority.mutual("member");
    let with_pair = TransportSecurity {
        client_cert_file: Some(authority.file("dialler.pem")),
        client_key_file: Some(authority.file("dialler.key")),
        ..mutual.clone()
    };
    for (settings, name) in [(mutual, "member"), (with_pair, "dialler")] {
        let loaded = TlsSource::load(files(TlsSide::Peer, &settings)).expect("good files").current();
        let config = loaded.peer_client().expect("someone is trusted");
        let (accepted, _) = meet(&listener, Arc::unwrap_or_clone(config), None).await;
        let shown = certificate_of(&accepted.expect("it is good")).expect("it was shown");
        assert_eq!(shown.common_name, name);
    }
}
