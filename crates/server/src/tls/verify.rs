//! Who is trusted: the library checks signatures, validity and the chain to an authority; then come the names that the
//! flags allow and the certificates that were revoked.
//!
//! As in etcd, a certificate is revoked if the list has its serial number, or that of one that the other side sent with
//! it. That rejects one too many if two authorities use one number, and never one too few.

use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, SignatureScheme};

use super::certificate::CertificateNames;

/// What the flags ask of a certificate besides an authority that is trusted.
#[derive(Debug, Default)]
pub(crate) struct CertificateRules {
    /// One of these, unless empty.
    pub(crate) common_names: Vec<String>,
    /// For one of these, unless empty.
    pub(crate) hostnames: Vec<String>,
    /// None of these serial numbers.
    pub(crate) revoked: HashSet<Vec<u8>>,
}

/// Why a certificate is not trusted although its authority signed it.
#[derive(Debug)]
pub(crate) struct RefusedCertificate {
    pub(crate) reason: String,
    pub(crate) names: CertificateNames,
}

impl fmt::Display for RefusedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for RefusedCertificate {}

impl CertificateRules {
    /// Checks a certificate, and for revocation also those that came with it.
    pub(crate) fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
    ) -> Result<(), rustls::Error> {
        let bad = || rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let names = CertificateNames::of(end_entity).map_err(|_| bad())?;
        if !self.allows(&names) {
            return Err(refused("client certificate authentication failed".to_owned(), names));
        }
        if self.revoked.is_empty() {
            return Ok(());
        }
        let mut serials = vec![names.serial.clone()];
        for other in others {
            serials.push(CertificateNames::of(other).map_err(|_| bad())?.serial);
        }
        match serials.into_iter().find(|serial| self.revoked.contains(serial)) {
            Some(serial) => {
                let hex: String = serial.iter().map(|byte| format!("{byte:02x}")).collect();
                Err(refused(format!("transport: certificate serial {hex} revoked"), names))
            }
            None => Ok(()),
        }
    }

    fn allows(&self, names: &CertificateNames) -> bool {
        (self.common_names.is_empty() || self.common_names.contains(&names.common_name))
            && (self.hostnames.is_empty() || self.hostnames.iter().any(|host| names.is_for(host)))
    }
}

fn refused(reason: String, names: CertificateNames) -> rustls::Error {
    let why = Arc::new(RefusedCertificate { reason, names });
    rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why)))
}

/// Accepts a client certificate that passes rustls and our rules.
#[derive(Debug)]
pub(crate) struct DiallerVerifier {
    pub(crate) library: Arc<dyn ClientCertVerifier>,
    pub(crate) rules: Arc<CertificateRules>,
}

impl ClientCertVerifier for DiallerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.library.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.library.verify_client_cert(end_entity, intermediates, now)?;
        self.rules.check(end_entity, intermediates)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.library.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.library.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.library.supported_verify_schemes()
    }
}

/// Accepts a certificate that passes rustls and our rules; accepts any if certificates are generated.
#[derive(Debug)]
pub(crate) struct AcceptorVerifier {
    /// Without one, any certificate is accepted whose key the acceptor owns.
    pub(crate) library: Option<Arc<dyn ServerCertVerifier>>,
    pub(crate) rules: Arc<CertificateRules>,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptorVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(library) = &self.library {
            library.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        }
        self.rules.check(end_entity, intermediates)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
