//! Certificates, and the files of authorities, revocation lists and keys.
//!
//! With generated certificates a member reads that of any stranger who listens at a peer's address. Who is not allowed,
//! or is revoked, is not admitted. What keys sign is what they check.
//!
//! The script is a sequence: a byte for the kind, then bytes.

use std::collections::HashSet;

use server::config::SignMethod;
use server::untrusted::{ReadCertificate, certificates, revoked_serials, token_keys};

use crate::input::script::Script;

/// A certificate in DER.
pub const CERTIFICATE: u8 = 0;
/// A file of certificates.
pub const AUTHORITIES: u8 = 1;
/// A file of revocation lists.
pub const REVOKED: u8 = 2;
/// The public and the private file of the keys of a method, whose number is added.
pub const KEYS: u8 = 16;

/// Receives the bytes.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    while let (Some(kind), Some(first)) = (script.byte(), script.bytes()) {
        match kind {
            CERTIFICATE => check_certificate(first),
            AUTHORITIES => assert!(certificates(first).unwrap_or(1) > 0),
            REVOKED => {
                let serials = revoked_serials(first).unwrap_or_default();
                assert!(
                    serials.iter().all(|serial| serial.first() != Some(&0)),
                    "they are compared without zeros"
                );
            }
            _ => {
                let method = SignMethod::ALL[usize::from(kind.wrapping_sub(KEYS)) % SignMethod::ALL.len()];
                let private = script.bytes().unwrap_or_default();
                assert!(token_keys(method, first, private).unwrap_or(true), "{method:?}");
            }
        }
    }
}

fn check_certificate(der: &[u8]) {
    let Some(read) = ReadCertificate::of(der) else { return };
    let (name, serial) = (read.common_name().to_owned(), read.serial().to_vec());
    let all = || HashSet::new();
    assert!(read.is_admitted(vec![], vec![], all()));
    assert!(read.is_admitted(vec![name.clone()], vec![], all()));
    assert!(!read.is_admitted(vec![format!("{name}x")], vec![], all()), "another common name");
    assert!(!read.is_admitted(vec![], vec![], HashSet::from([serial])), "it is revoked");
    for host in read.hosts() {
        assert_eq!(read.is_admitted(vec![], vec![host.clone()], all()), read.is_for(&host), "{host:?}");
    }
    assert!(!read.is_for(""));
}
