//! The rows: what is measured and what is promised about it, as data.

use super::bench::{Bench, RowFigures};
use super::beside::{Beside, Request};
use super::keys::{Keys, Names, Restart, restart};
use super::overwrites::Overwrites;
use super::streams::{self, Leases};
use super::{backup, full_disk, large, overload};

/// One row of the table, with one or more figures.
pub(super) struct ScaleRow {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    workload: Workload,
}

#[derive(Clone, Copy)]
enum Workload {
    Overwrites(Overwrites),
    Beside(Beside),
    Leases(Leases),
    Keys(Keys),
    FullDisk,
    /// So many events.
    SecondWatch(u64),
    /// Beside so many watchers.
    Scrape(u64),
    Large,
    Backup,
    BackupBeside,
    Restored,
    ArchiveRestored,
    Overload,
    RestartCluster,
}

impl ScaleRow {
    /// Runs it on fresh data.
    pub(super) fn run(&self, bench: &Bench) -> RowFigures {
        match self.workload {
            Workload::Overwrites(row) => row.run(bench),
            Workload::Beside(row) => row.run(bench),
            Workload::Leases(row) => row.run(bench),
            Workload::Keys(row) => row.run(bench),
            Workload::FullDisk => full_disk::run(bench),
            Workload::SecondWatch(events) => streams::second_watch(bench, events),
            Workload::Scrape(watchers) => streams::scrape(bench, watchers),
            Workload::Large => large::run(bench),
            Workload::Backup => backup::large(bench),
            Workload::BackupBeside => backup::beside(bench),
            Workload::Restored => backup::restored(bench),
            Workload::ArchiveRestored => backup::restored_archive(bench),
            Workload::Overload => overload::run(bench),
            Workload::RestartCluster => restart::run(bench),
        }
    }
}

const fn row(name: &'static str, title: &'static str, workload: Workload) -> ScaleRow {
    ScaleRow { name, title, workload }
}

const fn beside(request: Request, count: u64, worst: Option<f64>) -> Workload {
    Workload::Beside(Beside { request, count, worst })
}

/// Keys that each transaction of `compare-txns` compares: with the one that all of them put, and one for the compare,
/// still no more than a transaction may (100,000).
const COMPARED_KEYS: u64 = 99_990;

/// All rows, in the order in which they run.
pub(super) const ROWS: &[ScaleRow] = &[
    row(
        "overwrites-1m",
        "8 M random overwrites of 1 M keys x 1 KB, compacted every 4 s",
        Workload::Overwrites(Overwrites {
            keys: 1_000_000,
            value_bytes: 1024,
            puts: 8_000_000,
            running: 2.1,
            rested: 1.4,
            throughput: Some(0.85),
        }),
    ),
    row(
        "overwrites-10m",
        "30 M random overwrites of 10 M keys x 256 B, compacted every 4 s",
        Workload::Overwrites(Overwrites {
            keys: 10_000_000,
            value_bytes: 256,
            puts: 30_000_000,
            running: 2.5,
            rested: 1.7,
            throughput: None,
        }),
    ),
    row("delete-1m", "puts beside a delete of 1 M keys", beside(Request::Delete, 1_000_000, Some(1.0))),
    row("delete-4m", "puts beside a delete of 4 M keys", beside(Request::Delete, 4_000_000, None)),
    row(
        "expire-100k",
        "puts beside 100,000 leases that expire",
        beside(Request::Expire, 100_000, Some(0.25)),
    ),
    row(
        "nested-txn",
        "puts beside 42 x 42 x 42 nested ranges over 2,000 keys",
        beside(Request::Txn, 2_000, Some(0.25)),
    ),
    row(
        "compare-txns",
        "puts beside 1,000 transactions that compare 99,990 keys each",
        beside(Request::Compares, COMPARED_KEYS, Some(0.25)),
    ),
    row("backup-8g", "a backup of 8 M keys x 1 KB", Workload::Backup),
    row("restore-8g", "the first start of a member restored from 8 M keys x 1 KB", Workload::Restored),
    row("restore-archive-10g", "a restore of an archive of 9 GB and 1 GB of log", Workload::ArchiveRestored),
    row("backup-beside", "puts beside backups of 1 M keys x 1 KB", Workload::BackupBeside),
    row("list-1m", "puts beside lists of 1 M keys", beside(Request::List, 1_000_000, Some(0.25))),
    row(
        "leases-10k",
        "10,000 leases of 5 s kept alive by one client",
        Workload::Leases(Leases { leases: 10_000, clients: 1, ttl_seconds: 5, hold_seconds: 20 }),
    ),
    row(
        "leases-100k",
        "100,000 leases of 60 s kept alive by ten clients",
        Workload::Leases(Leases { leases: 100_000, clients: 10, ttl_seconds: 60, hold_seconds: 150 }),
    ),
    row(
        "keys-10m",
        "10 M keys of 8 bytes x 256 B, and a restart",
        Workload::Keys(Keys {
            names: Names::Short,
            keys: 10_000_000,
            value_bytes: 256,
            key_bytes: 70.0,
            restart: Some(Restart { seconds: 2.0, resident: 1.0, peak: 1.2 }),
        }),
    ),
    row(
        "keys-kubernetes",
        "1 M keys of 70 bytes as Kubernetes names them x 1 KB",
        Workload::Keys(Keys {
            names: Names::Kubernetes,
            keys: 1_000_000,
            value_bytes: 1024,
            key_bytes: 110.0,
            restart: None,
        }),
    ),
    row("restart-1m", "restarts of three members with 1 M keys x 256 B", Workload::RestartCluster),
    row("full-disk", "a lone member on a full file system of 700 MB", Workload::FullDisk),
    row(
        "watch-second",
        "a second watch of a stream beside one that catches up over 300,000 events",
        Workload::SecondWatch(300_000),
    ),
    row("scrape-10k", "scrapes of the metrics beside 10,000 watchers", Workload::Scrape(10_000)),
    row("overload", "puts at twice the peak over 10,000 connections for ten minutes", Workload::Overload),
    row("large-40g", "40 GB of 10 KB values, 1,024 open files", Workload::Large),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
