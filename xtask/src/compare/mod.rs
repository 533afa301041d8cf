//! `cargo xtask compare`: two systems that speak etcd's API, side by side on this machine, one table.
//!
//! Each row of the table is a workload ([`rows`]). In every round both systems run it in turn, on fresh data,
//! with default flags, driven by the same clients; the processes are measured from outside ([`measure`]), so
//! that neither system's own word is taken for anything. A run in which something else kept the machine busy
//! is not valid, and says so. This module must not know either system: it gives both the same flags.

mod chart;
mod figures;
mod generator;
mod machine;
mod measure;
mod page;
mod rows;
mod run;
mod systems;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;

use crate::binaries::{self, Profile};
use crate::command::Outcome;
use figures::Run;
use rows::Row;
use systems::System;

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
    let first = options.a.clone().map_or_else(|| binaries::build_stele(Profile::Release), Ok)?;
    let second = options.b.clone().unwrap_or_else(|| tools.join("etcd"));
    let systems = [System::new("a", &first)?, System::new("b", &second)?];
    let samples = 2 * rows.len() * options.rounds;
    let seconds = SECONDS_A_SAMPLE * options.scale.max(0.1) * samples as f64;
    eprintln!("{samples} samples; at a guess {:.0} minutes", (seconds / 60.0).ceil());
    let settings =
        run::Settings { members: options.members, rounds: options.rounds, tools, scale: options.scale };
    let run = run::all(&systems, &rows, &settings, &ProgressBar::new(samples as u64))?;
    report(&run, options)
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
    if names.is_empty() {
        return Ok(rows);
    }
    let exact = |name: &str| rows.iter().any(|row| row.name == name);
    let fits = |row: &Row, name: &str| row.name == name || (!exact(name) && row.name.starts_with(name));
    if let Some(unknown) = names.iter().find(|name| !rows.iter().any(|row| fits(row, name))) {
        return Err(format!("no row begins with {unknown:?}: see `cargo xtask compare --rows list`"));
    }
    Ok(rows.iter().filter(|row| names.iter().any(|name| fits(row, name))).cloned().collect())
}

fn report(run: &Run, options: &Options) -> Outcome {
    println!("{}", table::render(run));
    println!("{}", run.machine);
    if let Some(path) = &options.json {
        let text =
            serde_json::to_string_pretty(run).map_err(|error| format!("cannot write JSON: {error}"))?;
        write(path, &text)?;
    }
    if let Some(path) = &options.html {
        write(path, &page::render(run)?)?;
    }
    if run.doubts.is_empty() {
        println!("a valid run");
        return Ok(());
    }
    Err(format!("this run is not valid:\n{}", run.doubts.join("\n")))
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
