//! Contents of the TLS files of one side, and the certificates that it trusts.
//!
//! What restricts (authorities, revocation lists) and what is shown (a certificate with its key) is read and replaced
//! apart: a key that does not fit yet never keeps a revocation from taking effect. A certificate or key that is bad
//! leaves in force the pair before; a bad list of authorities or of revocations leaves nothing to check with, so the
//! side trusts no one until it is good again.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;

use super::certificate::CertificateNames;
use super::files::{NamedFile, TlsError};
use super::sides::{TlsFiles, TlsSide};
use super::verify::{AcceptorVerifier, CertificateRules, DiallerVerifier};

/// A certificate that a side shows, with its key.
pub(crate) struct ShownCertificate {
    pub(crate) pair: Arc<CertifiedKey>,
    /// The end of its validity, in seconds since 1970.
    pub(crate) not_after_s: Option<i64>,
}

/// The certificates that a side trusts.
pub(crate) struct TrustRules {
    /// None where no certificates are demanded.
    pub(crate) diallers: Option<Arc<DiallerVerifier>>,
    /// Only of [`TlsSide::Peer`].
    pub(crate) acceptors: Option<Arc<AcceptorVerifier>>,
}

/// What the files of a side hold.
pub(crate) struct TlsContents {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) shown: Option<ShownCertificate>,
    pub(crate) shown_when_dialling: Option<ShownCertificate>,
    /// None while a file of authorities or revocations is bad: then no one is trusted.
    pub(crate) trust: Option<TrustRules>,
}

/// What was bad when files were read again.
#[derive(Default)]
pub(crate) struct ReloadFailures {
    /// Pairs; those before stay in force.
    pub(crate) pairs: Vec<TlsError>,
    /// Authorities or revocations: no one is trusted.
    pub(crate) restrictions: Option<TlsError>,
}

impl ReloadFailures {
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.restrictions.is_none()
    }
}

impl TlsContents {
    /// Reads all files.
    ///
    /// # Errors
    /// A file that is not what its flag asks for, or a certificate and a key that do not belong together.
    pub(crate) fn load(files: &TlsFiles) -> Result<TlsContents, TlsError> {
        let mut contents = TlsContents {
            provider: Arc::new(provider(&files.parameters.cipher_suites)),
            shown: None,
            shown_when_dialling: None,
            trust: None,
        };
        let failures = contents.reload(files);
        match failures.pairs.into_iter().chain(failures.restrictions).next() {
            Some(error) => Err(error),
            None => Ok(contents),
        }
    }

    /// Reads all files again; returns what was bad.
    pub(crate) fn reload(&mut self, files: &TlsFiles) -> ReloadFailures {
        let mut failures = ReloadFailures::default();
        let pairs =
            [(&files.shown, &mut self.shown), (&files.shown_when_dialling, &mut self.shown_when_dialling)];
        for (named, shown) in pairs {
            let Some(named) = named else { continue };
            match ShownCertificate::load(named, &self.provider) {
                Ok(loaded) => *shown = Some(loaded),
                Err(error) => failures.pairs.push(error),
            }
        }
        match self.read_restrictions(files) {
            Ok(trust) => self.trust = Some(trust),
            Err(error) => (self.trust, failures.restrictions) = (None, Some(error)),
        }
        failures
    }

    fn read_restrictions(&self, files: &TlsFiles) -> Result<TrustRules, TlsError> {
        let settings = &files.settings;
        let rules = Arc::new(CertificateRules {
            common_names: settings.allowed_common_names.clone(),
            hostnames: settings.allowed_hostnames.clone(),
            revoked: files.revoked.as_ref().map(NamedFile::revoked).transpose()?.unwrap_or_default(),
        });
        let authorities = Arc::new(match (&files.trusted, &files.system) {
            (Some(named), _) => named.authorities()?,
            (None, Some(system)) => system.usable_authorities()?,
            (None, None) => RootCertStore::empty(),
        });
        let provider = &self.provider;
        let unusable = |error: &dyn ToString| files.combination("trusted-ca-file", error.to_string());
        let diallers = if settings.demands_certificates() {
            let library = WebPkiClientVerifier::builder_with_provider(authorities.clone(), provider.clone())
                .build()
                .map_err(|error| unusable(&error))?;
            Some(Arc::new(DiallerVerifier { library, rules: rules.clone() }))
        } else {
            None
        };
        let acceptors = match files.side {
            TlsSide::Client => None,
            TlsSide::Peer => {
                let library = match files.checks_acceptors() {
                    false => None,
                    true => Some(
                        WebPkiServerVerifier::builder_with_provider(authorities, provider.clone())
                            .build()
                            .map_err(|error| unusable(&error))?
                            as Arc<dyn ServerCertVerifier>,
                    ),
                };
                Some(Arc::new(AcceptorVerifier { library, rules, provider: provider.clone() }))
            }
        };
        Ok(TrustRules { diallers, acceptors })
    }
}

impl ShownCertificate {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// A file that is not what its flag asks for, or two that do not belong together.
    pub(super) fn load(
        named: &(NamedFile, NamedFile),
        provider: &CryptoProvider,
    ) -> Result<ShownCertificate, TlsError> {
        let (certificate, key) = named;
        let (chain, private_key) = (certificate.chain()?, key.key()?);
        let names = chain.first().and_then(|first| CertificateNames::of(first).ok());
        let pair =
            CertifiedKey::from_der(chain, private_key, provider).map_err(|error| TlsError::Combination {
                flags: format!("--{}, --{}", certificate.flag, key.flag),
                problem: format!("the certificate and the key cannot be used together: {error}"),
            })?;
        Ok(ShownCertificate { pair: Arc::new(pair), not_after_s: names.map(|names| names.not_after_s) })
    }
}

/// Cryptography with the suites that were named: those of TLS 1.3 stay all on unless one of them is named, as in Go.
fn provider(named: &[u16]) -> CryptoProvider {
    let mut provider = ring::default_provider();
    if !named.is_empty() {
        let is_tls13 = |suite: u16| crate::config::is_tls13_suite(suite);
        let names_tls13 = named.iter().any(|suite| is_tls13(*suite));
        provider.cipher_suites.retain(|suite| {
            let number = u16::from(suite.suite());
            named.contains(&number) || is_tls13(number) && !names_tls13
        });
    }
    provider
}
