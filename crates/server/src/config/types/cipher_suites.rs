//! Names of TLS cipher suites, as Go has them.

/// Suites that can be offered, with their numbers in TLS.
const OFFERED: [(&str, u16); 11] = [
    ("TLS_AES_128_GCM_SHA256", 0x1301),
    ("TLS_AES_256_GCM_SHA384", 0x1302),
    ("TLS_CHACHA20_POLY1305_SHA256", 0x1303),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", 0xc02b),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", 0xc02c),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", 0xc02f),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", 0xc030),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", 0xcca8),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", 0xcca9),
    // The names that Go had for the last two before they were standardized.
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", 0xcca8),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", 0xcca9),
];

/// Suites that Go knows besides: without forward secrecy, or with a mode or a cipher that is broken.
const OUTDATED: [&str; 16] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

/// The suites of TLS 1.3 have numbers of their own block.
pub(crate) fn is_tls13(suite: u16) -> bool {
    suite >> 8 == 0x13
}

/// The number of a suite.
///
/// # Errors
/// A name that Go does not know, in etcd's words, or a suite that cannot be offered.
pub(crate) fn parse(name: &str) -> Result<u16, String> {
    if let Some((_, number)) = OFFERED.iter().find(|(offered, _)| *offered == name) {
        return Ok(*number);
    }
    if OUTDATED.contains(&name) {
        return Err(format!(
            "TLS cipher suite {name:?} (--cipher-suites) is outdated and not supported; expected suites with ECDHE and \
             GCM or CHACHA20_POLY1305"
        ));
    }
    let known = OFFERED.map(|(offered, _)| offered).join(", ");
    Err(format!("unexpected TLS cipher suite {name:?} (--cipher-suites); expected one of {known}"))
}

#[cfg(test)]
mod tests {
    //! Names, old and new.
    use super::*;

    #[test]
    fn suites_are_found_or_refused_by_name() {
        assert_eq!(parse("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), Ok(0xc02f));
        assert_eq!(parse("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"), Ok(0xcca8));
        assert!(is_tls13(parse("TLS_AES_128_GCM_SHA256").expect("known")) && !is_tls13(0xc02f));
        let unknown = parse("x").expect_err("unknown");
        assert!(unknown.starts_with("unexpected TLS cipher suite \"x\" (--cipher-suites)"), "{unknown}");
        let outdated = parse("TLS_RSA_WITH_AES_128_CBC_SHA").expect_err("outdated");
        assert!(outdated.starts_with("TLS cipher suite \"TLS_RSA_WITH_AES_128_CBC_SHA\""), "{outdated}");
    }
}
