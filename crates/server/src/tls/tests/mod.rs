//! Certificates of authorities that live as long as a test, and handshakes over pipes in memory.

mod dialling;
mod handshakes;
mod loading;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

use super::sides::{TlsFiles, TlsSide};
use super::{Offer, TlsListener, TlsSource, self_signed};
use crate::config::{TlsParameters, TlsVersion, TransportSecurity};

/// A certificate authority whose files are in a directory of its own.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: tempfile::TempDir,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a root");
        let authority = Authority { issuer, dir: tempfile::tempdir().expect("a directory") };
        std::fs::write(authority.file("ca.pem"), authority.issuer.pem()).expect("written");
        authority
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes `NAME.pem` and `NAME.key`: a certificate for these hosts with this common name.
    pub(crate) fn issue(&self, name: &str, hosts: &[&str], serial: u8) {
        self.issue_with(name, hosts, serial, |_| {});
    }

    pub(crate) fn issue_with(
        &self,
        name: &str,
        hosts: &[&str],
        serial: u8,
        change: impl FnOnce(&mut CertificateParams),
    ) {
        let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from_slice(&[serial]));
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        std::fs::write(self.file(&format!("{name}.pem")), certificate.pem()).expect("written");
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).expect("written");
    }

    /// Writes `crl.pem` and `crl.der`, which revoke these serial numbers.
    pub(crate) fn revoke(&self, serials: &[u8]) {
        let revoked = |serial: &u8| RevokedCertParams {
            serial_number: SerialNumber::from_slice(&[*serial]),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2025, 1, 1),
            crl_number: SerialNumber::from_slice(&[1]),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("signed");
        std::fs::write(self.file("crl.pem"), list.pem().expect("a text")).expect("written");
        std::fs::write(self.file("crl.der"), list.der()).expect("written");
    }

    /// The settings of a listener that shows `NAME.pem`.
    pub(crate) fn settings(&self, name: &str) -> TransportSecurity {
        TransportSecurity {
            cert_file: Some(self.file(&format!("{name}.pem"))),
            key_file: Some(self.file(&format!("{name}.key"))),
            ..TransportSecurity::default()
        }
    }

    /// The same, that demands certificates of this authority.
    pub(crate) fn mutual(&self, name: &str) -> TransportSecurity {
        TransportSecurity {
            trusted_ca_file: Some(self.file("ca.pem")),
            client_cert_auth: true,
            ..self.settings(name)
        }
    }
}

pub(crate) fn parameters() -> TlsParameters {
    TlsParameters {
        min_version: TlsVersion::Tls12,
        max_version: TlsVersion::Tls13,
        cipher_suites: Vec::new(),
        self_signed_validity_years: 1,
    }
}

pub(crate) fn files(side: TlsSide, settings: &TransportSecurity) -> TlsFiles {
    TlsFiles::of(side, settings, &parameters()).expect("whole pairs")
}

pub(crate) fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
}

/// A listener with a certificate that is generated below `dir`.
pub(crate) fn generated_listener(dir: &Path) -> Arc<TlsListener> {
    let (certificate, key) = self_signed::ensure(TlsSide::Client, dir, &[], 1).expect("made");
    let settings = TransportSecurity { auto_tls: true, ..TransportSecurity::default() };
    let files = files(TlsSide::Client, &settings).with_generated(certificate, key);
    Arc::new(TlsListener::new(Arc::new(TlsSource::load(files).expect("good files")), Offer::AnyHttp))
}
