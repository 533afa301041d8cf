//! `--backup-url`: the member that leads copies the cluster into an archive, as it goes on.
//!
//! The crate `archive` decides what is copied when, and writes it. It runs on a thread of its own, `stele-backup`, so
//! that neither a slow store nor encryption holds up a client. All members are given the same flags; when another one
//! leads, it goes on where the archive ends.

mod source;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use archive::{
    Archive, ArchiveError, BackupFollower, FollowSettings, FollowStatus, SecretKey, wall_clock_ms,
};

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
        let mut age = ArchiveAge::new(wall_clock_ms(), self.settings.interval);
        loop {
            while !leads(node) {
                node.metrics.own.backup.lag_seconds.set(0.0);
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            tracing::info!(url = self.url, "this member leads and backs up the cluster");
            age.leads();
            let status = FollowStatus::default();
            tokio::select! {
                never = self.copy(node, &status) => match never {},
                () = show_while_leading(node, &status, &mut age) => {
                    tracing::info!("another member leads: it backs up the cluster");
                }
            }
        }
    }

    /// Copies the cluster; after a failure that does not pass by itself, again after a pause.
    async fn copy(&self, node: &Arc<Node>, status: &FollowStatus) -> Infallible {
        let source = MemberSource::new(node.clone());
        loop {
            let follower = BackupFollower::new(&self.archive, &source, self.settings.clone(), status);
            if let Err(error) = follower.run().await {
                tracing::error!(%error, url = self.url, retry_seconds = FAILURE_PAUSE.as_secs(), "the backup failed");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }
}

fn leads(node: &Node) -> bool {
    node.status.leader() == node.member_id
}

/// Shows what a backup does, in the log and in the metrics, as long as this member leads.
async fn show_while_leading(node: &Node, status: &FollowStatus, age: &mut ArchiveAge) {
    let metrics = &node.metrics.own.backup;
    let mut shown = ShownTotals::default();
    while leads(node) {
        show_news(status);
        shown.update(status, metrics);
        let lag_ms = age.update(status.covered_ms(), wall_clock_ms());
        metrics.lag_seconds.set(lag_ms as f64 / 1_000.0);
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

/// The age of the archive, as far as this process knows it. It outlives changes of the leader and failures of the copy,
/// so that the age rises for as long as nothing is copied. All times are milliseconds since 1970.
///
/// ```text
/// a member leads      the archive is read: all up to 18:30:00      age since 18:30:00
/// it leads again      the store cannot be reached for an interval  age since 18:30:00, or since the process began
/// ```
struct ArchiveAge {
    /// Until when the archive is known to have everything; at first, when the process began.
    covered_ms: u64,
    /// Since when this member leads and does not know how old the archive is.
    unknown_since_ms: Option<u64>,
    /// Time that a new leader has to read from the archive how old it is: another member may have written it.
    interval_ms: u64,
}

impl ArchiveAge {
    fn new(began_ms: u64, interval: Duration) -> ArchiveAge {
        ArchiveAge {
            covered_ms: began_ms,
            unknown_since_ms: None,
            interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// This member leads from now on. Another one may have copied everything meanwhile.
    fn leads(&mut self) {
        self.unknown_since_ms = None;
    }

    /// Takes until when the archive has everything, 0 if this leader has not read it yet, and returns its age.
    fn update(&mut self, covered_ms: u64, now_ms: u64) -> u64 {
        if covered_ms > 0 {
            // The archive may be older than what this process knew of it: it can be emptied.
            (self.covered_ms, self.unknown_since_ms) = (covered_ms, None);
            return now_ms.saturating_sub(covered_ms);
        }
        let unknown_ms = now_ms.saturating_sub(*self.unknown_since_ms.get_or_insert(now_ms));
        if unknown_ms <= self.interval_ms { unknown_ms } else { now_ms.saturating_sub(self.covered_ms) }
    }
}

/// What the metrics show already of one backup.
#[derive(Default)]
struct ShownTotals {
    bytes: u64,
    log_objects: u64,
    bases: u64,
    failures: u64,
}

impl ShownTotals {
    fn update(&mut self, status: &FollowStatus, metrics: &BackupMetrics) {
        let add = |shown: &mut u64, now: u64, counter: &prometheus::IntCounter| {
            counter.inc_by(now.saturating_sub(*shown));
            *shown = now;
        };
        add(&mut self.bytes, status.bytes(), &metrics.bytes);
        add(&mut self.log_objects, status.log_objects(), &metrics.log_objects);
        add(&mut self.bases, status.bases(), &metrics.bases);
        add(&mut self.failures, status.failures(), &metrics.failures);
        metrics.revision.set(status.revision() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_rises_until_something_is_copied() {
        let mut age = ArchiveAge::new(1_000, Duration::from_secs(10));
        // The archive cannot be read: first it may only take a moment.
        assert_eq!(age.update(0, 5_000), 0);
        assert_eq!(age.update(0, 15_000), 10_000);
        assert_eq!(age.update(0, 15_001), 14_001, "since the process began");
        assert_eq!(age.update(0, 60_000), 59_000);
        // It has all up to then, by another member.
        assert_eq!(age.update(58_000, 61_000), 3_000);
        // Another leader, and this one again.
        assert_eq!(age.update(0, 100_000), 0);
        assert_eq!(age.update(0, 120_000), 62_000);
        // Once more, before it has read the archive: what the other one has copied is not known.
        age.leads();
        assert_eq!(age.update(0, 200_000), 0);
        assert_eq!(age.update(0, 210_000), 10_000);
        assert_eq!(age.update(0, 210_001), 152_001);
        assert_eq!(age.update(119_500, 120_000), 500);
    }
}
