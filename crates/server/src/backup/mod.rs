//! `--backup-url`: the member that leads copies the cluster into an archive, as it goes on.
//!
//! The crate `archive` decides what is copied when, and writes it. It runs on a thread of its own, `stele-backup`, so that
//! neither a slow store nor encryption holds up a client. All members are given the same flags; when another one leads,
//! it goes on where the archive ends.

mod source;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use archive::{Archive, ArchiveError, FollowSettings, FollowStatus, Follower, SecretKey};

use crate::config::BackupSettings;
use crate::metrics::BackupMetrics;
use crate::node::Node;
use source::MemberSource;

/// Time between two looks at who leads, and two changes of the metrics.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Pause after a failure that does not pass by itself: an operator changes something meanwhile.
const FAILURE_PAUSE: Duration = Duration::from_secs(30);

/// A backup that can begin.
pub(crate) struct PreparedBackup {
    archive: Archive,
    url: String,
    settings: FollowSettings,
}

impl PreparedBackup {
    /// Reads the key, and opens the archive as far as that needs no network.
    ///
    /// # Errors
    /// The key or the address is wrong, or the directory cannot be opened.
    pub(crate) fn new(settings: &BackupSettings) -> Result<PreparedBackup, ArchiveError> {
        let key = settings.key_file.as_deref().map(SecretKey::read).transpose()?;
        let archive = Archive::open(&settings.url, key, true)?;
        let BackupSettings { interval, base_interval, keep, .. } = *settings;
        let follow = FollowSettings { interval, base_interval, keep, once: false };
        Ok(PreparedBackup { archive, url: settings.url.clone(), settings: follow })
    }

    /// Runs it until the process ends.
    ///
    /// # Errors
    /// The system refuses a thread or a runtime.
    pub(crate) fn start(self, node: Arc<Node>) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if !self.archive.is_encrypted() {
            tracing::warn!(
                url = self.url,
                "the backup is not encrypted, and holds all values and the hashes of passwords: see \
                 --backup-encryption-key-file"
            );
        }
        let named = std::thread::Builder::new().name("stele-backup".to_owned());
        named.spawn(move || runtime.block_on(self.run(&node))).map(drop)
    }

    async fn run(&self, node: &Arc<Node>) -> Infallible {
        loop {
            while !leads(node) {
                node.metrics.own.backup.lag_seconds.set(0.0);
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            tracing::info!(url = self.url, "this member leads and backs up the cluster");
            let (source, status) = (MemberSource::new(node.clone()), FollowStatus::default());
            let follower = Follower::new(&self.archive, &source, self.settings.clone(), &status);
            tokio::select! {
                end = follower.run() => if let Err(error) = end {
                    show_news(&status);
                    tracing::error!(%error, url = self.url, "the backup cannot go on");
                    node.metrics.own.backup.failures.inc();
                    tokio::time::sleep(FAILURE_PAUSE).await;
                },
                () = show_while_leading(node, &status) => {
                    tracing::info!("another member leads: it backs up the cluster");
                }
            }
        }
    }
}

fn leads(node: &Node) -> bool {
    node.status.leader() == node.member_id
}

/// Shows what a backup does, in the log and in the metrics, as long as this member leads.
async fn show_while_leading(node: &Node, status: &FollowStatus) {
    let metrics = &node.metrics.own.backup;
    let mut shown = ShownTotals { since_ms: wall_clock_ms(), ..ShownTotals::default() };
    while leads(node) {
        show_news(status);
        shown.update(status, metrics, wall_clock_ms());
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn show_news(status: &FollowStatus) {
    for news in status.take_news() {
        match news.strip_prefix("warning: ") {
            Some(warning) => tracing::warn!(backup = warning, "backup"),
            None => tracing::info!(backup = news, "backup"),
        }
    }
}

/// What the metrics show already of one backup.
#[derive(Default)]
struct ShownTotals {
    since_ms: u64,
    bytes: u64,
    log_objects: u64,
    bases: u64,
    failures: u64,
}

impl ShownTotals {
    fn update(&mut self, status: &FollowStatus, metrics: &BackupMetrics, now_ms: u64) {
        let add = |shown: &mut u64, now: u64, counter: &prometheus::IntCounter| {
            counter.inc_by(now.saturating_sub(*shown));
            *shown = now;
        };
        add(&mut self.bytes, status.bytes(), &metrics.bytes);
        add(&mut self.log_objects, status.log_objects(), &metrics.log_objects);
        add(&mut self.bases, status.bases(), &metrics.bases);
        add(&mut self.failures, status.failures(), &metrics.failures);
        let covered_ms = status.covered_ms().max(self.since_ms);
        metrics.lag_seconds.set(now_ms.saturating_sub(covered_ms) as f64 / 1_000.0);
        metrics.revision.set(status.revision() as f64);
    }
}

fn wall_clock_ms() -> u64 {
    // Before 1970 there were no backups.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
