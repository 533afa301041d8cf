//! A lone member on a small file system of its own, which puts fill.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bench::{Bench, Missing, RowFigures, told};
use super::promise::RowFigure;
use crate::command;
use crate::measure::cluster::Cluster;
use crate::measure::generator::Load;

/// The size of the file system, in `mount`'s words.
const SIZE: &str = "700m";

/// More tries than it takes to fill the file system with values of 20 KB, and to be refused for some seconds.
const TRIES: u64 = 1_000_000;

/// The promise about the time from a compaction to the first of many puts in a row that are accepted.
const PUT_AGAIN_SECONDS: f64 = 10.0;

/// A file system in memory, below a member's data; the member is killed before it goes.
struct SmallDisk {
    cluster: Cluster,
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts it where `cluster`, which does not run yet, keeps its first member's data.
    fn mount(cluster: Cluster) -> Result<Self, Missing> {
        let folder = cluster.data_folders().into_iter().next();
        let folder = folder.ok_or_else(|| "a cluster has members".to_owned())?;
        let options = format!("size={SIZE},mode=0700");
        let mut mount = Command::new("mount");
        command::output(mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&folder))
            .map_err(|error| Missing::Skipped(format!("this machine mounts no tmpfs: {error}")))?;
        Ok(Self { cluster, folder })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.cluster.kill();
        if let Err(error) = command::output(Command::new("umount").arg(&self.folder)) {
            eprintln!("{} stays mounted: {error}", self.folder.display());
        }
    }
}

pub(super) fn run(bench: &Bench) -> RowFigures {
    if !is_root()? {
        return Err(Missing::Skipped("only root mounts the file system it needs".to_owned()));
    }
    let mut disk = SmallDisk::mount(Cluster::new(&bench.system, 1, &bench.site(None))?)?;
    disk.cluster.restart()?;
    let load = Load::ours(&format!("fill-disk --conns=10 --clients=100 --val-size=20480 --total={TRIES}"));
    // A member that ends is an error here: no restart is allowed.
    let figures = bench.drive_all(&mut disk.cluster, load)?;
    let seconds = told(figures.worst_ms, "time")? / 1000.0;
    Ok(vec![RowFigure::at_most("compaction to puts accepted again", seconds, "s", PUT_AGAIN_SECONDS)])
}

/// Whether this process may mount: its user owns its entry under `/proc`.
fn is_root() -> Result<bool, String> {
    let own = fs::metadata(Path::new("/proc/self"));
    Ok(own.map_err(|error| format!("cannot read /proc/self: {error}"))?.uid() == 0)
}
