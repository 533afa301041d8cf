//! From flags to a running member and back: open, connect, serve, drain.
//!
//! | file | step |
//! |---|---|
//! | `scoped_threads.rs` | lets the data directory be read on all cores |
//! | `descriptors.rs` | raises the limit of open files and divides it |
//! | `describe.rs` | what the flags mean to the member and to the services |
//! | `discovery` | asks DNS or a discovery service for the first members of a cluster |
//! | `first_start.rs` | asks the other first members whether this one has been started before |
//! | `join` | asks the members of a running cluster which one this is |
//! | `memory.rs` | how much memory data may take |
//! | `listen.rs` | opens the sockets |
//! | `connection_cap.rs` | how many connections may be open |
//! | `sockets.rs` | what a connection is: TCP or a Unix socket, in the clear or with TLS |
//! | `serve` | accepts connections and gives each to the protocol it speaks |
//! | `reload.rs` | reads the configuration again at `SIGHUP`, and when a client asks |
//! | `service_manager.rs` | tells systemd that the member serves, stops, and lives |
//! | `check` | checks the configuration and the data directory for `--check` |
//! | `observed.rs` | what health checks and metrics read |
//! | `shutdown` | ends the calls of clients, then the raft loop |

mod check;
mod connection_cap;
pub(crate) mod describe;
mod descriptors;
mod discovery;
mod first_start;
mod join;
mod listen;
mod memory;
mod observed;
mod reload;
mod scoped_threads;
mod serve;
mod service_manager;
mod shutdown;
mod sockets;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::iter;
use std::net::IpAddr;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use member::{OpenedMember, StartMode};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use transport::{PeerIdentity, PeerTls, Peers, PeersConfig};

use crate::auth::{JwtTokens, KEY_LOOK_INTERVAL};
use crate::backup::PreparedBackup;
use crate::config::{ClusterState, Note, Parsed, ServerConfig, Url};
use crate::corruption;
use crate::directory_mode::warn_unless_private;
use crate::gateway;
use crate::grpc::ConnectionSettings;
use crate::http;
use crate::live_settings::{LiveSettings, ReloadRequests};
use crate::metrics::Metrics;
use crate::node::Node;
use crate::peers::{IncomingSnapshots, MembershipGate, PeerEdge, PeerHttp, PeerInbound};
use crate::raft_loop::{Handoff, report_overdue_writes};
use crate::rpc::{Dispatch, RpcWorkers};
use crate::tls::{Offer, TlsListener, TlsSides};

use connection_cap::{ConnectionCaps, PortCaps};
use describe::texts;
use descriptors::DescriptorShares;
use join::JoinedCluster;
use listen::Listener;
use observed::Observed;
use reload::Reloading;
use scoped_threads::ScopedThreads;
use serve::ClientPort;
use shutdown::{CLOSING_TIMEOUT, EndTokens, ServerError, Serving};
use sockets::{ListenerSecurity, SecureEndpoint};

/// Time between two looks for tokens that have ended; as in etcd.
const TOKEN_EXPIRY_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two checks whether the member has been published.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the command line to its end. `page` makes a text for people of the help page, as wide as the terminal.
pub fn main(page: impl FnOnce(&str) -> String) -> ExitCode {
    let config = match crate::config::parse(std::env::args_os(), std::env::vars_os()) {
        Ok(Parsed::Print(text)) => {
            // A reader that closed its end early (`| head`) is no failure.
            let _ = writeln!(std::io::stdout(), "{}", page(&text));
            return ExitCode::SUCCESS;
        }
        Ok(Parsed::Check(config)) => return check::main(*config),
        Ok(Parsed::Run(config)) => *config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(error.exit_code);
        }
    };
    if let Err(error) = crate::logging::init(&config.observing) {
        eprintln!("stele: {error}");
        return ExitCode::FAILURE;
    }
    let ended = run(config);
    if let Err(error) = &ended {
        tracing::error!(%error, "member failed");
    }
    crate::logging::flush();
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Time that a report of a panic may take: twice that of the log, since what prints it may wait too.
pub const PANIC_REPORT_TIMEOUT: Duration = crate::logging::FLUSH_TIMEOUT.saturating_mul(2);

