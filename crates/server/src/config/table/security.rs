//! Section "Security".

use super::flag::{Flag, Section, count, list, switch, text};

const fn here(flag: Flag) -> Flag {
    flag.section(Section::Security)
}

pub(super) const FLAGS: &[Flag] = &[
    here(text("cert-file", "", "Certificate shown to clients.")),
    here(text("key-file", "", "Key of that certificate.")),
    here(switch("client-cert-auth", "false", "Require client certificates.")),
    here(text("client-cert-file", "", "Certificate for this member's own calls to its client URLs.")),
    here(text("client-key-file", "", "Key of that certificate.")),
    here(text("client-crl-file", "", "List of revoked client certificates.")),
    here(list("client-cert-allowed-hostname", "", "Host names that client certificates may carry.")),
    here(text("trusted-ca-file", "", "CA bundle for the certificates of clients.")),
    here(switch("auto-tls", "false", "Serve clients with a self-signed certificate generated at startup.")),
    here(text("peer-cert-file", "", "Certificate shown to other members.")),
    here(text("peer-key-file", "", "Key of that certificate.")),
    here(switch("peer-client-cert-auth", "false", "Require certificates of other members.")),
    here(text("peer-client-cert-file", "", "Certificate for connections to other members.")),
    here(text("peer-client-key-file", "", "Key of that certificate.")),
    here(text("peer-trusted-ca-file", "", "CA bundle for the certificates of other members.")),
    here(list("peer-cert-allowed-cn", "", "Common names that certificates of other members may carry.")),
    here(list("peer-cert-allowed-hostname", "", "Host names that certificates of other members may carry.")),
    here(switch(
        "peer-auto-tls",
        "false",
        "Use a self-signed certificate generated at startup between members.",
    )),
    here(count("self-signed-cert-validity", "1", "Validity of generated certificates, in years.")),
    here(text("peer-crl-file", "", "List of revoked certificates of other members.")),
    here(list("cipher-suites", "", "TLS cipher suites to offer.")),
    here(list("cors", "*", "Origins whose web pages may talk to this member; empty or * means all.")),
    here(list(
        "host-whitelist",
        "*",
        "Host names by which HTTP clients may address this member; empty or * means all.",
    )),
    here(text("tls-min-version", "TLS1.2", "Lowest TLS version: TLS1.2 or TLS1.3.")),
    here(text("tls-max-version", "", "Highest TLS version: TLS1.2 or TLS1.3.")),
];
