//! Steps that are one command of cargo or of a tool.

use std::process::Command;

use super::{outside, processes};
use crate::binaries;
use crate::command::{self, Outcome, cargo};

/// Seeds within which each deliberate defect must be noticed.
const DEFECT_SEEDS: &str = "60";

/// Checks the form of all code.
pub(crate) fn fmt() -> Outcome {
    command::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    for manifest in outside::MANIFESTS.into_iter().chain([processes::RUST_TESTS]) {
        command::run(&mut cargo(&["fmt", "--check", "--manifest-path", manifest]))?;
    }
    if !command::has_go("the form of Go code")? {
        return Ok(());
    }
    let unformatted = command::output(Command::new("gofmt").args(["-l", "tests"]))?;
    let files = unformatted.split_whitespace().collect::<Vec<_>>().join(" ");
    if files.is_empty() { Ok(()) } else { Err(format!("run `gofmt -w {files}`")) }
}

/// Checks all targets of the workspace; cargo checks again only what changed and what depends on it.
pub(crate) fn clippy() -> Outcome {
    command::run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

pub(super) fn docs() -> Outcome {
    let mut command = cargo(&["doc", "--no-deps", "--workspace", "--document-private-items"]);
    command::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

pub(super) fn deny() -> Outcome {
    if !command::is_installed("cargo-deny") {
        return Err("cargo-deny is not installed: `cargo install cargo-deny --locked`".to_owned());
    }
    command::run(&mut cargo(&["deny", "--all-features", "check"]))
}

/// Runs the tests of the workspace but for those of [`simulation`].
pub(super) fn test() -> Outcome {
    command::run(&mut binaries::workspace_tests())
}

/// Runs more than a hundred of the simulator's seeds, and recovers a recorded member from every cut point.
pub(super) fn simulation() -> Outcome {
    command::run(&mut binaries::simulation_tests())
}

/// What is built for [`simulation`].
pub(super) fn simulation_builds() -> Result<Vec<Command>, String> {
    let mut build = binaries::simulation_tests();
    build.arg("--no-run");
    Ok(vec![build])
}

/// Makes each deliberate defect of the simulator in turn, until it is noticed.
pub(super) fn defects() -> Outcome {
    let simulator = ["run", "--profile", "sim", "-p", "sim", "--", "--defects", DEFECT_SEEDS];
    command::run(&mut cargo(&simulator))
}
