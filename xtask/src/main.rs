//! The tasks of this repository, each one command: `cargo xtask ci` is the whole gate.
//!
//! A task prints what it does, fails fast and says what to do about it. It must not know the inside of the
//! product: it runs cargo, the Go toolchain and binaries, and reads files.

mod arrows;
mod binaries;
mod codegen;
mod command;
mod compare;
mod gate;
mod measure;
mod metadata;
mod pgo;
mod quick;
mod scale;
mod source;
mod steps;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use command::Outcome;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The gate and the measurements: one command each")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the whole gate, or only the steps named.
    Ci {
        /// Steps to run; all when none is named.
        steps: Vec<String>,
        /// Also run what needs tools or time that a change does not: cargo-deny's advisories, a minute of each fuzz
        /// target.
        #[arg(long)]
        long: bool,
    },
    /// Check what changed since the merge base with main: the fast loop while writing, see CONTRIBUTING.md.
    Quick {
        /// Crates to test with those that depend on them, instead of the changed ones; `log` means stele-log.
        crates: Vec<String>,
    },
    /// Generate the wire types of crates/api from proto/.
    Codegen {
        /// Only compare with what is committed.
        #[arg(long)]
        check: bool,
    },
    /// Run Stele and a real etcd side by side on this machine and print one table.
    Compare(compare::Options),
    /// Run Stele alone with many keys, large requests and full disks, and print what was measured and promised.
    Scale(scale::ScaleOptions),
    /// Build the release binary optimized by a profile of members under load, for packages.
    Pgo(pgo::PgoOptions),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Outcome {
    command::enter_root()?;
    match task {
        Task::Ci { steps, long } => gate::run(&steps, long),
        Task::Quick { crates } => quick::run(&crates),
        Task::Codegen { check } => codegen::run(check),
        Task::Compare(options) => compare::run(&options),
        Task::Scale(options) => scale::run(&options),
        Task::Pgo(options) => pgo::run(&options),
    }
}
