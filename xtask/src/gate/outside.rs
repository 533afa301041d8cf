//! Packages outside of the workspace, because their libraries are others than the product's: the fuzz targets and the
//! tests of what runs in parallel.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::binaries::target_folder;
use crate::command::{self, Outcome, cargo};

/// Where the fuzz targets and their corpora are.
const FUZZ: &str = "fuzz";

/// The tests under shuttle.
const PARALLEL: &str = "tests/parallel/Cargo.toml";

/// The packages, for the steps that look at the form of all code.
pub(super) const MANIFESTS: [&str; 2] = ["fuzz/Cargo.toml", PARALLEL];

/// Seconds for which each target looks for new inputs.
const SECONDS: u32 = 60;

/// Limits for libFuzzer: resident memory, seconds and bytes of one input.
const LIMITS: [&str; 3] = ["-rss_limit_mb=1024", "-timeout=10", "-max_len=16384"];

/// Runs the tests under shuttle.
pub(super) fn parallel() -> Outcome {
    command::run(&mut parallel_tests(&[])?)
}

/// What is built for [`parallel`].
pub(super) fn parallel_builds() -> Result<Vec<Command>, String> {
    Ok(vec![parallel_tests(&["--no-run"])?])
}

/// The command for the tests under shuttle, in the workspace's target folder: libraries without locks are those of the
/// other tests, so they are not built again.
fn parallel_tests(arguments: &[&str]) -> Result<Command, String> {
    let mut tests = cargo(&["test", "--locked", "--manifest-path", PARALLEL]);
    tests.args(arguments).env("CARGO_TARGET_DIR", target_folder()?);
    Ok(tests)
}

/// Runs each fuzz target for [`SECONDS`], beginning with its corpus. What it finds beyond is kept under the target
/// folder, so that the corpora in the repository stay small.
pub(super) fn fuzz() -> Outcome {
    if !has_fuzzer()? {
        return Ok(());
    }
    let folder = target_folder()?.join("fuzz");
    for name in targets()? {
        let found = folder.join("corpus").join(&name);
        fs::create_dir_all(&found).map_err(|error| format!("cannot create {}: {error}", found.display()))?;
        let mut fuzzer = nightly_cargo();
        fuzzer.current_dir(FUZZ).args(["fuzz", "run", "--sanitizer", "none", "--target-dir"]);
        fuzzer.arg(&folder).arg(&name).arg(&found).arg(Path::new("corpus").join(&name));
        fuzzer
            .arg("--")
            .args(LIMITS)
            .args([format!("-max_total_time={SECONDS}"), "-print_final_stats=1".into()]);
        command::run(&mut fuzzer)?;
    }
    Ok(())
}

/// The names of all targets, in order.
fn targets() -> Result<Vec<String>, String> {
    let folder = Path::new(FUZZ).join("targets");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Whether cargo-fuzz and a nightly toolchain are there. Without them fuzzing is left out, with a line that says so.
///
/// # Errors
/// In a CI run, which must leave nothing out.
fn has_fuzzer() -> Result<bool, String> {
    let answers = nightly_cargo().args(["fuzz", "--version"]).output();
    let found = answers.is_ok_and(|output| output.status.success());
    let missing = "the fuzz targets: need a nightly toolchain and `cargo install cargo-fuzz --locked`";
    if !found && std::env::var_os("CI").is_some() {
        return Err(missing.to_owned());
    }
    if !found {
        println!("SKIPPED: {missing}");
    }
    Ok(found)
}

/// The cargo of the nightly toolchain: libFuzzer needs the compiler's coverage, which stable does not give.
fn nightly_cargo() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]);
    command
}