/// Logs a panic, which ends the process: the standard error, where panics are printed, may not be among the outputs.
pub fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(location, reason = panic.payload_as_str(), "panicked; the process ends");
    crate::logging::flush();
}

fn run(config: ServerConfig) -> Result<(), ServerError> {
    config.notes.iter().for_each(log_note);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(serve_member(config));
    runtime.shutdown_timeout(CLOSING_TIMEOUT);
    result
}

fn log_note(note: &Note) {
    let fields = format!("{:?}", note.fields);
    if note.warning {
        tracing::warn!(fields, "{}", note.message);
    } else {
        tracing::info!(fields, "{}", note.message);
    }
}

/// The member of a data directory.
struct Found {
    opened: OpenedMember,
    /// The random number of this run of the process.
    process_run: u64,
    /// Whether the directory had data before.
    has_data: bool,
}

/// Opens the data directory, or creates it, and logs what was found.
async fn open_member(
    config: &ServerConfig,
    tls: &TlsSides,
    descriptors: DescriptorShares,
) -> Result<Found, ServerError> {
    let memory = memory::limit(config.limits.memory_limit_bytes, &memory::read_file);
    tracing::info!(limit_bytes = memory.bytes, because = memory.reason, "chose the memory limit");
    let options = log::Options {
        wal_dir: config.wal_dir.clone(),
        open_files: descriptors.value_files,
        ..log::Options::new(config.data_dir.clone())
    };
    iter::once(&config.data_dir).chain(&config.wal_dir).for_each(|dir| warn_unless_private(dir));
    let disk: Arc<dyn log::Disk> = Arc::new(log::RealDisk);
    let has_data = log::Log::has_checkpoint(disk.as_ref(), &options)?;
    // A member that has data knows its cluster.
    let config = &if has_data { config.clone() } else { discovery::complete(config).await? };
    let mut member_config = describe::member_config(config, memory.bytes);
    let process_run = member_config.process_run;
    match has_data {
        true if config.cluster.force_new_cluster => member_config.start = StartMode::ForceNewCluster,
        true => {}
        false => {
            config.validate_bootstrap()?;
            let peers = PeerHttp::new(tls.peers());
            if config.cluster.state == ClusterState::Existing {
                let JoinedCluster { cluster_id, lineage, member_id, members, .. } =
                    join::ask_members(config, &peers).await?;
                member_config = member::MemberConfig {
                    cluster_id,
                    member_id,
                    initial_cluster: members,
                    start: StartMode::Join { lineage },
                    ..member_config
                };
            } else {
                let own = (member_config.cluster_id, member_config.member_id);
                first_start::check(config, own, &peers).await?;
            }
        }
    }
    let began = Instant::now();
    let opened =
        tokio::task::spawn_blocking(move || member::open(&disk, &options, member_config, &ScopedThreads))
            .await??;
    opened.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    tracing::info!(
        local_member_id = format!("{:x}", opened.identity.member_id),
        cluster_id = format!("{:x}", opened.identity.cluster_id),
        lineage = format!("{:x}", opened.reader.lineage()),
        data_dir = %config.data_dir.display(),
        revision = opened.reader.current_revision(),
        keys = opened.reader.counts().keys,
        checkpoint_index = opened.loading.checkpoint_index,
        checkpoint_bytes = opened.loading.checkpoint_bytes,
        replayed_entries = opened.loading.replayed_entries,
        took = format!("{:?}", began.elapsed()),
        "opened the member"
    );
    Ok(Found { opened, process_run, has_data })
}

