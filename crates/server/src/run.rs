//! From flags to a running member and back: open, connect, serve, drain.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use member::identity::{cluster_id, member_id};
use member::{InitialMember, Input, Opened};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use transport::{Identity, Peers};

use crate::config::{Config, Note, Parsed, Url};
use crate::driver::{Clock, Decider, Mailbox};
use crate::http;
use crate::metrics::Metrics;
use crate::node::{LeaseIds, Limits, Node};
use crate::observed::Observed;
use crate::peers::{Arrivals, Membership, NoSnapshots, PeerEdge};
use crate::rpc::Dispatch;
use crate::serve::{self, ClientPort, Settings};

/// How long open connections have to end at a shutdown.
const DRAIN: Duration = Duration::from_secs(3);

/// How long a leader that stops tries to hand over first.
const HAND_OVER: Duration = Duration::from_secs(2);

/// How often it is looked whether the member has been published.
const READY_LOOK: Duration = Duration::from_millis(20);

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Runs the command line to its end.
pub fn main() -> ExitCode {
    let config = match crate::config::parse(std::env::args_os(), std::env::vars_os()) {
        Ok(Parsed::Print(text)) => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Ok(Parsed::Run(config)) => *config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(error.exit_code);
        }
    };
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "cannot go on");
            eprintln!("stele: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: Config) -> Result<(), Failed> {
    crate::logging::init(&config.observing)?;
    config.notes.iter().for_each(tell);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve_member(config));
    runtime.shutdown_timeout(DRAIN);
    result
}

fn tell(note: &Note) {
    let fields = format!("{:?}", note.fields);
    if note.warning {
        tracing::warn!(fields, "{}", note.message);
    } else {
        tracing::info!(fields, "{}", note.message);
    }
}

async fn serve_member(config: Config) -> Result<(), Failed> {
    let member_config = describe_member(&config)?;
    let initial = member_config.initial_cluster.clone();
    let (cluster, id, start) = (member_config.cluster_id, member_config.member_id, member_config.start);
    tracing::info!(
        local_member_id = format!("{id:x}"),
        cluster_id = format!("{cluster:x}"),
        data_dir = %config.data_dir.display(),
        "starting the member"
    );
    let options =
        log::Options { wal_dir: config.wal_dir.clone(), ..log::Options::new(config.data_dir.clone()) };
    let disk: Arc<dyn log::Disk> = Arc::new(log::RealDisk::default());
    let opened = tokio::task::spawn_blocking(move || member::open(&disk, &options, member_config)).await??;
    opened.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));

    let mailbox = Arc::new(Mailbox::default());
    let metrics = Arc::new(Metrics::new(&config.feature_gates, config.observing.extensive_metrics)?);
    let stop = CancellationToken::new();
    let node = Arc::new(node(&config, &opened, &mailbox, &metrics, cluster, id, start));
    let peers = Arc::new(connect(&opened, &initial, &mailbox, cluster, id)?);
    let listening = listen(&config, &node, &peers, &stop).await?;

    let decider = Decider {
        member: opened.member,
        mailbox: mailbox.clone(),
        clock: Clock::start(),
        edge: PeerEdge { peers, member_id: id },
        metrics,
    };
    let (ended, mut end) = watch::channel(None);
    std::thread::Builder::new().name("stele-decide".to_owned()).spawn(move || {
        let _ = ended.send(Some(decider.run().map_err(|fatal| fatal.to_string())));
    })?;
    tokio::spawn(announce_ready(node.clone(), config.clone()));

    let result = tokio::select! {
        () = signalled() => {
            tracing::info!("received a signal; shutting down");
            hand_over(&node).await;
            mailbox.send(Input::Stop);
            stop.cancel();
            wait_end(&mut end).await
        }
        result = wait_end(&mut end) => result,
    };
    let _ = tokio::time::timeout(DRAIN, futures_all(listening)).await;
    tracing::info!("stopped");
    result
}

async fn wait_end(end: &mut watch::Receiver<Option<Result<(), String>>>) -> Result<(), Failed> {
    let ended = end.wait_for(Option::is_some).await;
    match ended.ok().and_then(|ended| ended.clone()) {
        Some(Ok(())) => Ok(()),
        Some(Err(fatal)) => Err(fatal.into()),
        None => Err("the deciding thread ended without a word".into()),
    }
}

