//! `cargo xtask compare`: two systems that speak etcd's API, side by side on this machine, one table.
//!
//! Each row of the table is a workload ([`rows`]). In every round both systems run it in turn, on fresh data,
//! with default flags, driven by the same clients; the processes are measured from outside ([`crate::measure`]), so
//! that neither system's own word is taken for anything. A run in which something else kept the machine busy
//! is not valid, and says so. This module must not know either system: it gives both the same flags.

mod chart;
mod failover;
mod figures;
mod page;
mod rows;
mod run;
mod table;

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;

use crate::binaries;
use crate::command::Outcome;
use crate::measure::cluster::System;
use crate::measure::report;
use figures::Run;
use rows::Row;

/// Seconds a sample takes at full scale on a small machine, for the estimate before the first one.
const SECONDS_A_SAMPLE: f64 = 40.0;

#[derive(Args)]
pub(crate) struct Options {
    /// Rows to run, by name, or by the beginning of one; all when none is given. `list` prints the names.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Members of each cluster.
    #[arg(long, default_value_t = 3)]
    members: usize,
    /// How often each row is run; medians want an odd number, and a valid run at least three.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Multiplies the number of requests and of keys; only a run at 1 is valid.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// The first system's binary; Stele is built when it is absent.
    #[arg(long)]
    a: Option<PathBuf>,
    /// The second system's binary; etcd is built when it is absent.
    #[arg(long)]
    b: Option<PathBuf>,
    /// Who makes the load where etcd's benchmark can: itself, or Stele's generator, which takes less CPU time.
    #[arg(long, default_value = "benchmark", value_parser = ["benchmark", "stele"])]
    generator: String,
    /// Write the raw figures of every sample to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write a page with the table and plots to this file.
    #[arg(long)]
    html: Option<PathBuf>,
}

/// Runs the comparison and prints its table.
pub(crate) fn run(options: &Options) -> Outcome {
    check(options)?;
    let rows = chosen(&options.rows, options.scale)?;
    if rows.is_empty() {
        rows::all(options.scale).iter().for_each(|row| println!("{:24} {}", row.name, row.title));
        return Ok(());
    }
    let tools = binaries::build_etcd()?;
    let first = options.a.clone().map_or_else(binaries::build_release, Ok)?;
    let second = options.b.clone().unwrap_or_else(|| tools.join("etcd"));
    let systems = [System::new("a", &first)?, System::new("b", &second)?];
    let samples = 2 * rows.len() * options.rounds;
    let seconds = SECONDS_A_SAMPLE * options.scale.max(0.1) * samples as f64;
    eprintln!("{samples} samples; at a guess {:.0} minutes", (seconds / 60.0).ceil());
    let settings = run::Settings {
        members: options.members,
        rounds: options.rounds,
        scale: options.scale,
        tools,
        generator: generator(options, &first)?,
    };
    let run = run::all(&systems, &rows, &settings, &ProgressBar::new(samples as u64))?;
    show(&run, options)
}

/// Stele's binary, if it makes the load: the first system's, unless that is another's.
fn generator(options: &Options, first: &Path) -> Result<Option<PathBuf>, String> {
    match options.generator.as_str() {
        "stele" if first.file_name().is_some_and(|name| name == "stele") => Ok(Some(first.to_owned())),
        "stele" => binaries::build_release().map(Some),
        _ => Ok(None),
    }
}

fn check(options: &Options) -> Outcome {
    if options.members == 0 || options.rounds == 0 {
        return Err("--members and --rounds are at least 1".to_owned());
    }
    if !(options.scale > 0.0 && options.scale <= 1.0) {
        return Err(format!("--scale is above 0 and at most 1, not {}", options.scale));
    }
    Ok(())
}

/// The rows that were asked for; none for `list`.
fn chosen(names: &[String], scale: f64) -> Result<Vec<Row>, String> {
    if names == ["list"] {
        return Ok(Vec::new());
    }
    let rows = rows::all(scale);
    let all: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let numbers = report::chosen(names, &all, "compare --rows list")?;
    Ok(numbers.into_iter().map(|number| rows[number].clone()).collect())
}

fn show(run: &Run, options: &Options) -> Outcome {
    println!("{}", table::render(run));
    println!("{}", run.machine);
    if let Some(path) = &options.json {
        report::write_json(path, run)?;
    }
    if let Some(path) = &options.html {
        report::write(path, &page::render(run)?)?;
    }
    report::verdict(&run.doubts)
}

#[cfg(test)]
mod tests {
    use super::figures::{Cell, RowName, Sample, SystemName};
    use super::*;
    use crate::measure::access::Access;
    use crate::measure::figures::Figures;
    use crate::measure::machine::Machine;

    #[test]
    fn medians_and_spreads() {
        assert_eq!(Cell::of(vec![]), None);
        assert_eq!(Cell::of(vec![3.0, 1.0, 2.0]), Some(Cell { median: 2.0, spread: 0.5 }));
        assert_eq!(Cell::of(vec![1.0, 3.0]).unwrap().median, 2.0);
    }

    #[test]
    fn rows_have_names_of_their_own_and_shared_ones_stand_together() {
        let rows = rows::all(0.01);
        let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len());
        let groups: Vec<bool> =
            rows.chunk_by(|a, b| a.shared == b.shared).map(|group| group[0].shared).collect();
        assert_eq!(groups, [false, true]);
        assert!(rows.iter().all(|row| !row.shared || row.keys == 10_000));
        assert!(rows.iter().all(|row| !row.shared || row.access == Access::default()));
    }

    /// A run of one row on two systems, the first twice as fast.
    fn run() -> Run {
        let system = |name| SystemName { name, version: format!("<{name}>") };
        let sample = |system, round, per_second: f64| {
            let latency = Some(1000.0 / per_second);
            let figures = Figures {
                requests: 1,
                per_second: Some(per_second),
                p50_ms: latency,
                p99_ms: latency.map(|value| 2.0 * value),
                ..Figures::default()
            };
            Sample { row: "put".to_owned(), system, round, figures }
        };
        Run {
            machine: Machine::read(),
            members: 3,
            rounds: 1,
            scale: 1.0,
            generator: "benchmark",
            systems: vec![system("a"), system("b")],
            rows: vec![RowName { name: "put".to_owned(), title: "put & get".to_owned() }],
            samples: vec![sample("a", 1, 200.0), sample("b", 1, 100.0)],
            doubts: vec!["others".to_owned()],
        }
    }

    #[test]
    fn the_table_gives_both_systems_and_their_ratio() {
        let lines = table::lines(&run());
        let column = |index: usize| lines.iter().map(|line| line[index].as_str()).collect::<Vec<_>>();
        assert_eq!(column(0), ["put & get", "", ""]);
        assert_eq!(column(1), ["<a>", "<b>", "ratio"]);
        assert_eq!(column(2), ["200 ±0%", "100 ±0%", "2.00"]);
        assert_eq!(column(3), ["5.00 ±0%", "10.0 ±0%", "0.500"]);
        assert_eq!(column(5), ["", "", ""]);
    }

    #[test]
    fn the_page_holds_the_table_the_plots_and_the_doubts() {
        let page = page::render(&run()).unwrap();
        assert_eq!(page.matches("<svg").count(), 2, "throughput and latency; the row has no CPU and memory");
        for part in [
            "put &amp; get",
            "&lt;a&gt; as a multiple of &lt;b&gt;",
            "not valid: others",
            "<td>200 <small>±0%</small></td>",
            "<td class=\"good\">× 2.00</td>",
            "requests a second",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
}
