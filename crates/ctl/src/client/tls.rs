//! TLS: certificates from files, as `--cacert`, `--cert` and `--key` name them.
//!
//! Without `--cacert`, servers are checked against the system's authorities, which are read where Go looks for them.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Where systems keep the certificates of authorities.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What the flags say about TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsFlags {
    /// The file of `--cacert`; may be empty.
    pub authorities: String,
    /// The file of `--cert`; may be empty.
    pub certificate: String,
    /// The file of `--key`; may be empty.
    pub key: String,
    /// `--insecure-transport=false`.
    pub demanded: bool,
    /// `--insecure-skip-tls-verify`.
    pub any_server: bool,
    /// The file of `SSL_CERT_FILE`, which replaces the system's authorities; may be empty.
    pub system_file: String,
}

impl TlsFlags {
    /// Whether endpoints that name no scheme are reached by TLS.
    pub fn are_set(&self) -> bool {
        let files = [&self.authorities, &self.certificate, &self.key];
        self.demanded || self.any_server || files.iter().any(|file| !file.is_empty())
    }

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or holds something else, with a message that names it.
    pub fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let builder = ClientConfig::builder();
        let provider = builder.crypto_provider().clone();
        let builder = if self.any_server {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let mut config = match (self.certificate.as_str(), self.key.as_str()) {
            ("", "") => builder.with_no_client_auth(),
            ("", _) | (_, "") => {
                let (key, certificate) = (&self.key, &self.certificate);
                return Err(format!(
                    "KeyFile and CertFile must both be present[key: {key}, cert: {certificate}]"
                ));
            }
            (certificate, key) => {
                let pem = read(key)?;
                let key = PrivateKeyDer::from_pem_slice(&pem)
                    .map_err(|error| format!("{key} does not hold a private key in PEM: {error}"))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, key)
                    .map_err(|error| error.to_string())?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        if !self.authorities.is_empty() {
            for certificate in certificates(&self.authorities)? {
                roots.add(certificate).map_err(|error| format!("{}: {error}", self.authorities))?;
            }
            return Ok(roots);
        }
        let found = match self.system_file.as_str() {
            "" => SYSTEM_AUTHORITIES.iter().find_map(|file| certificates(file).ok()),
            file => Some(certificates(file)?),
        };
        roots.add_parsable_certificates(found.unwrap_or_default());
        Ok(roots)
    }
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("open {file}: no such file or directory"),
        _ => format!("open {file}: {error}"),
    })
}

fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(format!("{file} holds no certificate in PEM")),
        Err(error) => Err(format!("{file} does not hold certificates in PEM: {error}")),
    }
}

/// Accepts any certificate: `--insecure-skip-tls-verify`. Signatures are checked, names and authorities are not.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
