//! The systems that are measured, and clusters of them: processes with etcd's flags, on free ports, in a
//! fresh folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::access::Access;
use super::{metrics, processes};
use crate::command::{self, Outcome};

/// How long a member may take until it serves, with a million keys and on a slow disk.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// How often a member is asked whether it serves: the error of a restart's time.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// How long one question may take.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// How much of a log is shown when a member does not start.
const LOG_LINES: usize = 20;

/// A binary to measure.
pub(crate) struct System {
    /// What its figures stand under: in a comparison `a` or `b`.
    pub(crate) name: &'static str,
    /// What it says it is.
    pub(crate) version: String,
    binary: PathBuf,
}

impl System {
    pub(crate) fn new(name: &'static str, binary: &Path) -> Result<Self, String> {
        let binary =
            binary.canonicalize().map_err(|error| format!("cannot find {}: {error}", binary.display()))?;
        Ok(Self { name, version: version(&binary)?, binary })
    }

    /// The binary itself.
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }
}

/// How a leader ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LeaderEnd {
    /// As by `kill -9`.
    Killed,
    /// Asked to stop.
    Stopped,
}

/// Where and how members run.
pub(crate) struct Site {
    /// Each cluster makes a folder of its own in it.
    pub(crate) folder: PathBuf,
    /// Most files that a member may have open; `None` is what this process may.
    pub(crate) open_files: Option<u64>,
    /// The one core on which members run; `None` is all of them.
    pub(crate) core: Option<usize>,
    /// Flags besides those that every cluster needs.
    pub(crate) flags: Vec<String>,
    /// How clients reach the members.
    pub(crate) access: Access,
    /// Where etcd's tools and the load generators are.
    pub(crate) tools: PathBuf,
}

/// A cluster; its processes and data are gone when it is dropped.
pub(crate) struct Cluster {
    members: Vec<Member>,
    access: Access,
    folder: TempDir,
}

struct Member {
    binary: PathBuf,
    flags: Vec<String>,
    open_files: Option<u64>,
    core: Option<usize>,
    data: PathBuf,
    client: SocketAddr,
    /// Where it answers over HTTP in the clear: where clients do, unless they must speak TLS.
    observed: SocketAddr,
    log: PathBuf,
    child: Option<Child>,
}

impl Cluster {
    /// Starts `count` members on fresh data and waits until each serves.
    pub(crate) fn start(system: &System, count: usize, site: &Site) -> Result<Self, String> {
        let mut cluster = Self::new(system, count, site)?;
        cluster.restart()?;
        site.access.make_users(&site.tools, cluster.folder(), &cluster.endpoints())?;
        Ok(cluster)
    }

    /// A cluster of `count` members that do not run yet; their data folders exist and are empty.
    pub(crate) fn new(system: &System, count: usize, site: &Site) -> Result<Self, String> {
        let folder = TempDir::with_prefix_in("measure-", &site.folder)
            .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
        site.access.prepare(&site.tools, folder.path())?;
        let addresses = free_addresses(3 * count)?;
        let (clients, rest) = addresses.split_at(count);
        let (peers, observed) = rest.split_at(count);
        let pairs = peers.iter().enumerate().map(|(number, peer)| format!("m{number}=http://{peer}"));
        let peers_flag = pairs.collect::<Vec<_>>().join(",");
        let data = |number: usize| folder.path().join(format!("m{number}"));
        let member = |number: usize| Member {
            binary: system.binary.clone(),
            flags: [
                flags(number, &data(number), peers[number], &peers_flag),
                client_flags(site.access, clients[number], observed[number]),
                site.access.member_flags(folder.path()),
                site.flags.clone(),
            ]
            .concat(),
            open_files: site.open_files,
            core: site.core,
            data: data(number),
            client: clients[number],
            observed: if site.access.is_secure { observed[number] } else { clients[number] },
            log: folder.path().join(format!("m{number}.log")),
            child: None,
        };
        let members: Vec<Member> = (0..count).map(member).collect();
        for member in &members {
            // As both systems want it: no other user reads the data.
            let made = fs::DirBuilder::new().mode(0o700).create(&member.data);
            made.map_err(|error| format!("cannot create {}: {error}", member.data.display()))?;
        }
        Ok(Self { members, access: site.access, folder })
    }

    /// The client URLs, separated by commas.
    pub(crate) fn endpoints(&self) -> String {
        let scheme = self.access.scheme();
        let urls: Vec<String> =
            self.members.iter().map(|member| format!("{scheme}://{}", member.client)).collect();
        urls.join(",")
    }

