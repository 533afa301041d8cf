//! Configurations of the library for listeners and diallers.
//!
//! Each load makes new configurations, so whatever the library remembers of earlier connections is forgotten with the
//! old ones: no session begins under an old list of authorities, names or revoked certificates. Where certificates are
//! demanded no session is resumed at all, because the library checks a certificate only in a full handshake. Early data
//! is never accepted.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion};
use transport::PEER_ALPN;

use super::contents::{ShownCertificate, TlsContents, TrustRules};
use super::files::TlsError;
use super::sides::TlsFiles;
use crate::config::{TlsParameters, TlsVersion};

/// What a listener speaks, and names in the handshake (ALPN), most wanted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// HTTP/2, with gRPC or without, and HTTP/1.
    AnyHttp,
    /// gRPC alone.
    Grpc,
    /// Peer streams, and HTTP/1 beside them.
    PeersAndHttp,
}

impl Offer {
    pub(super) const ALL: [Offer; 3] = [Offer::AnyHttp, Offer::Grpc, Offer::PeersAndHttp];

    fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            Offer::AnyHttp => &[b"h2", HTTP1],
            Offer::Grpc => &[b"h2"],
            Offer::PeersAndHttp => &[PEER_ALPN, HTTP1],
        }
    }
}

const HTTP1: &[u8] = b"http/1.1";

/// Configurations of a side.
pub(crate) struct LoadedTls {
    /// One for each [`Offer`]; none without a certificate, or while no one is trusted.
    listening: Vec<Arc<ServerConfig>>,
    /// Only of the side of peers, and while someone is trusted.
    dialling: Option<DiallingConfigs>,
    /// The end of the validity of what listeners show, in seconds since 1970.
    pub(crate) not_after_s: Option<i64>,
    /// Whether all handshakes are refused because a file of authorities or revocations is bad.
    pub(crate) is_refusing: bool,
}

/// How other members are dialled.
struct DiallingConfigs {
    streams: Arc<ClientConfig>,
    http: Arc<ClientConfig>,
}

impl LoadedTls {
    /// The configurations that follow from what the files hold.
    ///
    /// # Errors
    /// Versions and suites of which none can be used together.
    pub(crate) fn of(files: &TlsFiles, contents: &TlsContents) -> Result<LoadedTls, TlsError> {
        let builder = ConfigBuilder { files, contents, versions: versions(&files.parameters) };
        let not_after_s = contents.shown.as_ref().and_then(|shown| shown.not_after_s);
        let Some(trust) = &contents.trust else {
            return Ok(LoadedTls { listening: Vec::new(), dialling: None, not_after_s, is_refusing: true });
        };
        let listening = match &contents.shown {
            Some(shown) => builder.listening(shown, trust)?,
            None => Vec::new(),
        };
        let dialling = builder.dialling(trust)?;
        Ok(LoadedTls { listening, dialling, not_after_s, is_refusing: false })
    }

    /// The configuration of a listener.
    pub(crate) fn server(&self, offer: Offer) -> Option<Arc<ServerConfig>> {
        self.listening.get(offer as usize).cloned()
    }

    /// The configuration with which other members' streams are dialled.
    pub(crate) fn peer_client(&self) -> Option<Arc<ClientConfig>> {
        self.dialling.as_ref().map(|configs| configs.streams.clone())
    }

    /// The configuration with which other members are asked over HTTP.
    pub(crate) fn http_client(&self) -> Option<Arc<ClientConfig>> {
        self.dialling.as_ref().map(|configs| configs.http.clone())
    }
}

/// What all configurations of a side have in common.
struct ConfigBuilder<'a> {
    files: &'a TlsFiles,
    contents: &'a TlsContents,
    versions: Vec<&'static SupportedProtocolVersion>,
}

impl ConfigBuilder<'_> {
    fn listening(
        &self,
        shown: &ShownCertificate,
        trust: &TrustRules,
    ) -> Result<Vec<Arc<ServerConfig>>, TlsError> {
        let builder = ServerConfig::builder_with_provider(self.contents.provider.clone())
            .with_protocol_versions(&self.versions)
            .map_err(|error| self.files.combination("cipher-suites", error.to_string()))?;
        let builder = match &trust.diallers {
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown.pair.clone())));
        if trust.diallers.is_some() {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        let offered = |offer: Offer| {
            let mut config = config.clone();
            config.alpn_protocols = offer.protocols().iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Ok(Offer::ALL.into_iter().map(offered).collect())
    }

    fn dialling(&self, trust: &TrustRules) -> Result<Option<DiallingConfigs>, TlsError> {
        let Some(verifier) = &trust.acceptors else { return Ok(None) };
        let builder = ClientConfig::builder_with_provider(self.contents.provider.clone())
            .with_protocol_versions(&self.versions)
            .map_err(|error| self.files.combination("cipher-suites", error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone());
        let mut config = match self.contents.shown_when_dialling.as_ref().or(self.contents.shown.as_ref()) {
            Some(shown) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown.pair.clone())))
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![PEER_ALPN.to_vec()];
        let mut http = config.clone();
        http.alpn_protocols = vec![HTTP1.to_vec()];
        Ok(Some(DiallingConfigs { streams: Arc::new(config), http: Arc::new(http) }))
    }
}

fn versions(parameters: &TlsParameters) -> Vec<&'static SupportedProtocolVersion> {
    let known = [(TlsVersion::Tls13, &rustls::version::TLS13), (TlsVersion::Tls12, &rustls::version::TLS12)];
    let range = parameters.min_version..=parameters.max_version;
    known.into_iter().filter(|(version, _)| range.contains(version)).map(|(_, version)| version).collect()
}
