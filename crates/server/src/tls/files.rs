//! Certificates, keys, authorities and revocation lists as files. An error names the flag, the file, what is wrong with
//! it and what was expected.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::certificate::{CertificateNames, without_leading_zeros};

/// A file, and the flag that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub(crate) flag: String,
    pub(crate) path: PathBuf,
}

/// What makes it impossible to speak TLS as asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file is missing, or is not what its flag asks for.
    #[error("{path} (--{flag}): {problem}; expected {expected}")]
    File {
        /// Without its dashes.
        flag: String,
        path: PathBuf,
        problem: String,
        expected: &'static str,
    },
    /// The files are good one by one, and do not fit together.
    #[error("{flags}: {problem}")]
    Combination { flags: String, problem: String },
}

const A_CERTIFICATE: &str = "PEM with one or more sections CERTIFICATE, the member's own first";
const A_KEY: &str = "PEM with a section PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY that is not encrypted";
const AUTHORITIES: &str = "PEM with one or more sections CERTIFICATE, one for each authority";
const A_CRL: &str = "a revocation list (CRL): DER, or PEM with sections X509 CRL";

/// The longest file that is read: a CRL of a million serial numbers. It bounds memory and the time of a load.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The bundles of authorities that systems keep, in the order in which Go looks for them.
const SYSTEM_BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

impl NamedFile {
    fn error(&self, problem: impl ToString, expected: &'static str) -> TlsError {
        TlsError::File {
            flag: self.flag.clone(),
            path: self.path.clone(),
            problem: problem.to_string(),
            expected,
        }
    }

    fn read(&self, expected: &'static str) -> Result<Vec<u8>, TlsError> {
        let mut bytes = Vec::new();
        std::fs::File::open(&self.path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| self.error(error, expected))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(self.error(format!("it is longer than {MAX_FILE_BYTES} bytes"), expected));
        }
        Ok(bytes)
    }

    fn certificates(&self, expected: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        certificates_in(&self.read(expected)?).map_err(|problem| self.error(problem, expected))
    }

    /// A certificate, and those of the authorities between it and a root.
    pub(crate) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        self.certificates(A_CERTIFICATE)
    }

    /// A private key.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let bytes = self.read(A_KEY)?;
        PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| self.error(describe(&error), A_KEY))
    }

    /// The authorities that are trusted.
    pub(crate) fn authorities(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for (index, certificate) in self.certificates(AUTHORITIES)?.into_iter().enumerate() {
            let added = roots.add(certificate);
            added.map_err(|error| self.error(format!("certificate {}: {error}", index + 1), AUTHORITIES))?;
        }
        Ok(roots)
    }

    /// The authorities of a system's bundle. One that TLS cannot use is left out, as Go does.
    pub(crate) fn usable_authorities(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&self.read(AUTHORITIES)?).flatten() {
            let _ = roots.add(certificate);
        }
        if roots.is_empty() {
            return Err(self.error("it holds no certificate that can be used", AUTHORITIES));
        }
        Ok(roots)
    }

    /// The serial numbers of the certificates that are revoked, without leading zeros.
    pub(crate) fn revoked(&self) -> Result<HashSet<Vec<u8>>, TlsError> {
        revoked_in(&self.read(A_CRL)?).map_err(|problem| self.error(problem, A_CRL))
    }
}

/// The certificates of a file, in PEM.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn certificates_in(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let sections: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let certificates = sections.map_err(|error| describe(&error))?;
    if certificates.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    for (index, certificate) in certificates.iter().enumerate() {
        CertificateNames::of(certificate)
            .map_err(|problem| format!("certificate {}: {problem}", index + 1))?;
    }
    Ok(certificates)
}

/// The serial numbers that a file revokes, without leading zeros.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn revoked_in(bytes: &[u8]) -> Result<HashSet<Vec<u8>>, String> {
    let sections: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(bytes).collect();
    let mut lists = sections.unwrap_or_default();
    if lists.is_empty() {
        lists.push(CertificateRevocationListDer::from(bytes));
    }
    let mut serials = HashSet::new();
    for list in &lists {
        let (rest, parsed) = CertificateRevocationList::from_der(list).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err("bytes follow the list".to_owned());
        }
        let revoked = parsed.iter_revoked_certificates();
        serials.extend(revoked.map(|revoked| without_leading_zeros(revoked.raw_serial()).to_vec()));
    }
    Ok(serials)
}

/// The authorities that this machine trusts: the file of `SSL_CERT_FILE`, or the first bundle that exists. `flag` would
/// name another file instead.
pub(crate) fn system_bundle(flag: &str) -> NamedFile {
    let chosen = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let path = chosen.or_else(|| SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|path| path.exists()));
    let path = path.unwrap_or_else(|| Path::new(SYSTEM_BUNDLES[0]).to_owned());
    NamedFile { flag: format!("{flag}, else the system's"), path }
}

fn describe(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "no such section was found".to_owned(),
        other => other.to_string(),
    }
}
