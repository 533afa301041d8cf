//! The systems that are compared, and clusters of them: processes with etcd's flags, on free ports, in a
//! fresh folder.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{binaries, command};

/// How long a member may take until it serves, with a million keys and on a slow disk.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// How often a member is asked whether it serves: the error of a restart's time.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// How long one question may take.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// How much of a log is shown when a member does not start.
const LOG_LINES: usize = 20;

/// A binary to compare.
pub(super) struct System {
    /// `a` or `b`.
    pub(super) name: &'static str,
    /// What it says it is.
    pub(super) version: String,
    binary: PathBuf,
}

impl System {
    pub(super) fn new(name: &'static str, binary: &Path) -> Result<Self, String> {
        let binary =
            binary.canonicalize().map_err(|error| format!("cannot find {}: {error}", binary.display()))?;
        Ok(Self { name, version: version(&binary)?, binary })
    }
}

/// A running cluster; its processes and data are gone when it is dropped.
pub(super) struct Cluster {
    members: Vec<Member>,
    folder: TempDir,
}

struct Member {
    binary: PathBuf,
    flags: Vec<String>,
    client: SocketAddr,
    log: PathBuf,
    child: Option<Child>,
}

impl Cluster {
    /// Starts `count` members on fresh data and waits until each serves.
    pub(super) fn start(system: &System, count: usize) -> Result<Self, String> {
        // Not the system's temporary folder: where that is memory, a sync costs nothing.
        let folder = TempDir::with_prefix_in("compare-", binaries::target_folder()?)
            .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
        let addresses = free_addresses(2 * count)?;
        let (clients, peers) = addresses.split_at(count);
        let pairs = peers.iter().enumerate().map(|(number, peer)| format!("m{number}=http://{peer}"));
        let peers_flag = pairs.collect::<Vec<_>>().join(",");
        let member = |number: usize| Member {
            binary: system.binary.clone(),
            flags: flags(number, folder.path(), clients[number], peers[number], &peers_flag),
            client: clients[number],
            log: folder.path().join(format!("m{number}.log")),
            child: None,
        };
        let members = (0..count).map(member).collect();
        let mut cluster = Self { members, folder };
        cluster.restart()?;
        Ok(cluster)
    }

    /// The client URLs, separated by commas.
    pub(super) fn endpoints(&self) -> String {
        let urls: Vec<String> =
            self.members.iter().map(|member| format!("http://{}", member.client)).collect();
        urls.join(",")
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| member.child.as_ref().map(Child::id)).collect()
    }

    /// Where the members keep their data and logs.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills every member that runs, starts all again, and returns how long it took until all serve.
    pub(super) fn restart(&mut self) -> Result<Duration, String> {
        self.members.iter_mut().for_each(Member::kill);
        let begin = Instant::now();
        self.members.iter_mut().try_for_each(Member::spawn)?;
        self.members.iter_mut().try_for_each(Member::wait_until_ready)?;
        Ok(begin.elapsed())
    }

    /// Kills the last member, starts it again, and returns how long it took until it serves.
    pub(super) fn restart_member(&mut self) -> Result<Duration, String> {
        let member = self.members.last_mut().ok_or("a cluster has members")?;
        member.kill();
        let begin = Instant::now();
        member.spawn()?;
        member.wait_until_ready()?;
        Ok(begin.elapsed())
    }
}

impl Member {
    fn spawn(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot start {}: {error}", self.binary.display());
        let log = File::options().create(true).append(true).open(&self.log).map_err(failed)?;
        let mut command = Command::new(&self.binary);
        command.args(&self.flags).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(failed)?).stderr(log);
        self.child = Some(command.spawn().map_err(failed)?);
        Ok(())
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself; then there is nothing to end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        while !self.is_ready() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || begin.elapsed() > READY_LIMIT {
                let text = fs::read_to_string(&self.log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
                return Err(format!("{} does not serve (exit: {ended:?}):\n{tail}", self.binary.display()));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Asks `/health`, which is a linearizable read.
    fn is_ready(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&self.client, ASK_LIMIT)?;
            stream.set_read_timeout(Some(ASK_LIMIT))?;
            write!(stream, "GET /health HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.client)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.contains(r#""health":"true""#))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn flags(number: usize, folder: &Path, client: SocketAddr, peer: SocketAddr, peers: &str) -> Vec<String> {
    vec![
        format!("--name=m{number}"),
        format!("--data-dir={}", folder.join(format!("m{number}")).display()),
        format!("--listen-client-urls=http://{client}"),
        format!("--advertise-client-urls=http://{client}"),
        format!("--listen-peer-urls=http://{peer}"),
        format!("--initial-advertise-peer-urls=http://{peer}"),
        format!("--initial-cluster={peers}"),
    ]
}

/// Addresses that were free a moment ago; all are held until all are known, so they differ.
fn free_addresses(count: usize) -> Result<Vec<SocketAddr>, String> {
    let bind = || TcpListener::bind(("127.0.0.1", 0));
    let listeners = (0..count).map(|_| bind()).collect::<Result<Vec<_>, _>>();
    let addresses = listeners.and_then(|all| all.iter().map(TcpListener::local_addr).collect());
    addresses.map_err(|error| format!("cannot find free ports: {error}"))
}

/// The first line that `binary --version` prints.
fn version(binary: &Path) -> Result<String, String> {
    let text = command::output(Command::new(binary).arg("--version"))?;
    Ok(text.lines().next().unwrap_or("").to_owned())
}
