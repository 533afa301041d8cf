//! Running the rows: both systems in turn, measured around each.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::failover::failover;
use super::figures::{RowName, Run, Sample, SystemName};
use super::rows::{Row, Work};
use crate::binaries;
use crate::command;
use crate::measure::around::{around, drive, restart};
use crate::measure::cluster::{Cluster, Site, System};
use crate::measure::figures::{Figures, MAX_FOREIGN};
use crate::measure::generator::Load;
use crate::measure::machine::Machine;

/// With fewer rounds there is no telling a difference from an accident.
const ROUNDS_NEEDED: usize = 3;

/// The key that rows over a single key read.
const SINGLE_KEY: &str = "single";

/// Bytes of the values that are there before a row begins.
const VALUE_SIZE: u64 = 256;

/// The system that must answer every request; that the other does not is a result.
const OURS: &str = "a";

pub(super) struct Settings {
    pub(super) members: usize,
    pub(super) rounds: usize,
    pub(super) scale: f64,
    /// Where the load generators are.
    pub(super) tools: PathBuf,
    /// Stele's binary, if it makes the load instead of etcd's `benchmark`.
    pub(super) generator: Option<PathBuf>,
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
        generator: if settings.generator.is_some() { "stele bench" } else { "benchmark" },
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
    let (keys, access) = rows.first().map_or_else(Default::default, |row| (row.keys, row.access));
    bar.set_message(format!("round {round}, {}: starting with {keys} keys", system.name));
    // Not the system's temporary folder: where that is memory, a sync costs nothing.
    let tools = settings.tools.clone();
    let site = binaries::target_folder().map(|folder| Site {
        folder,
        open_files: None,
        core: None,
        flags: Vec::new(),
        access,
        tools,
    });
    let start = |site| Cluster::start(system, settings.members, &site);
    let mut started = site.and_then(start).and_then(|cluster| {
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
            let value = "v".repeat(VALUE_SIZE as usize);
            let mut etcdctl = Command::new(settings.tools.join("etcdctl"));
            command::output(etcdctl.args(cluster.reach()).args(["put", SINGLE_KEY, &value]))?;
            Ok(Figures::default())
        }
        count => {
            let load = Load::fill(count, VALUE_SIZE).made_by(settings.generator.as_deref());
            drive(cluster, &load, &settings.tools)
        }
    }
}

fn run_row(
    row: &Row,
    cluster: &mut Cluster,
    loaded: &Figures,
    settings: &Settings,
) -> Result<Figures, String> {
    match &row.work {
        Work::Drive(load) => {
            drive(cluster, &load.clone().made_by(settings.generator.as_deref()), &settings.tools)
        }
        Work::Loaded => Ok(loaded.clone()),
        Work::RestartMember => restart(cluster, Cluster::restart_member),
        Work::RestartCluster => restart(cluster, Cluster::restart),
        Work::Failover(how) => failover(cluster, &settings.tools, *how),
        Work::Idle(time) => idle(cluster, *time),
    }
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
        if figures.foreign > MAX_FOREIGN {
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
