//! TLS of all listeners and of connections to other members: the certificates that a member shows and trusts.
//!
//! rustls does the protocol; this module reads the files that the flags name, follows them when they change, and
//! decides like etcd where etcd decides more than TLS does. Sockets are the business of `startup` and of the crate
//! `transport`.
//!
//! ```text
//! flags -> TlsFiles --load--> TlsContents -> LoadedTls: configurations of the library
//!              |                 ^       (sides.rs, files.rs; contents.rs, verify.rs; loaded.rs)
//!              '--> TlsSource ---'  follows the files                      (source.rs)
//!                      |-- TlsListener: handshakes of connections          (accept.rs; address.rs)
//!                      '-- PeerTls: connections to members                 (crate transport; a joiner's questions)
//! flags of a discovery service -> a configuration for the questions of one start   (service.rs)
//! ```
//!
//! Example: `--peer-cert-file a.crt --peer-key-file a.key --peer-trusted-ca-file ca.crt`, and a member connects from
//! 10.0.0.2. The library checks that its certificate is signed by an authority of `ca.crt` and is valid now;
//! `verify.rs` checks names and revocations; `address.rs` that the certificate is for 10.0.0.2. Only then is a byte of
//! it read as that of a peer.
//!
//! Invariants
//! - A bad certificate or key leaves in force the pair before, and keeps no authority and no revocation from counting.
//!   A bad file of authorities or revocations lets no one in.
//! - A session is never resumed where certificates are demanded, and early data is never accepted.
//! - A key never leaves this module, not even into a log line.

mod accept;
mod address;
mod certificate;
mod contents;
mod files;
mod limited_steps;
mod loaded;
mod self_signed;
mod service;
mod sides;
mod source;
mod verify;

use std::sync::Arc;

use crate::config::{ServerConfig, Url};

pub(crate) use accept::{FIRST_BYTE, TlsListener, certificate_of};
pub(crate) use certificate::CertificateNames;
pub(crate) use files::{TlsError, certificates_in, revoked_in};
pub(crate) use loaded::Offer;
pub(crate) use service::service_client;
pub(crate) use source::TlsSource;
pub(crate) use verify::CertificateRules;

use sides::{TlsFiles, TlsSide};

/// The configurations of both sides, where they are used.
pub(crate) struct TlsSides {
    clients: Option<Arc<TlsSource>>,
    peers: Option<Arc<TlsSource>>,
}

impl TlsSides {
    /// Reads what the flags name; generates the certificates that they ask for.
    ///
    /// # Errors
    /// A file that is not what its flag asks for.
    pub(crate) fn load(config: &ServerConfig) -> Result<TlsSides, TlsError> {
        let (clients, peers) = (config.serves_clients_securely(), config.speaks_securely_to_peers());
        TlsSides::load_sides(config, clients, peers)
    }

    /// Checks what [`TlsSides::load`] would read, and writes nothing: a side whose certificate would be generated is
    /// left out.
    ///
    /// # Errors
    /// A file that is not what its flag asks for.
    pub(crate) fn check(config: &ServerConfig) -> Result<(), TlsError> {
        let security = &config.security;
        let clients = config.serves_clients_securely() && !security.client.generates_certificate();
        let peers = config.speaks_securely_to_peers() && !security.peer.generates_certificate();
        TlsSides::load_sides(config, clients, peers).map(drop)
    }

    fn load_sides(config: &ServerConfig, clients: bool, peers: bool) -> Result<TlsSides, TlsError> {
        let (urls, security) = (&config.urls, &config.security);
        let load = |side: TlsSide, hosts: Vec<String>| {
            let settings = if side == TlsSide::Peer { &security.peer } else { &security.client };
            let mut files = TlsFiles::of(side, settings, &security.parameters)?;
            if settings.generates_certificate() {
                let years = security.parameters.self_signed_validity_years;
                let (certificate, key) = self_signed::ensure(side, &config.data_dir, &hosts, years)?;
                files = files.with_generated(certificate, key);
            }
            TlsSource::load(files).map(Arc::new)
        };
        let hosts = |urls: &[&Vec<Url>]| {
            urls.iter().flat_map(|urls| urls.iter()).map(|url| url.host().to_owned()).collect()
        };
        Ok(TlsSides {
            clients: clients
                .then(|| load(TlsSide::Client, hosts(&[&urls.listen_client, &urls.listen_client_http])))
                .transpose()?,
            peers: peers.then(|| load(TlsSide::Peer, hosts(&[&urls.listen_peer]))).transpose()?,
        })
    }

    /// How connections to the client or metrics URLs are secured.
    pub(crate) fn for_clients(&self, offer: Offer) -> Option<Arc<TlsListener>> {
        self.clients.as_ref().map(|source| Arc::new(TlsListener::new(source.clone(), offer)))
    }

    /// How connections to the peer URLs are secured.
    pub(crate) fn for_peers(&self) -> Option<Arc<TlsListener>> {
        let listener =
            |source: &Arc<TlsSource>| Arc::new(TlsListener::new(source.clone(), Offer::PeersAndHttp));
        self.peers.as_ref().map(listener)
    }

    /// How other members are dialled.
    pub(crate) fn peers(&self) -> Option<Arc<TlsSource>> {
        self.peers.clone()
    }
}

#[cfg(test)]
pub(crate) mod tests;
