//! What the flags mean to the member and to the services.

use std::net::IpAddr;
use std::sync::Arc;

use log::Identity;
use member::identity::{cluster_id, member_id};
use member::{InitialMember, MembershipSettings, OpenedMember, StartMode};

use crate::auth::{JwtKeyError, JwtTokens, Passwords, SimpleTokens};
use crate::config::{ServerConfig, TokenKind, TracingSettings, Url};
use crate::live_settings::{LiveSettings, ReloadRequests, quota_bytes};
use crate::metrics::Metrics;
use crate::node::{Backups, LargeRanges, LargeRequests, LeaseIds, Node, RequestTimes, ServiceLimits};
use crate::overload::ClientAccounts;
use crate::raft_loop::Handoff;
use crate::spans::Tracer;

/// The member that the flags describe. `memory_limit_bytes` is 0 for no limit.
pub(crate) fn member_config(config: &ServerConfig, memory_limit_bytes: u64) -> member::MemberConfig {
    let token = &config.cluster.token;
    let initial_cluster: Vec<InitialMember> = config
        .cluster
        .initial
        .iter()
        .map(|(name, urls)| {
            let peer_urls = texts(urls);
            InitialMember { id: member_id(&peer_urls, token, None), name: name.clone(), peer_urls }
        })
        .collect();
    let ids: Vec<u64> = initial_cluster.iter().map(|member| member.id).collect();
    // Checked by `ServerConfig::validate_bootstrap` for a new member; one that restarts has its id from its directory.
    let own = initial_cluster.iter().find(|member| member.name == config.name).map_or(0, |member| member.id);
    let tick = config.cluster.heartbeat_interval;
    let storage = &config.storage;
    let checkpoint_commands = storage.snapshot_count.unwrap_or(member::DEFAULT_CHECKPOINT_COMMANDS);
    member::MemberConfig {
        cluster_id: cluster_id(&ids),
        member_id: own,
        incarnation: random(),
        process_run: random(),
        seed: random(),
        name: config.name.clone(),
        client_urls: texts(&config.urls.advertise_client),
        initial_cluster,
        tick_ns: tick.as_nanos() as u64,
        election_ticks: (config.cluster.election_timeout.as_millis() / tick.as_millis().max(1)) as u32,
        pre_vote: config.cluster.pre_vote,
        checkpoint_commands,
        catchup_entries: storage.snapshot_catchup_entries,
        catchup_bytes: member::MAX_CATCHUP_BYTES,
        snapshot_log_bytes: member::MIN_SNAPSHOT_LOG_BYTES,
        memory_limit_bytes,
        max_last_changes_bytes: member::MAX_LAST_CHANGES_BYTES,
        quota_bytes: quota_bytes(config),
        store_limits: member::StoreLimits::default(),
        queue_limits: member::proposal_queue::QueueLimits::default(),
        max_unapplied_bytes: member::MAX_UNAPPLIED_BYTES,
        membership: MembershipSettings {
            strict: config.cluster.strict_reconfig_check,
            max_learners: config.cluster.max_learners,
            ..MembershipSettings::default()
        },
        scrub: member::ScrubRate::default(),
        hashes_large_compactions: config.corruption_checks.at_compaction.is_some(),
        start: StartMode::New,
    }
}

pub(crate) fn texts(urls: &[Url]) -> Vec<String> {
    urls.iter().map(|url| url.as_str().to_owned()).collect()
}

/// The address that connections to members come from, if the gate `SetMemberLocalAddr` asks for one: as in etcd the
/// first that is advertised to members and is an address of this machine alone, not a name.
pub(crate) fn local_address(config: &ServerConfig) -> Option<IpAddr> {
    if !config.feature_gates.enabled("SetMemberLocalAddr") {
        return None;
    }
    let advertised = config.urls.initial_advertise_peer.iter().filter(|url| !url.scheme().is_unix());
    let address = advertised
        .filter_map(|url| url.host().trim_matches(['[', ']']).parse::<IpAddr>().ok())
        .find(|address| !address.is_loopback() && !address.is_unspecified());
    match address {
        Some(address) => tracing::info!(%address, "connections to members come from this address"),
        None => tracing::warn!(
            "no URL of --initial-advertise-peer-urls has an address for connections to members"
        ),
    }
    address
}

/// A random number other than 0.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds each of these from the system's entropy.
    std::hash::RandomState::new().build_hasher().finish().max(1)
}

