//! Backups, as `etcdctl snapshot save` takes them: how fast, with how much memory, what puts notice of them, and how
//! soon a member serves what was restored; and how fast a large archive is restored, beside the rate of its disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::bench::{Bench, RowFigures, told};
use super::promise::{Promise, RowFigure};
use crate::command;
use crate::measure::cluster::Cluster;
use crate::measure::generator::Load;

/// Bytes of each value.
const VALUE_BYTES: u64 = 1024;

/// Keys of the large backup: 8 GB.
const KEYS: u64 = 8_000_000;

/// Keys of the backups beside puts, which are taken again and again.
const KEYS_BESIDE: u64 = 1_000_000;

/// The promises: a part of the rate at which one core reads and hashes; memory in MB; p99 as a part of that without.
const PART_OF_HASHING: f64 = 0.5;
const MEMORY_MB: f64 = 100.0;
const SLOWER: f64 = 2.0;

/// The promise of a restored member: seconds from its start until it answers.
const START_SECONDS: f64 = 3.0;

/// Keys of the base: 9 GB.
const ARCHIVED_KEYS: u64 = 8_800_000;

/// Puts whose entries follow it: 1 GB of log.
const ARCHIVED_PUTS: u64 = 1_000_000;

/// Puts a second: a member keeps 256 MiB of entries that a copy has not read.
const PUT_RATE: u64 = 10_000;

/// Time that the first copy of the state may take.
const BASE_TIMEOUT: Duration = Duration::from_secs(1800);

/// One backup of a lone member with much data, into nothing.
pub(super) fn large(bench: &Bench) -> RowFigures {
    let keys = bench.scaled(KEYS);
    let mut cluster = bench.start(1)?;
    let filled = bench.drive_all(&mut cluster, Load::fill(keys, VALUE_BYTES))?;
    let before = told(filled.resident_mb, "memory")?;
    let hashing = hash_rate(&cluster)?;
    let taken = bench.drive_all(&mut cluster, Load::ours("snapshot --total=1"))?;
    let seconds = told(taken.p50_ms, "latency")? / 1000.0;
    let rate = (keys * VALUE_BYTES) as f64 / 1e6 / seconds;
    let memory = told(taken.peak_mb, "peak")? - before;
    let part = "part of the rate of hashing";
    Ok(vec![
        RowFigure::promised(part, rate / hashing, "", Promise::AtLeast(PART_OF_HASHING)),
        RowFigure::at_most("memory besides, peak", memory, "MB", MEMORY_MB),
        RowFigure::new("time", seconds, "s"),
        RowFigure::new("rate", rate, "MB/s"),
    ])
}

/// A large backup restored into a lone member, which is then started for the first time.
pub(super) fn restored(bench: &Bench) -> RowFigures {
    let keys = bench.scaled(KEYS);
    let mut source = bench.start(1)?;
    bench.drive_all(&mut source, Load::fill(keys, VALUE_BYTES))?;
    let mut cluster = Cluster::new(&bench.system, 1, &bench.site(None))?;
    let snapshot = cluster.folder().join("snapshot.db");
    let mut save = Command::new(bench.system.binary());
    command::output(save.args(["ctl", "snapshot", "save"]).arg(&snapshot).args(source.reach()))?;
    // Its disk space is needed.
    drop(source);
    let bytes = fs::metadata(&snapshot).map_err(|error| format!("no snapshot was written: {error}"))?.len();
    let began = Instant::now();
    cluster.restore(&["snapshot", "restore"], &snapshot)?;
    let rate = bytes as f64 / 1e6 / began.elapsed().as_secs_f64();
    let started = bench.restart(&mut cluster)?;
    let seconds = told(started.p50_ms, "time")? / 1000.0;
    let found = cluster.metric("etcd_debugging_mvcc_keys_total")?;
    if found != [keys as f64] {
        return Err(format!("{keys} keys became {found:?}").into());
    }
    Ok(vec![
        RowFigure::at_most("first start, until it answers", seconds, "s", START_SECONDS),
        RowFigure::new("restore", rate, "MB/s"),
        RowFigure::new("snapshot", bytes as f64 / 1e6, "MB"),
        RowFigure::new("resident memory after the start", told(started.resident_mb, "memory")?, "MB"),
    ])
}

/// Puts on three members, alone and while one member sends backups again and again.
pub(super) fn beside(bench: &Bench) -> RowFigures {
    let (keys, total) = (bench.scaled(KEYS_BESIDE), bench.scaled(60_000));
    let mut cluster = bench.start(3)?;
    bench.drive_all(&mut cluster, Load::fill(keys, VALUE_BYTES))?;
    let sizes = format!("--key-space-size={keys} --val-size=256 --total={total}");
    let puts = format!("put --conns=10 --clients=100 --rate=2000 {sizes}");
    let alone = told(bench.drive_all(&mut cluster, Load::ours(&puts))?.p99_ms, "latency")?;
    let with = bench.drive_all(&mut cluster, Load::ours(&format!("{puts} --while=snapshot")))?;
    let with = told(with.p99_ms, "latency")?;
    Ok(vec![
        RowFigure::at_most("put p99, part of that without", with / alone, "", SLOWER),
        RowFigure::new("put p99 without", alone, "ms"),
        RowFigure::new("put p99", with, "ms"),
    ])
}