async fn serve_member(config: ServerConfig) -> Result<(), ServerError> {
    let hangup = reload::hangup()?;
    let count = RpcWorkers::count_for(std::thread::available_parallelism().map_or(1, NonZero::get));
    let descriptors = descriptors::share(count)?;
    let tls = TlsSides::load(&config)?;
    let jwt = describe::signed_tokens(&config)?;
    let backup = config.backup.as_ref().map(PreparedBackup::new).transpose()?;
    let Found { opened, process_run, has_data } = open_member(&config, &tls, descriptors).await?;
    let metrics = Arc::new(Metrics::new(&config.feature_gates, config.observing.extensive_metrics)?);
    let ending = EndTokens::default();
    let handoff = Handoff::new(count, metrics.clone());
    handoff.serve_shared();
    let workers = Arc::new(RpcWorkers::start(count, &handoff)?);
    let live = Arc::new(LiveSettings::new(&config));
    let (reloads, reload_asks) = ReloadRequests::new();
    let tracer = describe::tracer(&config, &handoff, &metrics)?;
    let parts = (process_run, &live, reloads, tracer.clone());
    let node = Arc::new(describe::node(&config, &opened, &handoff, &metrics, parts, jwt));
    if has_data && config.corruption_checks.initial {
        corruption::check_at_start(&node, PeerHttp::new(tls.peers()), &config.corruption_checks).await?;
    }
    let (peers, inbound) = connect(&opened, &node, &tls, describe::local_address(&config), &ending);
    let (announce, ready) = watch::channel(false);
    let caps = ConnectionCaps::new(descriptors, &metrics.events.refused_connections);
    let ports = open_ports(&config, &tls, &node, &peers, &workers, &caps, &ready, &ending)?;

    let own = (node.member_id, ending.removed.clone());
    let edge = PeerEdge::new(peers, inbound, handoff.clone(), node.reader.clone(), own);
    let mut end = handoff.start(opened.member, edge, metrics, live)?;
    tokio::spawn(announce_ready(node.clone(), config.clone(), announce));
    tokio::spawn(expire_tokens(node.clone()));
    node.jwt.iter().for_each(|jwt| drop(tokio::spawn(follow_key_files(jwt.clone()))));
    tokio::spawn(report_overdue_writes(node.metrics.clone()));
    corruption::start(&node, PeerHttp::new(tls.peers()), &config.corruption_checks);
    backup.map_or(Ok(()), |backup| backup.start(node.clone()))?;
    tokio::spawn(Reloading::new(config, node.clone()).run(hangup, reload_asks));
    tokio::spawn(service_manager::watch(node.clone()));

    let result = Serving { node, workers, ports, ending }.until_ended(&mut end).await;
    tracer.iter().for_each(|tracer| tracer.flush());
    tracing::info!("stopped");
    result
}

/// Before the first token that was ever assigned.
const FIRST_TOKEN: store::TokenPosition = (0, [0; 32]);

/// Ends tokens that were not used for long.
async fn expire_tokens(node: Arc<Node>) {
    let mut interval = tokio::time::interval(TOKEN_EXPIRY_INTERVAL);
    loop {
        interval.tick().await;
        let (now_s, ttl_s) = node.tokens.now_and_ttl_s();
        let mut next = Some(FIRST_TOKEN);
        while let Some(from) = next {
            next = node.reader.expire_tokens(from, now_s, ttl_s);
            tokio::task::yield_now().await;
        }
    }
}

/// Follows the files of the keys of signed tokens. No call waits for the files, whatever they lie on.
async fn follow_key_files(jwt: Arc<JwtTokens>) {
    loop {
        tokio::time::sleep(KEY_LOOK_INTERVAL).await;
        let jwt = jwt.clone();
        let looked = tokio::task::spawn_blocking(move || jwt.follow_files(Instant::now()));
        if looked.await.is_err() {
            // The runtime ends.
            return;
        }
    }
}

