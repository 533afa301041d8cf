//! `cargo xtask scale`: Stele alone, beyond the sizes at which it is compared, against what is promised about it.
//!
//! Each row ([`rows`]) runs on fresh data, with default flags, and comes to figures; many of them have a promise
//! ([`promise`]), which is stated beside the load in the code. Members, loads and processes are those of
//! [`crate::measure`], which `cargo xtask compare` uses too.

mod backup;
mod bench;
mod beside;
mod full_disk;
mod keys;
mod large;
mod overload;
mod overwrites;
mod promise;
mod rows;
mod run;
mod streams;

use std::cell::Cell;
use std::path::PathBuf;

use clap::Args;

use crate::binaries;
use crate::command::Outcome;
use crate::measure::cluster::System;
use crate::measure::report;
use bench::Bench;
use rows::ROWS;

#[derive(Args)]
pub(crate) struct ScaleOptions {
    /// Rows to run, by name, or by the beginning of one; all when none is given.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Only print the names of the rows.
    #[arg(long)]
    list: bool,
    /// The binary; Stele is built with the profile `release` when it is absent.
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Multiplies keys, requests and leases for a quick look; only a run at 1 is valid.
    #[arg(long, default_value_t = 1.0)]
    factor: f64,
    /// Where the members keep their data, on a real disk; cargo's target folder when it is absent.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write the raw figures to this file, after each row.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the rows and prints their table.
pub(crate) fn run(options: &ScaleOptions) -> Outcome {
    if options.list {
        ROWS.iter().for_each(|row| println!("{:16} {}", row.name, row.title));
        return Ok(());
    }
    if !(options.factor > 0.0 && options.factor <= 1.0) {
        return Err(format!("--factor is above 0 and at most 1, not {}", options.factor));
    }
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    let numbers = report::chosen(&options.rows, &names, "scale --list")?;
    let rows: Vec<_> = numbers.into_iter().map(|number| &ROWS[number]).collect();
    let binary = options.bin.clone().map_or_else(binaries::build_release, Ok)?;
    let bench = Bench {
        system: System::new("stele", &binary)?,
        tools: binaries::build_load_generators()?,
        folder: options.dir.clone().map_or_else(binaries::target_folder, Ok)?,
        factor: options.factor,
        foreign: Cell::new(0.0),
    };
    run::show(&run::all(&bench, &rows, options.json.as_deref())?)
}
