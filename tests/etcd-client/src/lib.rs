//! Runs a server for a test: one fresh member on free ports, gone when the test ends.
//!
//! The binary is the one that `STELE_BIN` names; anything that takes etcd's flags will do, so that a test can
//! be proved against etcd itself.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_client::{Client, Error};
use tempfile::TempDir;

/// How long a start may take on a busy machine before the test gives up.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How often a starting server is asked; it only decides how soon a test continues.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running member.
pub struct Server {
    child: Child,
    log: PathBuf,
    /// The address clients use, as a URL.
    pub url: String,
    /// Removed with the server.
    _folder: TempDir,
}

impl Server {
    /// Starts a fresh member and waits until it answers a linearizable read.
    ///
    /// # Panics
    ///
    /// When there is no server to start, or it does not become ready; with the end of its log.
    pub async fn start() -> Self {
        let binary = std::env::var_os("STELE_BIN").expect("STELE_BIN names the server to test");
        let folder = TempDir::with_prefix("stele-etcd-client-").expect("a temporary folder");
        let [client, peer] = free_ports().map(|port| format!("http://127.0.0.1:{port}"));
        let log = folder.path().join("log");
        let output = File::create(&log).expect("a log file in the temporary folder");
        let mut command = Command::new(&binary);
        command.args(flags(folder.path(), &client, &peer)).stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a second handle")).stderr(output);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {binary:?}: {error}"));
        let mut server = Self { child, log, url: client, _folder: folder };
        server.wait_until_ready().await;
        server
    }

    /// A client with a connection of its own.
    ///
    /// # Panics
    ///
    /// When the server cannot be reached.
    pub async fn client(&self) -> Client {
        Client::connect([&self.url], None).await.expect("the server was ready")
    }

    async fn wait_until_ready(&mut self) {
        let begin = Instant::now();
        while let Err(error) = self.ask().await {
            let ended = self.child.try_wait().expect("a child of ours");
            if ended.is_some() || begin.elapsed() > START_LIMIT {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                panic!("the server is not ready ({error}; exit: {ended:?}); its log:\n{log}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn ask(&self) -> Result<(), Error> {
        let mut client = Client::connect([&self.url], None).await?;
        client.get("ready?", None).await.map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn flags(folder: &Path, client: &str, peer: &str) -> Vec<String> {
    vec![
        "--name=m1".to_owned(),
        format!("--data-dir={}", folder.join("data").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=m1={peer}"),
    ]
}

/// Two ports that were free a moment ago; both are held until both are known, so they differ.
fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("a bound listener").port())
}