async fn futures_all(tasks: Vec<tokio::task::JoinHandle<()>>) {
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

/// A leader that stops hands over, so that the others need not wait for an election.
async fn hand_over(node: &Node) {
    let heir =
        node.reader.members().into_iter().find(|member| member.id != node.member_id && !member.learner);
    if let Some(heir) = heir.filter(|_| node.status.leader() == node.member_id) {
        let moved = tokio::time::timeout(HAND_OVER, node.move_leader(heir.id)).await;
        tracing::info!(
            ok = matches!(moved, Ok(Ok(()))),
            to = format!("{:x}", heir.id),
            "handed leadership over"
        );
    }
}

/// The member that the flags describe.
fn describe_member(config: &Config) -> Result<member::Config, Failed> {
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
    let own = initial_cluster.iter().find(|member| member.name == config.name);
    let own = own.ok_or_else(|| {
        format!("couldn't find local name {:?} in the initial cluster configuration", config.name)
    })?;
    let tick = config.cluster.heartbeat_interval;
    let storage = &config.storage;
    let checkpoint_commands = if storage.snapshot_count_is_explicit {
        storage.snapshot_count
    } else {
        member::DEFAULT_CHECKPOINT_COMMANDS
    };
    Ok(member::Config {
        cluster_id: cluster_id(&ids),
        member_id: own.id,
        incarnation: random(),
        start: random(),
        seed: random(),
        name: config.name.clone(),
        client_urls: texts(&config.urls.advertise_client),
        initial_cluster,
        tick_ns: tick.as_nanos() as u64,
        election_ticks: (config.cluster.election_timeout.as_millis() / tick.as_millis().max(1)) as u32,
        pre_vote: config.cluster.pre_vote,
        checkpoint_commands,
        quota_bytes: u64::try_from(config.limits.quota_backend_bytes).unwrap_or(0),
        slow_apply_ns: config.observing.warning_apply_duration.as_nanos() as u64,
    })
}

fn texts(urls: &[Url]) -> Vec<String> {
    urls.iter().map(|url| url.as_str().to_owned()).collect()
}

/// A random number other than 0.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds each of these from the system's entropy.
    std::hash::RandomState::new().build_hasher().finish().max(1)
}

fn node(
    config: &Config,
    opened: &Opened,
    mailbox: &Arc<Mailbox>,
    metrics: &Arc<Metrics>,
    cluster_id: u64,
    member_id: u64,
    start: u64,
) -> Node {
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
        limits: Limits {
            max_request_bytes: config.limits.max_request_bytes as usize,
            max_txn_ops: config.limits.max_txn_ops as usize,
            // etcd's rule: one and a half elections, rounded up to seconds.
            min_lease_ttl: (3 * election_ms / 2 + 999) / 1000,
            quota_bytes: u64::try_from(config.limits.quota_backend_bytes).unwrap_or(0),
            progress_interval: config.watch_progress_notify_interval,
            slow_request: config.observing.warning_unary_request_duration,
        },
        mailbox: mailbox.clone(),
        tokens: AtomicU64::new(1),
        lease_ids: LeaseIds::starting_at(member_id, start),
    }
}

/// Begins to dial the other members.
fn connect(
    opened: &Opened,
    initial: &[InitialMember],
    mailbox: &Arc<Mailbox>,
    cluster_id: u64,
    member_id: u64,
) -> Result<Peers, Failed> {
    let local = Identity { cluster_id, member_id, incarnation: opened.incarnation };
    let wiped = |refusal: &transport::Refusal| {
        tracing::error!(reason = %refusal, "the cluster refuses this member");
        eprintln!("stele: {refusal}");
        std::process::exit(1);
    };
    let arrivals = Arc::new(Arrivals::new(mailbox.clone(), wiped));
    let gate = Arc::new(Membership::new(opened.reader.clone()));
    let peers = Peers::start(transport::Config::new(local), gate, arrivals, Arc::new(NoSnapshots));
    let known: BTreeSet<u64> = opened.reader.members().iter().map(|member| member.id).collect();
    for member in initial.iter().filter(|member| member.id != member_id && known.contains(&member.id)) {
        peers.set(member.id, &member.peer_urls)?;
    }
    Ok(peers)
}

async fn listen(
    config: &Config,
    node: &Arc<Node>,
    peers: &Arc<Peers>,
    stop: &CancellationToken,
) -> Result<Vec<tokio::task::JoinHandle<()>>, Failed> {
    let settings = Settings {
        max_concurrent_streams: config.limits.max_concurrent_streams,
        keepalive: config.grpc_keepalive.clone(),
    };
    let endpoints = Observed::endpoints(node, peers);
    let http = http::guard(http::client_router(endpoints.clone()), config.access.clone());
    let port = ClientPort { grpc: Dispatch::new(node.clone()), http };
    let mut tasks = Vec::new();
    for url in &config.urls.listen_client {
        let listener = tokio::net::TcpListener::bind(url.address()).await?;
        tracing::info!(address = url.as_str(), "listening for clients");
        tasks.push(tokio::spawn(serve::clients(listener, port.clone(), settings.clone(), stop.clone())));
    }
    for url in &config.urls.listen_peer {
        let listener = tokio::net::TcpListener::bind(url.address()).await?;
        tracing::info!(address = url.as_str(), "listening for peers");
        let http = http::peer_router(endpoints.clone());
        let serving = serve::peers(listener, peers.clone(), http, settings.clone(), stop.clone());
        tasks.push(tokio::spawn(serving));
    }
    Ok(tasks)
}

/// Says so when clients are served: the cluster knows this member as it is now.
async fn announce_ready(node: Arc<Node>, config: Config) {
    let urls = texts(&config.urls.advertise_client);
    let known = |node: &Node| {
        node.reader.members().iter().any(|member| member.id == node.member_id && member.client_urls == urls)
    };
    while !known(&node) {
        tokio::time::sleep(READY_LOOK).await;
    }
    tracing::info!("ready to serve client requests");
}
