//! From flags to a running member and back: open, connect, serve, drain.
//!
//! | file | step |
//! |---|---|
//! | `scoped_threads.rs` | lets the data directory be read on all cores |
//! | `descriptors.rs` | raises the limit of open files and divides it |
//! | `describe.rs` | what the flags mean to the member and to the services |
//! | `join.rs` | asks the members of a running cluster which one this is |
//! | `memory.rs` | how much memory data may take |
//! | `listen.rs` | opens the sockets |
//! | `connection_cap.rs` | how many connections may be open |
//! | `serve.rs` | accepts connections and gives each to the protocol it speaks |
//! | `observed.rs` | what health checks and metrics read |

mod connection_cap;
mod describe;
mod descriptors;
mod join;
mod listen;
mod memory;
mod observed;
mod scoped_threads;
mod serve;

use std::io::Write;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use member::{Input, OpenedMember, StartMode};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use transport::{PeerIdentity, Peers};

use crate::auto_compaction;
use crate::config::{ClusterState, Note, Parsed, ServerConfig, Url};
use crate::grpc::ConnectionSettings;
use crate::http;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::peers::{IncomingSnapshots, MembershipGate, PeerEdge, PeerInbound};
use crate::raft_loop::{Handoff, LoopEnd};
use crate::rpc::{Dispatch, RpcWorkers};

use connection_cap::ConnectionCap;
use describe::texts;
use descriptors::DescriptorShares;
use join::JoinedCluster;
use listen::Listener;
use observed::Observed;
use scoped_threads::ScopedThreads;
use serve::ClientPort;

/// Time that open connections have to end at a shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Time in which a leader that stops tries to transfer leadership first: an election without a transfer would be over.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between two checks whether the member has been published.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Why the server could not start, or had to stop.
type ServerError = Box<dyn std::error::Error + Send + Sync>;

/// Runs the command line to its end.
pub fn main() -> ExitCode {
    let config = match crate::config::parse(std::env::args_os(), std::env::vars_os()) {
        Ok(Parsed::Print(text)) => {
            // A reader that closed its end early (`| head`) is no failure.
            let _ = writeln!(std::io::stdout(), "{text}");
            return ExitCode::SUCCESS;
        }
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
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "cannot go on");
            ExitCode::FAILURE
        }
    }
}

