//! Certificates that a member generates (`--auto-tls`, `--peer-auto-tls`).
//!
//! As in etcd they are kept below the data directory and used again at the next start. They are for the hosts of the
//! listening URLs, and no authority vouches for them.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};

use super::files::{NamedFile, TlsError};
use super::sides::TlsSide;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A longer validity could end after the last year that a certificate can name.
const MAX_VALIDITY_YEARS: u64 = 1000;

/// The certificate and key of a side, which are made if one of them is missing.
///
/// # Errors
/// A directory or file that cannot be written.
pub(crate) fn ensure(
    side: TlsSide,
    data_dir: &Path,
    hosts: &[String],
    validity_years: u64,
) -> Result<(NamedFile, NamedFile), TlsError> {
    let dir = data_dir.join("fixtures").join(side.name());
    let flag = if side == TlsSide::Peer { "peer-auto-tls" } else { "auto-tls" };
    let named = |name: &str| NamedFile { flag: flag.to_owned(), path: dir.join(name) };
    let (certificate, key) = (named("cert.pem"), named("key.pem"));
    if !certificate.path.exists() || !key.path.exists() {
        make(hosts, validity_years)
            .and_then(|(certificate_text, key_text)| {
                DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
                write(&certificate.path, &certificate_text)?;
                write(&key.path, &key_text)?;
                Ok(())
            })
            .map_err(|error| TlsError::File {
                flag: flag.to_owned(),
                path: dir.clone(),
                problem: error.to_string(),
                expected: "a directory in which certificate and key can be written",
            })?;
        tracing::warn!(side = side.name(), dir = %dir.display(), "automatically generate certificates");
    }
    Ok((certificate, key))
}

fn make(hosts: &[String], validity_years: u64) -> Result<(String, String), Box<dyn std::error::Error>> {
    let mut hosts: Vec<_> = hosts.iter().filter(|host| !host.is_empty()).cloned().collect();
    hosts.sort();
    hosts.dedup();
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "etcd");
    let years = u32::try_from(validity_years.min(MAX_VALIDITY_YEARS)).unwrap_or(u32::MAX);
    let now = SystemTime::now();
    params.not_before = now.into();
    params.not_after = (now + YEAR * years).into();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Writes a file that only its owner may read, whatever was at the path before.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    // Of a start that was interrupted; a file that is there already could be another's, with another mode.
    if let Err(error) = std::fs::remove_file(&temporary)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}
