//! What is read of a certificate: for whom it is, and its serial number.
//!
//! Names are compared as Go compares them (`x509.Certificate.VerifyHostname`), because etcd does: the common name is no
//! host name, a wildcard stands for the first label alone, and an address is compared with addresses only.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// For whom a certificate is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateNames {
    /// The last common name of its subject, which is the one that Go reads; empty without one.
    pub(crate) common_name: String,
    /// Host names, which may begin with a wildcard.
    pub(crate) dns_names: Vec<String>,
    /// Addresses.
    pub(crate) ip_addresses: Vec<IpAddr>,
    /// Without leading zeros.
    pub(crate) serial: Vec<u8>,
    /// The end of its validity in seconds since 1970.
    pub(crate) not_after_s: i64,
}

impl CertificateNames {
    /// Reads a certificate.
    ///
    /// # Errors
    /// What makes it none.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<CertificateNames, String> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|error| format!("it is not X.509: {error}"))?;
        let mut names = CertificateNames {
            serial: without_leading_zeros(parsed.raw_serial()).to_vec(),
            not_after_s: parsed.validity().not_after.timestamp(),
            ..CertificateNames::default()
        };
        if let Some(name) = parsed.subject().iter_common_name().last() {
            names.common_name = name.as_str().unwrap_or_default().to_owned();
        }
        let alternative = parsed.subject_alternative_name();
        let alternative = alternative.map_err(|error| format!("its alternative names: {error}"))?;
        for name in alternative.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::DNSName(name) => names.dns_names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => names.ip_addresses.extend(address(bytes)),
                _ => {}
            }
        }
        Ok(names)
    }

    /// Whether it is for this host: a name, or an address.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match bare.parse::<IpAddr>() {
            Ok(address) => self.ip_addresses.contains(&address.to_canonical()),
            Err(_) => self.dns_names.iter().any(|pattern| matches(pattern, host)),
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(address.to_canonical())
}

fn matches(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.to_ascii_lowercase(), host.to_ascii_lowercase());
    let host = host.strip_suffix('.').unwrap_or(&host);
    if host.is_empty() || pattern.is_empty() {
        return false;
    }
    let (mut wanted, mut given) = (pattern.split('.'), host.split('.'));
    let first = (wanted.next(), given.next());
    let first_fits = first.0 == first.1 || first.0 == Some("*") && pattern.len() > 2;
    first_fits && wanted.eq(given)
}

/// A number in big-endian bytes without those that do not count.
pub(crate) fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

#[cfg(test)]
mod tests {
    //! Names as Go compares them.
    use super::*;

    #[test]
    fn hosts_are_compared_label_by_label() {
        let names = CertificateNames {
            common_name: "by-cn.example".to_owned(),
            dns_names: vec!["a.example".into(), "*.wild.example".into()],
            ip_addresses: vec!["10.0.0.1".parse().expect("an address"), "::1".parse().expect("an address")],
            ..CertificateNames::default()
        };
        for host in ["a.example", "A.Example.", "x.wild.example", "10.0.0.1", "[::1]", "::ffff:10.0.0.1"] {
            assert!(names.is_for(host), "{host}");
        }
        for host in ["by-cn.example", "b.example", "wild.example", "x.y.wild.example", "10.0.0.2", "", "."] {
            assert!(!names.is_for(host), "{host}");
        }
    }

    #[test]
    fn names_addresses_and_serial_are_read() {
        let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned(), "10.0.0.1".to_owned()])
            .expect("names");
        params.distinguished_name.push(rcgen::DnType::CommonName, "alice");
        params.serial_number = Some(rcgen::SerialNumber::from_slice(&[0, 0x12, 0x34]));
        let key = rcgen::KeyPair::generate().expect("a key");
        let names =
            CertificateNames::of(params.self_signed(&key).expect("a certificate").der()).expect("read");
        assert_eq!(names.common_name, "alice");
        assert_eq!(names.dns_names, ["a.example"]);
        assert_eq!(names.ip_addresses, ["10.0.0.1".parse::<IpAddr>().expect("an address")]);
        assert_eq!(names.serial, [0x12, 0x34]);
        assert!(CertificateNames::of(&CertificateDer::from(b"no certificate".to_vec())).is_err());
    }
}