/// Prepares the connections to the other members. The raft loop tells which they are.
fn connect(
    opened: &OpenedMember,
    node: &Arc<Node>,
    tls: &TlsSides,
    local_address: Option<IpAddr>,
    ending: &EndTokens,
) -> (Arc<Peers>, Arc<PeerInbound>) {
    let log::Identity { cluster_id, member_id, incarnation } = opened.identity;
    let cluster_id = member::identity::peer_cluster_id(cluster_id, opened.reader.lineage());
    let local = PeerIdentity { cluster_id, member_id, incarnation };
    let (reader, refused) = (opened.reader.clone(), ending.refused.clone());
    let wiped = move |refusal: &transport::Refusal| {
        // A member that has applied its removal stays only as long as the others may need it.
        if reader.was_removed(member_id) {
            return refused.cancel();
        }
        tracing::error!(reason = %refusal, "the cluster refuses this member");
        crate::logging::flush();
        std::process::exit(1);
    };
    let inbound = Arc::new(PeerInbound::new(
        node.handoff.clone(),
        node.metrics.clone(),
        node.is_disputed.clone(),
        wiped,
    ));
    let gate = Arc::new(MembershipGate::new(opened.reader.clone()));
    let snapshots = Arc::new(IncomingSnapshots::new(node.clone()));
    let tls = tls.peers().map(|source| source as Arc<dyn PeerTls>);
    let config = PeersConfig { tls, local_address, ..PeersConfig::new(local) };
    let peers = Peers::start(config, gate, inbound.clone(), snapshots);
    (Arc::new(peers), inbound)
}

#[expect(clippy::too_many_arguments, reason = "it ties together everything that was made before")]
fn open_ports(
    config: &ServerConfig,
    tls: &TlsSides,
    node: &Arc<Node>,
    peers: &Arc<Peers>,
    workers: &Arc<RpcWorkers>,
    caps: &ConnectionCaps,
    ready: &watch::Receiver<bool>,
    ending: &EndTokens,
) -> Result<Vec<tokio::task::JoinHandle<()>>, ServerError> {
    let dispatch = Dispatch::new(node.clone());
    let settings = ConnectionSettings {
        memory: node.status.client_memory().clone(),
        max_concurrent_streams: node.live.max_concurrent_streams(),
        keepalive: config.grpc_keepalive.clone(),
    };
    let endpoints = Observed::endpoints(node, peers, &config.data_dir);
    let live = node.live.clone();
    let mut client_http = http::client_router(endpoints.clone());
    if config.observing.profiles {
        client_http = client_http.merge(http::profile_routes(endpoints.clone()));
        tracing::info!(path = "/debug/pprof", "pprof is enabled");
    }
    if config.grpc_gateway {
        client_http = client_http.merge(gateway::routes());
    }
    let http = http::guard(client_http, move || live.access());
    // As in etcd, HTTP has its own ports or shares those of gRPC.
    let is_shared = config.urls.listen_client_http.is_empty();
    let certificates_name_users = config.security.client.client_cert_auth;
    let http_port = ClientPort { dispatch, has_grpc: false, http: Some(http), certificates_name_users };
    let shared_http = http_port.http.clone().filter(|_| is_shared);
    let port = ClientPort { has_grpc: true, http: shared_http, ..http_port.clone() };
    let clients = |bound: Port, offer, port: &ClientPort| {
        let (settings, workers, cap) = (settings.clone(), workers.clone(), caps.clients.connections.clone());
        let security = bound.security(&caps.clients, tls.for_clients(offer));
        serve::clients(bound.listener, security, port.clone(), settings, workers, cap, ending.clients.clone())
    };
    let mut tasks = Vec::new();
    let offer = if is_shared { Offer::AnyHttp } else { Offer::Grpc };
    for bound in bind("listen-client-urls", &config.urls.listen_client, config)? {
        let serving = clients(bound, offer, &port);
        tasks.push(tokio::spawn(once_ready(ready.clone(), ending.clients.clone(), serving)));
    }
    for bound in bind("listen-client-http-urls", &config.urls.listen_client_http, config)? {
        let serving = clients(bound, Offer::AnyHttp, &http_port);
        tasks.push(tokio::spawn(once_ready(ready.clone(), ending.clients.clone(), serving)));
    }
    let secure_peers = tls.for_peers();
    for bound in bind("listen-peer-urls", &config.urls.listen_peer, config)? {
        let http = http::peer_router(endpoints.clone());
        let security = bound.security(&caps.peers, secure_peers.clone());
        let (peers, cap) = (peers.clone(), (caps.peers.connections.clone(), caps.peer_http.clone()));
        let serving = serve::peers(bound.listener, security, peers, http, cap, ending.others.clone());
        tasks.push(tokio::spawn(serving));
    }
    let secure_observers = tls.for_clients(Offer::AnyHttp);
    for bound in bind("listen-metrics-urls", &config.urls.listen_metrics, config)? {
        let router = http::metrics_router(endpoints.clone());
        let security = bound.security(&caps.observers, secure_observers.clone());
        let cap = caps.observers.connections.clone();
        let stop = ending.others.clone();
        let serving = serve::http(bound.listener, security, router, settings.clone(), cap, stop);
        tasks.push(tokio::spawn(serving));
    }
    Ok(tasks)
}

