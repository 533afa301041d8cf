//! Running the rows: both systems in turn, measured around each.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::figures::{Figures, RowName, Run, Sample, SystemName};
use super::generator::Load;
use super::machine::{self, Machine};
use super::measure::{self, Busy};
use super::rows::{self, Row, Work};
use super::systems::{Cluster, System};
use crate::command;

/// More than this part of the machine in the hands of others makes a sample worthless.
const FOREIGN_LIMIT: f64 = 0.1;

/// With fewer rounds there is no telling a difference from an accident.
const ROUNDS_NEEDED: usize = 3;

/// The key that rows over a single key read.
const SINGLE_KEY: &str = "single";

/// Bytes of its value.
const SINGLE_VALUE_SIZE: usize = 256;

const MEGABYTE: f64 = 1_000_000.0;

/// The system that must answer every request; that the other does not is a result.
const OURS: &str = "a";

pub(super) struct Settings {
    pub(super) members: usize,
    pub(super) rounds: usize,
    pub(super) scale: f64,
    /// Where the load generators are.
    pub(super) tools: PathBuf,
}

/// Runs every row `settings.rounds` times on both systems in turn.
pub(super) fn all(
    systems: &[System; 2],
    rows: &[Row],
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<Run, String> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} (left: {eta}) {msg}");
    bar.set_style(style.map_err(|error| format!("the progress line: {error}"))?);
    bar.enable_steady_tick(Duration::from_secs(1));
    let mut samples = Vec::new();
    for round in 1..=settings.rounds {
        for group in rows.chunk_by(|first, second| first.shared && second.shared && first.keys == second.keys)
        {
            // The first run of a row finds another machine than the second: alternate.
            let order = if round % 2 == 1 { [0, 1] } else { [1, 0] };
            for system in order.map(|index| &systems[index]) {
                run_group(group, system, round, settings, bar, &mut samples);
            }
        }
    }
    bar.finish_and_clear();
    let name = |system: &System| SystemName { name: system.name, version: system.version.clone() };
    let title = |row: &Row| RowName { name: row.name.clone(), title: row.title.clone() };
    Ok(Run {
        machine: Machine::read(),
        members: settings.members,
        rounds: settings.rounds,
        scale: settings.scale,
        systems: systems.iter().map(name).collect(),
        rows: rows.iter().map(title).collect(),
        doubts: doubts(settings, &samples),
        samples,
    })
}

/// Runs neighbouring rows on one cluster. A row that fails is a result too: the others go on.
fn run_group(
    rows: &[Row],
    system: &System,
    round: usize,
    settings: &Settings,
    bar: &ProgressBar,
    samples: &mut Vec<Sample>,
) {
    let keys = rows.first().map_or(0, |row| row.keys);
    bar.set_message(format!("round {round}, {}: starting with {keys} keys", system.name));
    let mut started = Cluster::start(system, settings.members).and_then(|cluster| {
        let loaded = prepare(&cluster, keys, settings)?;
        Ok((cluster, loaded))
    });
    for row in rows {
        let current = format!("round {round}, {}, {}", system.name, row.name);
        bar.set_message(current.clone());
        let outcome = match &mut started {
            Ok((cluster, loaded)) => run_row(row, cluster, loaded, settings),
            Err(error) => Err(error.clone()),
        };
        let figures = outcome.unwrap_or_else(failure);
        bar.suspend(|| eprintln!("{current}: {}", brief(&figures)));
        samples.push(Sample { row: row.name.clone(), system: system.name, round, figures });
        bar.inc(1);
    }
}

/// The figures of a row that did not come to its end.
fn failure(error: String) -> Figures {
    Figures { errors: 1, first_error: Some(error), ..Figures::default() }
}

/// Puts the keys that the rows expect, and returns what that took.
fn prepare(cluster: &Cluster, keys: u64, settings: &Settings) -> Result<Figures, String> {
    match keys {
        0 => Ok(Figures::default()),
        1 => {
            let value = "v".repeat(SINGLE_VALUE_SIZE);
            let endpoints = format!("--endpoints={}", cluster.endpoints());
            let mut etcdctl = Command::new(settings.tools.join("etcdctl"));
            command::output(etcdctl.args([&endpoints, "put", SINGLE_KEY, &value]))?;
            Ok(Figures::default())
        }
        count => drive(cluster, &rows::fill(count), settings),
    }
}

fn run_row(
    row: &Row,
    cluster: &mut Cluster,
    loaded: &Figures,
    settings: &Settings,
) -> Result<Figures, String> {
    match &row.work {
        Work::Drive(load) => drive(cluster, load, settings),
        Work::Loaded => Ok(loaded.clone()),
        Work::RestartMember => restart(cluster, Cluster::restart_member),
        Work::RestartCluster => restart(cluster, Cluster::restart),
        Work::Idle(time) => idle(cluster, *time),
    }
}

