//! Section "Clustering".

use super::flag::{Flag, Section, duration, list, switch, text, urls};

const V2_DISCOVERY: &str = "the v2 discovery service";
const ONLY_V2_DISCOVERY: &str = "it only matters with the v2 discovery service";
const NO_CONNECTION_KEPT: &str = "a connection to the discovery service lasts for one request";

const fn here(flag: Flag) -> Flag {
    flag.section(Section::Clustering)
}

pub(super) const FLAGS: &[Flag] = &[
    here(urls(
        "initial-advertise-peer-urls",
        "http://localhost:2380",
        "Peer URLs to advertise to other members.",
    )),
    here(text(
        "initial-cluster",
        "default=http://localhost:2380",
        "All members at the start: name=URL, comma-separated.",
    )),
    here(text(
        "initial-cluster-state",
        "new",
        "'new' to start a cluster, 'existing' to join one; ignored on restart.",
    )),
    here(text(
        "initial-cluster-token",
        "etcd-cluster",
        "Distinguishes clusters that start with the same URLs; part of the cluster id.",
    )),
    here(urls("advertise-client-urls", "http://localhost:2379", "Client URLs to advertise to clients.")),
    here(text("discovery", "", "URL of a v2 discovery service.")).refused(V2_DISCOVERY),
    here(text("discovery-token", "", "Token of the cluster in a v3 discovery service.")),
    here(list("discovery-endpoints", "", "Endpoints of a v3 discovery service.")),
    here(duration(
        "discovery-dial-timeout",
        "2s",
        "How long to wait for a connection to the discovery service.",
    )),
    here(duration(
        "discovery-request-timeout",
        "5s",
        "How long to wait for an answer of the discovery service.",
    )),
    here(duration("discovery-keepalive-time", "2s", "How often to ping the discovery service."))
        .no_effect(NO_CONNECTION_KEPT),
    here(duration(
        "discovery-keepalive-timeout",
        "6s",
        "How long the discovery service may leave a ping unanswered.",
    ))
    .no_effect(NO_CONNECTION_KEPT),
    here(switch("discovery-insecure-transport", "true", "Talk to the discovery service without TLS.")),
    here(switch(
        "discovery-insecure-skip-tls-verify",
        "false",
        "Do not verify the discovery service's certificate.",
    )),
    here(text("discovery-cert", "", "Certificate to show the discovery service.")),
    here(text("discovery-key", "", "Key of that certificate.")),
    here(text("discovery-cacert", "", "CA bundle for the discovery service's certificate.")),
    here(text("discovery-user", "", "User name, or name:password, at the discovery service.")),
    here(text("discovery-password", "", "Password at the discovery service.")),
    here(text("discovery-fallback", "exit", "What to do when discovery fails; only 'exit' is left."))
        .no_effect(ONLY_V2_DISCOVERY),
    here(text("discovery-proxy", "", "HTTP proxy on the way to a v2 discovery service."))
        .no_effect(ONLY_V2_DISCOVERY),
    here(text("discovery-srv", "", "DNS domain whose SRV records name the members at the start.")),
    here(text("discovery-srv-name", "", "Suffix of the name that is looked up in DNS.")),
    here(switch("strict-reconfig-check", "true", "Refuse changes of membership that would cost the quorum.")),
    here(switch(
        "pre-vote",
        "true",
        "Ask for votes before campaigning, so that a returning member does not disturb the leader.",
    )),
    here(text(
        "auto-compaction-retention",
        "0",
        "How much history to keep: a duration or a number of revisions; 0 keeps all.",
    )),
    here(text(
        "auto-compaction-mode",
        "periodic",
        "'periodic': retention is a duration, hours when bare; 'revision': a count.",
    )),
    here(text("v2-deprecation", "write-only", "Stage of the v2 store's removal."))
        .no_effect("there is no v2 store"),
];