/// A listener, and the kinds of the URLs on its address.
struct Port {
    listener: Listener,
    has_plain: bool,
    has_secure: bool,
}

impl Port {
    /// Which connections it takes.
    fn security(&self, caps: &PortCaps, tls: Option<Arc<TlsListener>>) -> ListenerSecurity {
        let endpoint = |tls| SecureEndpoint { tls, handshakes: caps.handshakes.clone() };
        ListenerSecurity::new(self.has_plain, tls.filter(|_| self.has_secure).map(endpoint))
    }
}

/// Binds each address once, whether it is in a URL in the clear, in a secure one, or in both.
fn bind(flag: &'static str, urls: &[Url], config: &ServerConfig) -> Result<Vec<Port>, ServerError> {
    let mut addresses: Vec<Url> = Vec::new();
    for url in urls {
        if !addresses.iter().any(|known| known.is_at_address_of(url)) {
            addresses.push(url.clone());
        }
    }
    let listeners = listen::bind(flag, &addresses, config.sockets)?;
    urls.iter().for_each(|url| tracing::info!(flag, address = url.as_str(), "listening"));
    let has = |address: &Url, is_secure: bool| {
        urls.iter().any(|url| url.scheme().is_secure() == is_secure && url.is_at_address_of(address))
    };
    let port = |(listener, address)| Port {
        listener,
        has_plain: has(address, false),
        has_secure: has(address, true),
    };
    Ok(listeners.into_iter().zip(&addresses).map(port).collect())
}

/// Accepts clients once this member's state shows its client URLs; until then they wait in the backlog. As in etcd, an
/// unpublished member is not listed. After a restart with the same flags the replayed state shows them at once, before
/// a leader is known.
async fn once_ready(
    mut ready: watch::Receiver<bool>,
    stop: CancellationToken,
    serving: impl Future<Output = ()>,
) {
    let announced = async { ready.wait_for(|is_ready| *is_ready).await.is_ok() };
    if stop.run_until_cancelled(announced).await == Some(true) {
        serving.await;
    }
}

/// Waits until the local state shows this member's client URLs (its name is not compared), then the listeners that wait
/// accept clients.
async fn announce_ready(node: Arc<Node>, config: ServerConfig, announce: watch::Sender<bool>) {
    let urls = texts(&config.urls.advertise_client);
    let is_listed = |node: &Node| {
        node.reader.members().iter().any(|member| member.id == node.member_id && member.client_urls == urls)
    };
    while !is_listed(&node) {
        tokio::time::sleep(READY_CHECK_INTERVAL).await;
    }
    let _ = announce.send(true);
    service_manager::ready();
    tracing::info!("ready to serve client requests");
}
