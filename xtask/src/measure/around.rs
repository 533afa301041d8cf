//! What a load costs the members: their processes, measured before and after.

use std::path::Path;
use std::time::Duration;

use super::cluster::Cluster;
use super::figures::{Figures, MEGABYTE};
use super::generator::Load;
use super::machine;
use super::processes::{self, Busy};

/// Runs `load` to its end. `tools` is where the load generators are.
pub(crate) fn drive(cluster: &Cluster, load: &Load, tools: &Path) -> Result<Figures, String> {
    let client = processes::ended_children()?;
    let reach = cluster.reach();
    let work = || load.drive(tools, cluster.folder(), &reach);
    let mut figures = around(cluster, work, || Ok(processes::ended_children()?.saturating_sub(client)))?;
    let requests = figures.requests;
    let each = |total: f64| (requests > 0).then(|| total / requests as f64);
    let used = processes::ended_children()?.saturating_sub(client);
    figures.client_cpu_us = each(used.as_secs_f64() * 1e6);
    Ok(figures)
}

/// Measures the members around `work`; `client` tells what CPU time of ours is not theirs.
pub(crate) fn around(
    cluster: &Cluster,
    work: impl FnOnce() -> Result<Figures, String>,
    client: impl FnOnce() -> Result<Duration, String>,
) -> Result<Figures, String> {
    let pids = cluster.pids();
    processes::forget_peak(&pids)?;
    let busy = Busy::start()?;
    let before = processes::usage(&pids)?;
    let mut figures = work()?;
    let after = processes::usage(&pids)?;
    let cpu = after.cpu.saturating_sub(before.cpu);
    // The members, and the load generator.
    let processes = pids.len() + 1;
    figures.foreign = busy.foreign(cpu + client()?, processes, machine::cpus())?;
    let requests = figures.requests;
    let each = |total: f64| (requests > 0).then(|| total / requests as f64);
    figures.cpu_us = each(cpu.as_secs_f64() * 1e6);
    figures.written_bytes = each(after.written.saturating_sub(before.written) as f64);
    figures.resident_mb = Some(after.resident as f64 / MEGABYTE);
    figures.peak_mb = Some(after.peak as f64 / MEGABYTE);
    figures.disk_mb = Some(cluster.disk() as f64 / MEGABYTE);
    Ok(figures)
}

/// How long a restart takes, as a latency, and what the members that came back hold.
pub(crate) fn restart(
    cluster: &mut Cluster,
    restart: impl FnOnce(&mut Cluster) -> Result<Duration, String>,
) -> Result<Figures, String> {
    let old = cluster.pids();
    let before =
        old.iter().map(|pid| Ok(processes::usage(&[*pid])?.cpu)).collect::<Result<Vec<_>, String>>()?;
    let busy = Busy::start()?;
    let took = restart(cluster)?;
    let pids = cluster.pids();
    let usage = processes::usage(&pids)?;
    // Members that were not restarted had used something before.
    let kept = old.iter().zip(before).filter(|(pid, _)| pids.contains(pid)).map(|(_, cpu)| cpu);
    let foreign = busy.foreign(usage.cpu.saturating_sub(kept.sum()), pids.len(), machine::cpus())?;
    Ok(Figures {
        foreign,
        requests: 1,
        p50_ms: Some(took.as_secs_f64() * 1000.0),
        resident_mb: Some(usage.resident as f64 / MEGABYTE),
        peak_mb: Some(usage.peak as f64 / MEGABYTE),
        disk_mb: Some(cluster.disk() as f64 / MEGABYTE),
        ..Figures::default()
    })
}
