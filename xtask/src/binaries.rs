//! The binaries that processes are started from: Stele's own, and those built from Go modules.
//!
//! Go programs are built from their published modules into `tests/.bin`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::command::{self, cargo};

/// Where the binaries built from Go modules are put.
const GO_BINARIES: &str = "tests/.bin";

/// Which Go packages are built, from which module under `tests/`, into a binary of which name.
const GO_PROGRAMS: &str = "tests/binaries.json";

/// Those of them that put load on a server.
const LOAD_GENERATORS: &[&str] = &["benchmark", "load"];

#[derive(Deserialize)]
struct GoProgram {
    binary: String,
    module: String,
    package: String,
}

/// Builds Stele's binary as it is published, one unit of code that is optimized as a whole, and returns its path.
pub(crate) fn build_release() -> Result<PathBuf, String> {
    command::run(&mut cargo(&["build", "--release", "--locked", "--package", "stele"]))?;
    Ok(target_folder()?.join("release/stele"))
}

/// Builds Stele's binary for tests, with debug assertions and without optimization, and returns its path.
///
/// It is built with the tests of the workspace: its own tests make cargo build it, and after the step that runs them
/// nothing is left to do. Optimizing it would compile every library once more, which takes longer than the tests of
/// real processes gain by it.
pub(crate) fn build_for_tests() -> Result<PathBuf, String> {
    command::run(workspace_tests().arg("--no-run"))?;
    Ok(target_folder()?.join("debug/stele"))
}

/// The command that runs the tests of the workspace but for those of [`simulation_tests`].
pub(crate) fn workspace_tests() -> Command {
    cargo(&["test", "--locked", "--workspace", "--exclude", "sim", "--exclude", "powerloss"])
}

/// The command that runs the tests of the simulator and of power loss, in a profile of their own: without optimization
/// they are thirty times slower.
pub(crate) fn simulation_tests() -> Command {
    cargo(&["test", "--locked", "--profile", "sim", "-p", "sim", "-p", "powerloss"])
}

/// Builds etcd, its tools and its load generator, and returns the folder they are in.
pub(crate) fn build_etcd() -> Result<PathBuf, String> {
    build_all(etcd_builds()?)
}

/// Builds the load generators alone, and returns the folder they are in.
pub(crate) fn build_load_generators() -> Result<PathBuf, String> {
    build_all(go_builds(|binary| LOAD_GENERATORS.contains(&binary))?)
}

fn build_all(builds: Vec<Command>) -> Result<PathBuf, String> {
    for mut build in builds {
        command::run(&mut build)?;
    }
    absolute(Path::new(GO_BINARIES))
}

/// The commands that build the programs of [`GO_PROGRAMS`].
pub(crate) fn etcd_builds() -> Result<Vec<Command>, String> {
    go_builds(|_| true)
}

/// The commands that build some of the programs of [`GO_PROGRAMS`].
fn go_builds(wanted: impl Fn(&str) -> bool) -> Result<Vec<Command>, String> {
    let text =
        fs::read_to_string(GO_PROGRAMS).map_err(|error| format!("cannot read {GO_PROGRAMS}: {error}"))?;
    let programs: Vec<GoProgram> =
        serde_json::from_str(&text).map_err(|error| format!("cannot read {GO_PROGRAMS}: {error}"))?;
    fs::create_dir_all(GO_BINARIES).map_err(|error| format!("cannot create {GO_BINARIES}: {error}"))?;
    let folder = absolute(Path::new(GO_BINARIES))?;
    let build = |program: GoProgram| {
        let mut build = Command::new("go");
        build.current_dir(Path::new("tests").join(&program.module)).args(["build", "-trimpath", "-o"]);
        build.arg(folder.join(&program.binary)).arg(&program.package);
        build
    };
    Ok(programs.into_iter().filter(|program| wanted(&program.binary)).map(build).collect())
}

/// Where cargo builds: on a real disk, and ignored by git.
pub(crate) fn target_folder() -> Result<PathBuf, String> {
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    absolute(Path::new(&folder))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("cannot find {}: {error}", path.display()))
}