/// MB a second at which one core reads and hashes the member's files, the second time.
fn hash_rate(cluster: &Cluster) -> Result<f64, String> {
    let hash = || {
        let mut hashing = Command::new("sh");
        hashing.args(["-c", "find \"$@\" -type f -exec cat {} + | sha256sum", "sh"]);
        command::output(hashing.args(cluster.data_folders()))
    };
    hash()?;
    let began = Instant::now();
    hash()?;
    Ok(cluster.disk() as f64 / 1e6 / began.elapsed().as_secs_f64())
}

/// `stele ctl backup` while it runs. It ends with its owner.
struct Copying(Child);

impl Drop for Copying {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An archive with a large base and a long log, restored into a lone member, which is then started.
pub(super) fn restored_archive(bench: &Bench) -> RowFigures {
    let (keys, puts) = (bench.scaled(ARCHIVED_KEYS), bench.scaled(ARCHIVED_PUTS));
    let mut source = bench.start(1)?;
    bench.drive_all(&mut source, Load::fill(keys, VALUE_BYTES))?;
    let mut cluster = Cluster::new(&bench.system, 1, &bench.site(None))?;
    let archive = cluster.folder().join("archive");
    let backup = |words: &[&str]| {
        let mut backup = Command::new(bench.system.binary());
        backup.args(["ctl", "backup"]).args(words).args(source.reach()).arg(&archive);
        backup
    };
    let mut copy = backup(&["--interval=1s", "--base-interval=1000h"]);
    let mut once = backup(&["--once", "--base-interval=1000h"]);
    let started = copy.stdout(Stdio::null()).spawn();
    let mut copying = Copying(started.map_err(|error| format!("the backup does not start: {error}"))?);
    let base = wait_for_base(&archive.join("base"), &mut copying.0)?;
    let load = format!(
        "put --clients=100 --rate={PUT_RATE} --total={puts} --val-size={VALUE_BYTES} --key-space-size={keys}"
    );
    bench.drive_all(&mut source, Load::ours(&load))?;
    drop(copying);
    command::output(&mut once)?;
    // Its disk space is needed.
    drop(source);
    // Before and after it: a disk that is shared with others may allow a burst, which the first of them gets.
    let copy = cluster.folder().join("copy");
    let before = copy_rate(&base, &copy)?;
    let mut size = Command::new("du");
    let size = command::output(size.args(["-sb"]).arg(&archive))?;
    let bytes: Option<u64> = size.split_whitespace().next().and_then(|bytes| bytes.parse().ok());
    let bytes = bytes.ok_or_else(|| format!("du printed no number but {size:?}"))?;
    let began = Instant::now();
    cluster.restore(&["restore"], &archive)?;
    let rate = bytes as f64 / 1e6 / began.elapsed().as_secs_f64();
    let after = copy_rate(&base, &copy)?;
    let started = bench.restart(&mut cluster)?;
    Ok(vec![
        RowFigure::new("restore", rate, "MB/s"),
        RowFigure::new("synced copy before it", before, "MB/s"),
        RowFigure::new("synced copy after it", after, "MB/s"),
        RowFigure::new("archive", bytes as f64 / 1e6, "MB"),
        RowFigure::new("first start, until it answers", told(started.p50_ms, "time")? / 1000.0, "s"),
    ])
}

/// The path of the first base that a process copies, once it is whole: it has no name before.
fn wait_for_base(folder: &Path, copying: &mut Child) -> Result<PathBuf, String> {
    let began = Instant::now();
    while began.elapsed() < BASE_TIMEOUT {
        let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
        if let Some(base) = files.find(|file| !file.file_name().to_string_lossy().contains('#')) {
            return Ok(base.path());
        }
        if let Ok(Some(status)) = copying.try_wait() {
            return Err(format!("the backup ended before its first base: {status}"));
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(format!("no base within {BASE_TIMEOUT:?}"))
}

/// MB a second at which a file is copied and synced, into a file that is removed.
fn copy_rate(from: &Path, to: &Path) -> Result<f64, String> {
    let bytes = fs::metadata(from).map_err(|error| format!("no base: {error}"))?.len();
    let began = Instant::now();
    let mut copy = Command::new("dd");
    let (input, output) = (format!("if={}", from.display()), format!("of={}", to.display()));
    command::output(copy.args(["bs=8M", "conv=fsync", "status=none"]).args([input, output]))?;
    let rate = bytes as f64 / 1e6 / began.elapsed().as_secs_f64();
    fs::remove_file(to).map_err(|error| format!("cannot remove {}: {error}", to.display()))?;
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_ends_is_not_waited_for() {
        let mut ended = Copying(Command::new("false").spawn().expect("it starts"));
        let folder = tempfile::tempdir().expect("a folder");
        let why = wait_for_base(folder.path(), &mut ended.0).expect_err("there is no base");
        assert!(why.contains("ended before its first base: exit status: 1"), "{why}");
    }
}
