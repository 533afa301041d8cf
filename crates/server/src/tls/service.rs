//! TLS to a service that is asked once, while a member starts: the discovery service. The files are read then, and not
//! followed.
//!
//! As in etcd's client: the authorities of the machine count if no file names others, a certificate is shown if there
//! is one, and a service may be trusted without a check if the flags ask for that.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::sign::SingleCertAndKey;

use super::contents::ShownCertificate;
use super::files::{NamedFile, TlsError, system_bundle};
use super::verify::{AcceptorVerifier, CertificateRules};
use crate::config::ServiceSecurity;

/// The configuration with which the service is dialled.
///
/// # Errors
/// A file that is not what its flag asks for, or a certificate without a key.
pub(crate) fn service_client(security: &ServiceSecurity) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let named = |flag: &str, path: &Option<PathBuf>| {
        path.clone().map(|path| NamedFile { flag: flag.to_owned(), path })
    };
    let unusable = |problem: &dyn ToString| TlsError::Combination {
        flags: "--discovery-cacert".to_owned(),
        problem: problem.to_string(),
    };
    let library = match security.skip_verification {
        true => None,
        false => {
            let flag = "discovery-cacert";
            let trusted = named(flag, &security.trusted_ca_file);
            let roots = trusted
                .map_or_else(|| system_bundle(flag).usable_authorities(), |file| file.authorities())?;
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            Some(verifier.build().map_err(|error| unusable(&error))? as Arc<dyn ServerCertVerifier>)
        }
    };
    let rules = Arc::new(CertificateRules::default());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptorVerifier {
            library,
            rules,
            provider: provider.clone(),
        }));
    let certificate = named("discovery-cert", &security.cert_file);
    let mut config = match (certificate, named("discovery-key", &security.key_file)) {
        (Some(certificate), Some(key)) => {
            let shown = ShownCertificate::load(&(certificate, key), &provider)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown.pair)))
        }
        (None, None) => builder.with_no_client_auth(),
        _ => {
            return Err(TlsError::Combination {
                flags: "--discovery-cert, --discovery-key".to_owned(),
                problem: "one is given without the other".to_owned(),
            });
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
