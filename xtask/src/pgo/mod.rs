//! `cargo xtask pgo`: a release build that the compiler optimizes for what members really do (profile-guided
//! optimization).
//!
//! Three stages, each of which can be run apart; what one leaves for the next is in [`FOLDER`]:
//!
//! ```text
//! instrument   builds a binary that counts, at its end, which branches and calls were taken how often
//! train        runs the loads of training.txt on three members of it, and merges what they counted into a profile
//! optimize     builds the release binary again, with the profile
//! ```
//!
//! The compiler must be the same in all stages. This module must not know what is measured: the loads are lines of
//! `stele bench`.

mod profdata;
mod toolchain;
mod training;

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::binaries::target_folder;
use crate::command::{self, Outcome, cargo};
use crate::measure::cluster::System;
use crate::steps::Times;
use toolchain::{Toolchain, joined_flags};

/// The folder below cargo's target folder that holds all of it.
const FOLDER: &str = "pgo";

#[derive(Args)]
pub(crate) struct PgoOptions {
    /// Stages to run; all when none is named.
    #[arg(value_enum)]
    stages: Vec<Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// Build the binary that counts.
    Instrument,
    /// Run the loads on it, and merge what was counted into a profile.
    Train,
    /// Build the release binary with the profile.
    Optimize,
}

/// Where things are, and with what they are built.
struct Pgo {
    toolchain: Toolchain,
    folder: PathBuf,
}

/// Runs the stages, in their order, and prints where the binary is.
pub(crate) fn run(options: &PgoOptions) -> Outcome {
    let is_chosen = |stage: Stage| options.stages.is_empty() || options.stages.contains(&stage);
    let pgo = Pgo::new()?;
    // What is missing is said before anything is built.
    let tool = is_chosen(Stage::Train).then(|| profdata::find(&pgo.toolchain)).transpose()?;
    let mut times = Times::default();
    if is_chosen(Stage::Instrument) {
        let stage = || pgo.instrument();
        times.run("instrument", "the binary counts what it does", "read what cargo says", stage)?;
    }
    if let Some(tool) = tool {
        let stage = || pgo.train(&tool);
        let remedy = "read the error; the loads are in xtask/src/pgo/training.txt";
        times.run("train", "the loads run and leave a profile", remedy, stage)?;
    }
    if is_chosen(Stage::Optimize) {
        let stage = || pgo.optimize();
        times.run("optimize", "the compiler uses the profile", "read what cargo says", stage)?;
        println!("{}", pgo.binary("optimized").display());
    }
    eprint!("{}", times.table());
    Ok(())
}

impl Pgo {
    fn new() -> Result<Self, String> {
        let folder = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
        fs::create_dir_all(folder.join(FOLDER))
            .map_err(|error| format!("cannot create {}: {error}", folder.join(FOLDER).display()))?;
        Ok(Self { toolchain: Toolchain::read()?, folder: target_folder()?.join(FOLDER) })
    }

    fn instrument(&self) -> Outcome {
        self.build("instrumented", &format!("-Cprofile-generate={}", self.counts().display()))
    }

    fn train(&self, tool: &std::path::Path) -> Outcome {
        let counts = self.counts();
        // Counts of another binary, or of loads that did not come to their end.
        training::remove(&counts)?;
        let system = System::new("instrumented", &self.binary("instrumented"))
            .map_err(|error| format!("{error}; build it with `cargo xtask pgo instrument`"))?;
        training::run(&system, &self.folder)?;
        profdata::merge(tool, &counts, &self.profile())?;
        // Cargo does not look at the profile's content: what was built with another one would be kept.
        training::remove(&self.folder.join("optimized"))
    }

    fn optimize(&self) -> Outcome {
        let profile = self.profile();
        if !profile.is_file() {
            return Err(format!("there is no {}; make it with `cargo xtask pgo train`", profile.display()));
        }
        self.build("optimized", &format!("-Cprofile-use={}", profile.display()))
    }

    /// Builds the release binary with one more flag for the compiler, in a folder of its own.
    fn build(&self, folder: &str, flag: &str) -> Outcome {
        let mut build = cargo(&["build", "--release", "--locked", "--package", "stele"]);
        // With a target that is named, the flags are for the product alone, not for build scripts and macros.
        build.arg("--target").arg(&self.toolchain.host);
        build.arg("--target-dir").arg(self.folder.join(folder));
        let given = |name: &str| std::env::var(name).ok();
        build.env("CARGO_ENCODED_RUSTFLAGS", joined_flags(given, flag));
        command::run(&mut build)
    }

    /// The binary that a stage has built in this folder.
    fn binary(&self, folder: &str) -> PathBuf {
        self.folder.join(folder).join(&self.toolchain.host).join("release/stele")
    }

    /// Where processes of the instrumented binary write what they have counted.
    fn counts(&self) -> PathBuf {
        self.folder.join("counts")
    }

    fn profile(&self) -> PathBuf {
        self.folder.join("stele.profdata")
    }
}