    /// The flags of a client that is to reach the cluster: endpoints, certificates, a user.
    pub(crate) fn reach(&self) -> Vec<String> {
        let mut flags = self.access.client_flags(self.folder());
        flags.push(format!("--endpoints={}", self.endpoints()));
        flags
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| member.child.as_ref().map(Child::id)).collect()
    }

    /// Where the members keep their data and logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where each member keeps its data.
    pub(crate) fn data_folders(&self) -> Vec<PathBuf> {
        self.members.iter().map(|member| member.data.clone()).collect()
    }

    /// Bytes on the disk of all members' data, without logs.
    pub(crate) fn disk(&self) -> u64 {
        self.members.iter().map(|member| processes::disk(&member.data)).sum()
    }

    /// A metric of each member.
    pub(crate) fn metric(&self, family: &str) -> Result<Vec<f64>, String> {
        self.members.iter().map(|member| member.metric(family)).collect()
    }

    /// The end of the log of a member that has ended by itself; `None` while all run.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.members.iter_mut().find_map(Member::ended)
    }

    /// Kills every member.
    pub(crate) fn kill(&mut self) {
        self.members.iter_mut().for_each(Member::kill);
    }

    /// Ends the member that leads, and waits until its process is gone.
    pub(crate) fn end_leader(&mut self, how: LeaderEnd) -> Result<(), String> {
        let leads = self.metric("etcd_server_is_leader")?;
        let leader = self.members.iter_mut().zip(leads).find(|(_, leads)| *leads > 0.0);
        let (leader, _) = leader.ok_or("no member leads")?;
        if let LeaderEnd::Stopped = how {
            leader.ask_to_stop()?;
            leader.wait_for_end()?;
        }
        leader.kill();
        Ok(())
    }

    /// Asks every member to stop, all at once, and waits until their processes are gone.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.members.iter().try_for_each(Member::ask_to_stop)?;
        self.members.iter_mut().try_for_each(Member::wait_for_end)
    }

    /// Kills every member that runs, starts all again, and returns how long it took until all serve.
    pub(crate) fn restart(&mut self) -> Result<Duration, String> {
        self.kill();
        let begin = Instant::now();
        self.members.iter_mut().try_for_each(Member::spawn)?;
        self.members.iter_mut().try_for_each(Member::wait_until_ready)?;
        Ok(begin.elapsed())
    }

    /// Makes the data of members that did not run yet, by a command of `utl`.
    pub(crate) fn restore(&self, command: &[&str], from: &Path) -> Outcome {
        const SHARED: [&str; 4] =
            ["--name=", "--data-dir=", "--initial-advertise-peer-urls=", "--initial-cluster="];
        self.members.iter().try_for_each(|member| {
            let flags = member.flags.iter().filter(|flag| SHARED.iter().any(|name| flag.starts_with(name)));
            let mut restore = Command::new(&member.binary);
            command::output(restore.arg("utl").args(command).arg(from).args(flags))?;
            Ok(())
        })
    }

    /// Kills the last member, starts it again, and returns how long it took until it serves.
    pub(crate) fn restart_member(&mut self) -> Result<Duration, String> {
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
        // Each of these runs the next in its own process, whose id is thus the member's.
        let mut words = on_core(self.core);
        if let Some(most) = self.open_files {
            words.extend(["prlimit".to_owned(), format!("--nofile={most}:{most}")].map(OsString::from));
        }
        words.push(self.binary.clone().into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(&self.flags).stdin(Stdio::null());
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

    fn ask_to_stop(&self) -> Result<(), String> {
        let Some(child) = &self.child else { return Ok(()) };
        command::output(Command::new("kill").args(["-TERM", &child.id().to_string()])).map(drop)
    }

    /// Waits until the process, which was asked to, has ended.
    ///
    /// # Errors
    /// It takes too long, or ended as if it had failed.
    fn wait_for_end(&mut self) -> Result<(), String> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let begin = Instant::now();
        let how = loop {
            match child.try_wait().map_err(|error| format!("cannot wait for a member: {error}"))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => break status.to_string(),
                None if begin.elapsed() > READY_LIMIT => break "not within two minutes".to_owned(),
                None => thread::sleep(POLL_INTERVAL),
            }
        };
        Err(format!("a member that was asked to stop did not stop cleanly ({how}):\n{}", self.log_end()))
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        while !self.is_ready() {
            if let Some(ended) = self.ended() {
                return Err(ended);
            }
            if begin.elapsed() > READY_LIMIT {
                return Err(format!("{} does not serve:\n{}", self.binary.display(), self.log_end()));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// How it ended, and the end of its log; `None` while it runs.
    fn ended(&mut self) -> Option<String> {
        let status = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())?;
        Some(format!("{} has ended ({status}):\n{}", self.binary.display(), self.log_end()))
    }

    fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn metric(&self, family: &str) -> Result<f64, String> {
        let text =
            self.ask("/metrics").map_err(|error| format!("cannot read a member's metrics: {error}"))?;
        metrics::value(&text, family)
    }

    /// Asks `/health`, which is a linearizable read.
    fn is_ready(&self) -> bool {
        self.ask("/health").is_ok_and(|answer| answer.contains(r#""health":"true""#))
    }

    /// What it answers to a GET of `path`, headers included.
    fn ask(&self, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.observed, ASK_LIMIT)?;
        stream.set_read_timeout(Some(ASK_LIMIT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.observed)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// The words before a command line that runs on one core.
pub(crate) fn on_core(core: Option<usize>) -> Vec<OsString> {
    let words = |core: usize| ["taskset".to_owned(), "--cpu-list".to_owned(), core.to_string()];
    core.map(words).into_iter().flatten().map(OsString::from).collect()
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn flags(number: usize, data: &Path, peer: SocketAddr, peers: &str) -> Vec<String> {
    vec![
        format!("--name=m{number}"),
        format!("--data-dir={}", data.display()),
        format!("--listen-peer-urls=http://{peer}"),
        format!("--initial-advertise-peer-urls=http://{peer}"),
        format!("--initial-cluster={peers}"),
    ]
}

/// Where clients are served. Behind TLS another port is needed that can be asked whether the member serves.
fn client_flags(access: Access, client: SocketAddr, observed: SocketAddr) -> Vec<String> {
    let scheme = access.scheme();
    let urls = ["listen", "advertise"].map(|what| format!("--{what}-client-urls={scheme}://{client}"));
    let observed = access.is_secure.then(|| format!("--listen-metrics-urls=http://{observed}"));
    urls.into_iter().chain(observed).collect()
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