/// Signed tokens with their keys, if the flags ask for them.
///
/// # Errors
/// Keys that cannot be used.
pub(crate) fn signed_tokens(config: &ServerConfig) -> Result<Option<Arc<JwtTokens>>, JwtKeyError> {
    match &config.auth.token {
        TokenKind::Simple => Ok(None),
        TokenKind::Jwt(options) => JwtTokens::load(options).map(|tokens| Some(Arc::new(tokens))),
    }
}

/// What exports spans of calls, if the flags ask for them.
///
/// # Errors
/// When the system refuses its thread.
pub(crate) fn tracer(
    config: &ServerConfig,
    handoff: &Handoff,
    metrics: &Metrics,
) -> std::io::Result<Option<Arc<Tracer>>> {
    let start = |settings: &TracingSettings| {
        tracing::info!(
            address = settings.address,
            service_name = settings.service_name,
            instance_id = settings.instance_id,
            sampling_rate = settings.sampling_per_million,
            "distributed tracing enabled"
        );
        Tracer::start(settings.clone(), handoff.epoch(), &metrics.own).map(Arc::new)
    };
    config.tracing.as_ref().map(start).transpose()
}

/// The member as the services see it.
pub(crate) fn node(
    config: &ServerConfig,
    opened: &OpenedMember,
    handoff: &Handoff,
    metrics: &Arc<Metrics>,
    (process_run, live, reloads, tracer): (u64, &Arc<LiveSettings>, ReloadRequests, Option<Arc<Tracer>>),
    jwt: Option<Arc<JwtTokens>>,
) -> Node {
    let Identity { cluster_id, member_id, .. } = opened.identity;
    let election_ms = config.cluster.election_timeout.as_millis() as i64;
    Node {
        cluster_id,
        member_id,
        reader: opened.reader.clone(),
        values: opened.values.clone(),
        log: opened.log.clone(),
        hub: opened.hub.clone(),
        status: opened.status.clone(),
        metrics: metrics.clone(),
        times: RequestTimes::new(metrics),
        limits: ServiceLimits {
            // etcd's rule: one and a half elections, rounded up to seconds.
            min_lease_ttl: (3 * election_ms / 2 + 999) / 1000,
            progress_interval: config.watch_progress_notify_interval,
            has_priorities: config.feature_gates.enabled("PriorityRequest"),
        },
        live: live.clone(),
        handoff: handoff.clone(),
        lease_ids: LeaseIds::starting_at(member_id, process_run),
        admission: LargeRequests::default(),
        large_ranges: LargeRanges::default(),
        clients: ClientAccounts::default(),
        backups: Backups::default(),
        passwords: Passwords::new(config.auth.bcrypt_cost),
        tokens: SimpleTokens::new(config.auth.token_ttl),
        jwt,
        is_disputed: Arc::default(),
        tracer,
        reloads,
    }
}

#[cfg(test)]
mod tests {
    //! From which address members are dialled, and what is drawn for each run of the process.
    use super::*;
    use crate::config::{Parsed, parse};

    #[test]
    fn what_clients_must_not_know_is_drawn_for_each_run() {
        let Ok(Parsed::Run(config)) = parse(std::iter::once("stele".into()), std::iter::empty()) else {
            panic!("good flags");
        };
        let drawn = || {
            let member = member_config(&config, 0);
            [member.seed, member.process_run, member.incarnation]
        };
        let (one, other) = (drawn(), drawn());
        let mut all = [one, other].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 6, "{one:?} and {other:?}");
    }

    #[test]
    fn members_are_dialled_from_the_first_address_that_is_no_name_and_not_local() {
        let address = |urls: &str, gate: &str| {
            let line = [
                "stele".to_owned(),
                format!("--initial-advertise-peer-urls={urls}"),
                format!("--initial-cluster=default={}", urls.replace(',', ",default=")),
                format!("--feature-gates=SetMemberLocalAddr={gate}"),
            ];
            let Ok(Parsed::Run(config)) = parse(line.into_iter().map(Into::into), std::iter::empty()) else {
                panic!("good flags");
            };
            local_address(&config).map(|address| address.to_string())
        };
        let urls =
            "http://m1.example:2380,http://127.0.0.1:2380,http://[2001:db8::1]:2380,http://10.0.0.1:2380";
        assert_eq!(address(urls, "true"), Some("10.0.0.1".to_owned()), "URLs are in order");
        assert_eq!(address("http://[2001:db8::1]:2380", "true"), Some("2001:db8::1".to_owned()));
        assert_eq!(address(urls, "false"), None);
        assert_eq!(address("http://m1.example:2380", "true"), None);
    }
}
