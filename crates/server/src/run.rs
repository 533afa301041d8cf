//! From flags to a running member and back: open, connect, serve, drain.

use std::io::Write;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use member::{Input, Opened};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use transport::{PeerIdentity, Peers};

use crate::compactor;
use crate::config::{Config, Note, Parsed, Url};
use crate::describe::{self, texts};
use crate::driver::{Clock, Decider, Desks, LogDesk, Mailbox};
use crate::grpc::Settings;
use crate::http;
use crate::listen::{self, Listener};
use crate::metrics::Metrics;
use crate::node::Node;
use crate::notices::Notices;
use crate::observed::Observed;
use crate::peers::{Arrivals, Membership, PeerEdge};
use crate::rpc::Dispatch;
use crate::serve::{self, ClientPort};
use crate::snapshots::Arriving;
use crate::workers::Workers;

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
            // A reader that has seen enough (`| head`) is no failure.
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

fn run(config: Config) -> Result<(), Failed> {
    config.notes.iter().for_each(tell);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
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

/// Opens the data directory, or makes it; says what was found. Also returns the number of this run of the process.
async fn open_member(config: &Config) -> Result<(Opened, u64), Failed> {
    let member_config = describe::member_config(config);
    let start = member_config.start;
    let options =
        log::Options { wal_dir: config.wal_dir.clone(), ..log::Options::new(config.data_dir.clone()) };
    let disk: Arc<dyn log::Disk> = Arc::new(log::RealDisk);
    if !log::Log::exists(disk.as_ref(), &options)? {
        config.validate_bootstrap()?;
    }
    let began = Instant::now();
    let opened = tokio::task::spawn_blocking(move || member::open(&disk, &options, member_config)).await??;
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
    Ok((opened, start))
}

/// How the deciding thread ended, once it has.
type Ended = watch::Receiver<Option<Result<(), String>>>;

fn start_deciding(decider: Decider<PeerEdge>, desks: Arc<Desks>) -> std::io::Result<Ended> {
    let (ended, end) = watch::channel(None);
    std::thread::Builder::new().name("stele-raft".to_owned()).spawn(move || {
        let result = decider.run();
        desks.close();
        let _ = ended.send(Some(result.map_err(|fatal| fatal.to_string())));
    })?;
    Ok(end)
}

async fn serve_member(config: Config) -> Result<(), Failed> {
    let (opened, start) = open_member(&config).await?;
    let mailbox = Arc::new(Mailbox::default());
    let metrics = Arc::new(Metrics::new(&config.feature_gates, config.observing.extensive_metrics)?);
    let stop = CancellationToken::new();
    let count = std::thread::available_parallelism().map_or(1, NonZero::get);
    let desks = Arc::new(Desks::new(count, mailbox.clone()));
    desks.run_first();
    let workers = Arc::new(Workers::start(count, &desks)?);
    let node = Arc::new(describe::node(&config, &opened, &mailbox, &desks, &metrics, start));
    let log = Arc::new(LogDesk::new(mailbox.clone(), metrics.clone()));
    let peers = Arc::new(connect(&opened, &mailbox, &log, &node)?);
    let (known, ready) = watch::channel(false);
    let listening = open_ports(&config, &node, &peers, &workers, &ready, &stop)?;

    let decider = Decider {
        member: opened.member,
        mailbox: mailbox.clone(),
        desks: desks.clone(),
        log,
        clock: Clock::start(),
        edge: PeerEdge {
            peers,
            mailbox: mailbox.clone(),
            reader: node.reader.clone(),
            notices: Notices::new(node.member_id),
        },
        metrics,
        slow_apply: config.observing.warning_apply_duration,
    };
    let mut end = start_deciding(decider, desks)?;
    tokio::spawn(announce_ready(node.clone(), config.clone(), known));
    if let Some(policy) = config.auto_compaction {
        tokio::spawn(compactor::run(node.clone(), policy));
    }

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
    let drained = async {
        join_all(listening).await;
        workers.drained().await;
    };
    let _ = tokio::time::timeout(DRAIN, drained).await;
    tracing::info!("stopped");
    result
}

async fn wait_end(end: &mut Ended) -> Result<(), Failed> {
    let ended = end.wait_for(Option::is_some).await;
    match ended.ok().and_then(|ended| ended.clone()) {
        Some(Ok(())) => Ok(()),
        Some(Err(fatal)) => Err(fatal.into()),
        None => Err("the deciding thread ended without a word".into()),
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

/// Begins to dial the other members.
fn connect(
    opened: &Opened,
    mailbox: &Arc<Mailbox>,
    log: &Arc<LogDesk>,
    node: &Arc<Node>,
) -> Result<Peers, Failed> {
    let log::Identity { cluster_id, member_id, incarnation } = opened.identity;
    let local = PeerIdentity { cluster_id, member_id, incarnation };
    let wiped = |refusal: &transport::Refusal| {
        tracing::error!(reason = %refusal, "the cluster refuses this member");
        std::process::exit(1);
    };
    let arrivals = Arc::new(Arrivals::new(mailbox.clone(), log.clone(), node.metrics.clone(), wiped));
    let gate = Arc::new(Membership::new(opened.reader.clone()));
    let snapshots = Arc::new(Arriving::new(node.clone()));
    let peers = Peers::start(transport::PeersConfig::new(local), gate, arrivals, snapshots);
    for member in opened.reader.members().iter().filter(|member| member.id != member_id) {
        peers.set(member.id, &member.peer_urls)?;
    }
    Ok(peers)
}

fn open_ports(
    config: &Config,
    node: &Arc<Node>,
    peers: &Arc<Peers>,
    workers: &Arc<Workers>,
    ready: &watch::Receiver<bool>,
    stop: &CancellationToken,
) -> Result<Vec<tokio::task::JoinHandle<()>>, Failed> {
    let grpc = Dispatch::new(node.clone());
    let settings = Settings {
        max_concurrent_streams: config.limits.max_concurrent_streams,
        max_message_bytes: grpc.max_message_bytes(),
        keepalive: config.grpc_keepalive.clone(),
    };
    let endpoints = Observed::endpoints(node, peers);
    let http = http::guard(http::client_router(endpoints.clone()), config.access.clone());
    let port = ClientPort { grpc, http };
    let mut tasks = Vec::new();
    for listener in bind("listen-client-urls", &config.urls.listen_client, config)? {
        let serving = serve::clients(listener, port.clone(), settings.clone(), workers.clone(), stop.clone());
        tasks.push(tokio::spawn(once_ready(ready.clone(), stop.clone(), serving)));
    }
    for listener in bind("listen-peer-urls", &config.urls.listen_peer, config)? {
        let http = http::peer_router(endpoints.clone());
        let serving = serve::peers(listener, peers.clone(), http, stop.clone());
        tasks.push(tokio::spawn(serving));
    }
    let http_only = [
        ("listen-metrics-urls", &config.urls.listen_metrics, http::metrics_router(endpoints.clone())),
        ("listen-client-http-urls", &config.urls.listen_client_http, port.http.clone()),
    ];
    for (flag, urls, router) in http_only {
        for listener in bind(flag, urls, config)? {
            tasks.push(tokio::spawn(serve::http(listener, router.clone(), stop.clone())));
        }
    }
    Ok(tasks)
}

fn bind(flag: &'static str, urls: &[Url], config: &Config) -> Result<Vec<Listener>, Failed> {
    let listeners = listen::bind(flag, urls, config.sockets)?;
    urls.iter().for_each(|url| tracing::info!(flag, address = url.as_str(), "listening"));
    Ok(listeners)
}

/// Serves clients from when the cluster knows this member as it is now; until then they wait to be accepted. As with
/// etcd, nobody is told of a member without a name.
async fn once_ready(
    mut ready: watch::Receiver<bool>,
    stop: CancellationToken,
    serving: impl Future<Output = ()>,
) {
    let known = async { ready.wait_for(|known| *known).await.is_ok() };
    if stop.run_until_cancelled(known).await == Some(true) {
        serving.await;
    }
}

/// Lets clients in, and says so, when the cluster knows this member as it is now.
async fn announce_ready(node: Arc<Node>, config: Config, ready: watch::Sender<bool>) {
    let urls = texts(&config.urls.advertise_client);
    let known = |node: &Node| {
        node.reader.members().iter().any(|member| member.id == node.member_id && member.client_urls == urls)
    };
    while !known(&node) {
        tokio::time::sleep(READY_LOOK).await;
    }
    let _ = ready.send(true);
    tracing::info!("ready to serve client requests");
}
