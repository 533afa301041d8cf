//! Archives of continuous backups: how fast a large one is restored, beside the rate of the disk that has it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::bench::{Bench, RowFigures, told};
use super::promise::RowFigure;
use crate::command;
use crate::measure::cluster::Cluster;
use crate::measure::generator::Load;

/// Bytes of each value.
const VALUE_BYTES: u64 = 1024;

/// Keys of the base: 9 GB.
const KEYS: u64 = 8_800_000;

/// Puts whose entries follow it: 1 GB of log.
const PUTS: u64 = 1_000_000;

/// Puts a second: a member keeps 256 MiB of entries that a copy has not read.
const PUT_RATE: u64 = 10_000;

/// Time that the first copy of the state may take.
const BASE_TIMEOUT: Duration = Duration::from_secs(1800);

/// `stele ctl backup` while it runs. It ends with its owner.
struct Copying(Child);

impl Drop for Copying {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An archive with a large base and a long log, restored into a lone member, which is then started.
pub(super) fn restored(bench: &Bench) -> RowFigures {
    let (keys, puts) = (bench.scaled(KEYS), bench.scaled(PUTS));
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
    let started = copy.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let copying = Copying(started.map_err(|error| format!("the backup does not start: {error}"))?);
    let base = wait_for_base(&archive.join("base"))?;
    let load = format!(
        "put --clients=100 --rate={PUT_RATE} --total={puts} --val-size={VALUE_BYTES} --key-space-size={keys}"
    );
    bench.drive_all(&mut source, Load::ours(&load))?;
    drop(copying);
    command::output(&mut once)?;
    // Its disk space is needed.
    drop(source);
    let disk = copy_rate(&base, &cluster.folder().join("copy"))?;
    let mut size = Command::new("du");
    let size = command::output(size.args(["-sb"]).arg(&archive))?;
    let bytes: u64 = size.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let began = Instant::now();
    cluster.restore(&["restore"], &archive)?;
    let rate = bytes as f64 / 1e6 / began.elapsed().as_secs_f64();
    let started = bench.restart(&mut cluster)?;
    Ok(vec![
        RowFigure::new("restore", rate, "MB/s"),
        RowFigure::new("restore, part of the rate of a synced copy", rate / disk, ""),
        RowFigure::new("archive", bytes as f64 / 1e6, "MB"),
        RowFigure::new("first start, until it answers", told(started.p50_ms, "time")? / 1000.0, "s"),
    ])
}

/// The path of the first base, once it is whole: it has no name before.
fn wait_for_base(folder: &Path) -> Result<std::path::PathBuf, String> {
    let began = Instant::now();
    while began.elapsed() < BASE_TIMEOUT {
        let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
        if let Some(base) = files.find(|file| !file.file_name().to_string_lossy().contains('#')) {
            return Ok(base.path());
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