fn drive(cluster: &Cluster, load: &Load, settings: &Settings) -> Result<Figures, String> {
    let client = measure::ended_children()?;
    let endpoints = cluster.endpoints();
    let work = || load.drive(&settings.tools, cluster.folder(), &endpoints);
    let mut figures = around(cluster, work, || Ok(measure::ended_children()?.saturating_sub(client)))?;
    let requests = figures.requests;
    let each = |total: f64| (requests > 0).then(|| total / requests as f64);
    let used = measure::ended_children()?.saturating_sub(client);
    figures.client_cpu_us = each(used.as_secs_f64() * 1e6);
    Ok(figures)
}

/// Measures the members around `work`; `client` tells what CPU time of ours is not theirs.
fn around(
    cluster: &Cluster,
    work: impl FnOnce() -> Result<Figures, String>,
    client: impl FnOnce() -> Result<Duration, String>,
) -> Result<Figures, String> {
    let pids = cluster.pids();
    measure::forget_peak(&pids)?;
    let busy = Busy::start()?;
    let before = measure::usage(&pids)?;
    let mut figures = work()?;
    let after = measure::usage(&pids)?;
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
    figures.disk_mb = Some(measure::disk(cluster.folder()) as f64 / MEGABYTE);
    Ok(figures)
}

/// How long a restart takes, as a latency, and what the members that came back hold.
fn restart(
    cluster: &mut Cluster,
    restart: impl FnOnce(&mut Cluster) -> Result<Duration, String>,
) -> Result<Figures, String> {
    let old = cluster.pids();
    let before =
        old.iter().map(|pid| Ok(measure::usage(&[*pid])?.cpu)).collect::<Result<Vec<_>, String>>()?;
    let busy = Busy::start()?;
    let took = restart(cluster)?;
    let pids = cluster.pids();
    let usage = measure::usage(&pids)?;
    // Members that were not restarted had used something before.
    let kept = old.iter().zip(before).filter(|(pid, _)| pids.contains(pid)).map(|(_, cpu)| cpu);
    let foreign = busy.foreign(usage.cpu.saturating_sub(kept.sum()), pids.len(), machine::cpus())?;
    Ok(Figures {
        foreign,
        requests: 1,
        p50_ms: Some(took.as_secs_f64() * 1000.0),
        resident_mb: Some(usage.resident as f64 / MEGABYTE),
        peak_mb: Some(usage.peak as f64 / MEGABYTE),
        disk_mb: Some(measure::disk(cluster.folder()) as f64 / MEGABYTE),
        ..Figures::default()
    })
}

/// What a cluster without clients costs.
fn idle(cluster: &Cluster, time: Duration) -> Result<Figures, String> {
    let seconds = (time.as_secs_f64().round() as u64).max(1);
    let begin = Instant::now();
    let wait = || {
        thread::sleep(Duration::from_secs(seconds).saturating_sub(begin.elapsed()));
        Ok(Figures { requests: seconds, ..Figures::default() })
    };
    around(cluster, wait, || Ok(Duration::ZERO))
}

/// Why a run is not to be trusted.
fn doubts(settings: &Settings, samples: &[Sample]) -> Vec<String> {
    let mut doubts = Vec::new();
    if settings.rounds < ROUNDS_NEEDED {
        doubts.push(format!("{} rounds; at least {ROUNDS_NEEDED} are needed", settings.rounds));
    }
    if settings.scale < 1.0 {
        doubts.push(format!("made at scale {}", settings.scale));
    }
    for Sample { row, system, round, figures } in samples {
        if figures.requests == 0 {
            let reason = figures.first_error.as_deref().unwrap_or("no request succeeded");
            doubts.push(format!("{row}, {system}, round {round}: {reason}"));
        } else if figures.errors > 0 && *system == OURS {
            doubts.push(format!("{row}, {system}, round {round}: {} requests failed", figures.errors));
        }
        if figures.foreign > FOREIGN_LIMIT {
            let percent = figures.foreign * 100.0;
            doubts.push(format!("{row}, {system}, round {round}: others used {percent:.0} % of the machine"));
        }
    }
    doubts
}

fn brief(figures: &Figures) -> String {
    let tell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let rate = tell(figures.per_second);
    let (p50, p99, cpu) = (tell(figures.p50_ms), tell(figures.p99_ms), tell(figures.cpu_us));
    let errors = match &figures.first_error {
        Some(first) => format!("{} errors, first {first}", figures.errors),
        None => format!("{} errors", figures.errors),
    };
    format!("{rate}/s, p50 {p50} ms, p99 {p99} ms, CPU {cpu} us, {errors}")
}