fn run(config: ServerConfig) -> Result<(), ServerError> {
    config.notes.iter().for_each(log_note);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(serve_member(config));
    runtime.shutdown_timeout(DRAIN_TIMEOUT);
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

/// Opens the data directory, or creates it, and logs what was found. Also returns the random number of this run of the
/// process.
async fn open_member(
    config: &ServerConfig,
    descriptors: DescriptorShares,
) -> Result<(OpenedMember, u64), ServerError> {
    let memory = memory::limit(config.limits.memory_limit_bytes, &memory::read_file);
    tracing::info!(limit_bytes = memory.bytes, because = memory.reason, "chose the memory limit");
    let mut member_config = describe::member_config(config, memory.bytes);
    let process_run = member_config.process_run;
    let options = log::Options {
        wal_dir: config.wal_dir.clone(),
        open_files: descriptors.value_files,
        ..log::Options::new(config.data_dir.clone())
    };
    let disk: Arc<dyn log::Disk> = Arc::new(log::RealDisk);
    match log::Log::exists(disk.as_ref(), &options)? {
        true if config.cluster.force_new_cluster => member_config.start = StartMode::ForceNewCluster,
        true => {}
        false => {
            config.validate_bootstrap()?;
            if config.cluster.state == ClusterState::Existing {
                let JoinedCluster { cluster_id, member_id, members } = join::ask_members(config).await?;
                member_config = member::MemberConfig {
                    cluster_id,
                    member_id,
                    initial_cluster: members,
                    start: StartMode::Join,
                    ..member_config
                };
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
        data_dir = %config.data_dir.display(),
        revision = opened.reader.current_revision(),
        keys = opened.reader.counts().keys,
        checkpoint_index = opened.loading.checkpoint_index,
        checkpoint_bytes = opened.loading.checkpoint_bytes,
        replayed_entries = opened.loading.replayed_entries,
        took = format!("{:?}", began.elapsed()),
        "opened the member"
    );
    Ok((opened, process_run))
}

async fn serve_member(config: ServerConfig) -> Result<(), ServerError> {
    let count = RpcWorkers::count_for(std::thread::available_parallelism().map_or(1, NonZero::get));
    let descriptors = share_descriptors(count)?;
    let (opened, process_run) = open_member(&config, descriptors).await?;
    let metrics = Arc::new(Metrics::new(&config.feature_gates, config.observing.extensive_metrics)?);
    let stop = CancellationToken::new();
    let handoff = Handoff::new(count, metrics.clone());
    handoff.serve_shared();
    let workers = Arc::new(RpcWorkers::start(count, &handoff)?);
    let node = Arc::new(describe::node(&config, &opened, &handoff, &metrics, process_run));
    let (peers, inbound) = connect(&opened, &node);
    let (announce, ready) = watch::channel(false);
    let caps = ConnectionCaps::new(descriptors, &metrics);
    let listening = open_ports(&config, &node, &peers, &workers, &caps, &ready, &stop)?;

    let edge = PeerEdge::new(peers, inbound, handoff.clone(), node.reader.clone(), node.member_id);
    let slow_apply = config.observing.warning_apply_duration;
    let mut end = handoff.start(opened.member, edge, metrics, slow_apply)?;
    tokio::spawn(announce_ready(node.clone(), config.clone(), announce));
    if let Some(policy) = config.auto_compaction {
        tokio::spawn(auto_compaction::run(node.clone(), policy));
    }

    let result = tokio::select! {
        () = signalled() => {
            tracing::info!("received a signal; shutting down");
            transfer_leadership(&node).await;
            handoff.submit(Input::Stop);
            stop.cancel();
            wait_end(&mut end).await
        }
        result = wait_end(&mut end) => {
            stop.cancel();
            result
        }
    };
    let drained = async {
        join_all(listening).await;
        workers.drained().await;
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
    tracing::info!("stopped");
    result
}

/// Raises the limit of open files and divides it. Must come before anything that opens many.
fn share_descriptors(workers: usize) -> Result<DescriptorShares, ServerError> {
    let (limit, raised) = descriptors::raise_limit();
    if let Err(error) = raised {
        tracing::warn!(%error, limit, "cannot raise the limit of open files");
    }
    let shares = DescriptorShares::of(limit, workers)?;
    tracing::info!(
        limit = shares.limit,
        value_files = shares.value_files,
        client_connections = shares.clients,
        "divided the files that this process may open"
    );
    Ok(shares)
}

/// How many connections each kind of listener may have open, all listeners of a kind together.
struct ConnectionCaps {
    clients: ConnectionCap,
    observers: ConnectionCap,
}

impl ConnectionCaps {
    fn new(shares: DescriptorShares, metrics: &Metrics) -> ConnectionCaps {
        let cap = |kind, max| {
            let refused = metrics.events.refused_connections.with_label_values(&[kind]);
            ConnectionCap::new(kind, max, refused)
        };
        ConnectionCaps {
            clients: cap("client", shares.clients),
            observers: cap("observer", shares.observers),
        }
    }
}

async fn wait_end(end: &mut LoopEnd) -> Result<(), ServerError> {
    let ended = end.wait_for(Option::is_some).await;
    match ended.ok().and_then(|ended| ended.clone()) {
        Some(Ok(())) => Ok(()),
        Some(Err(fatal)) => Err(fatal.into()),
        None => Err("the raft loop exited without a result".into()),
    }
}

async fn join_all(tasks: Vec<tokio::task::JoinHandle<()>>) {
    for task in tasks {
        let _ = task.await;
    }
}

async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// A leader that stops transfers leadership first, so that the cluster need not wait for an election.
async fn transfer_leadership(node: &Node) {
    if node.status.leader() == node.member_id {
        let moved = tokio::time::timeout(TRANSFER_TIMEOUT, node.give_up_leadership()).await;
        let leader = format!("{:x}", node.status.leader());
        tracing::info!(ok = matches!(moved, Ok(Ok(()))), leader, "leadership transfer before shutdown");
    }
}

/// Prepares the connections to the other members. The raft loop tells which they are.
fn connect(opened: &OpenedMember, node: &Arc<Node>) -> (Arc<Peers>, Arc<PeerInbound>) {
    let log::Identity { cluster_id, member_id, incarnation } = opened.identity;
    let local = PeerIdentity { cluster_id, member_id, incarnation };
    let wiped = |refusal: &transport::Refusal| {
        tracing::error!(reason = %refusal, "the cluster refuses this member");
        std::process::exit(1);
    };
    let inbound = Arc::new(PeerInbound::new(node.handoff.clone(), node.metrics.clone(), wiped));
    let gate = Arc::new(MembershipGate::new(opened.reader.clone()));
    let snapshots = Arc::new(IncomingSnapshots::new(node.clone()));
    let peers = Peers::start(transport::PeersConfig::new(local), gate, inbound.clone(), snapshots);
    (Arc::new(peers), inbound)
}

fn open_ports(
    config: &ServerConfig,
    node: &Arc<Node>,
    peers: &Arc<Peers>,
    workers: &Arc<RpcWorkers>,
    caps: &ConnectionCaps,
    ready: &watch::Receiver<bool>,
    stop: &CancellationToken,
) -> Result<Vec<tokio::task::JoinHandle<()>>, ServerError> {
    let grpc = Dispatch::new(node.clone());
    let settings = ConnectionSettings {
        max_concurrent_streams: config.limits.max_concurrent_streams,
        max_message_bytes: grpc.max_message_bytes(),
        keepalive: config.grpc_keepalive.clone(),
    };
    let endpoints = Observed::endpoints(node, peers);
    let http = http::guard(http::client_router(endpoints.clone()), config.access.clone());
    // As in etcd, HTTP has its own ports or shares those of gRPC.
    let is_shared = config.urls.listen_client_http.is_empty();
    let port = ClientPort { grpc, http: is_shared.then(|| http.clone()) };
    let mut tasks = Vec::new();
    for listener in bind("listen-client-urls", &config.urls.listen_client, config)? {
        let (settings, workers, cap) = (settings.clone(), workers.clone(), caps.clients.clone());
        let serving = serve::clients(listener, port.clone(), settings, workers, cap, stop.clone());
        tasks.push(tokio::spawn(once_ready(ready.clone(), stop.clone(), serving)));
    }
    for listener in bind("listen-peer-urls", &config.urls.listen_peer, config)? {
        let http = http::peer_router(endpoints.clone());
        let serving = serve::peers(listener, peers.clone(), http, caps.observers.clone(), stop.clone());
        tasks.push(tokio::spawn(serving));
    }
    let http_only = [
        (
            "listen-metrics-urls",
            &config.urls.listen_metrics,
            http::metrics_router(endpoints.clone()),
            &caps.observers,
        ),
        ("listen-client-http-urls", &config.urls.listen_client_http, http, &caps.clients),
    ];
    for (flag, urls, router, cap) in http_only {
        for listener in bind(flag, urls, config)? {
            tasks.push(tokio::spawn(serve::http(listener, router.clone(), cap.clone(), stop.clone())));
        }
    }
    Ok(tasks)
}

fn bind(flag: &'static str, urls: &[Url], config: &ServerConfig) -> Result<Vec<Listener>, ServerError> {
    let listeners = listen::bind(flag, urls, config.sockets)?;
    urls.iter().for_each(|url| tracing::info!(flag, address = url.as_str(), "listening"));
    Ok(listeners)
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
    tracing::info!("ready to serve client requests");
}
