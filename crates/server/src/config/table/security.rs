//! Section "Security".

use super::flag::{Flag, Section, count, list, switch, text};

const TLS: &str = "TLS";
const ONLY_TLS: &str = "it only matters with TLS, which is not supported yet";

const fn here(flag: Flag) -> Flag {
    flag.section(Section::Security)
}

const fn tls(flag: Flag) -> Flag {
    here(flag).refused(TLS)
}

/// A detail of TLS: means nothing unless TLS itself is asked for, which is refused.
const fn detail(flag: Flag) -> Flag {
    here(flag).no_effect(ONLY_TLS)
}

pub(super) const FLAGS: &[Flag] = &[
    tls(text("cert-file", "", "Certificate shown to clients.")),
    tls(text("key-file", "", "Key of that certificate.")),
    tls(switch("client-cert-auth", "false", "Demand certificates of clients.")),
    tls(text("client-cert-file", "", "Certificate for this member's own calls to its client URLs.")),
    tls(text("client-key-file", "", "Key of that certificate.")),
    tls(text("client-crl-file", "", "List of revoked client certificates.")),
    tls(list("client-cert-allowed-hostname", "", "Host names that client certificates may carry.")),
    tls(text("trusted-ca-file", "", "CA bundle for the certificates of clients.")),
    tls(switch("auto-tls", "false", "Serve clients with a certificate made up at the start.")),
    tls(text("peer-cert-file", "", "Certificate shown to other members.")),
    tls(text("peer-key-file", "", "Key of that certificate.")),
    tls(switch("peer-client-cert-auth", "false", "Demand certificates of other members.")),
    tls(text("peer-client-cert-file", "", "Certificate for connections to other members.")),
    tls(text("peer-client-key-file", "", "Key of that certificate.")),
    tls(text("peer-trusted-ca-file", "", "CA bundle for the certificates of other members.")),
    tls(list("peer-cert-allowed-cn", "", "Common names that certificates of other members may carry.")),
    tls(list("peer-cert-allowed-hostname", "", "Host names that certificates of other members may carry.")),
    tls(switch("peer-auto-tls", "false", "Talk to other members with a certificate made up at the start.")),
    detail(count("self-signed-cert-validity", "1", "Years for which made-up certificates are good.")),
    tls(text("peer-crl-file", "", "List of revoked certificates of other members.")),
    detail(list("cipher-suites", "", "TLS cipher suites to offer.")),
    here(list("cors", "*", "Origins whose web pages may talk to this member; empty or * means all.")),
    here(list(
        "host-whitelist",
        "*",
        "Host names by which HTTP clients may address this member; empty or * means all.",
    )),
    detail(text("tls-min-version", "TLS1.2", "Lowest TLS version: TLS1.2 or TLS1.3.")),
    detail(text("tls-max-version", "", "Highest TLS version: TLS1.2 or TLS1.3.")),
];
