//! The test executables of the workspace: built by one command, run one by one.
//!
//! `cargo test -p CRATE` would build the libraries with the features of that crate alone, apart from those of the
//! whole workspace, and so build everything once more for each choice of crates.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::command::{self, Outcome, cargo};

/// The simulator's package and binary.
const SIMULATOR: &str = "sim";

/// Crates whose tests are slow without optimization: the gate runs them with it.
const LEFT_OUT: [&str; 2] = [SIMULATOR, "powerloss"];

/// Seeds that every run replays: a short one each for the two processors that a machine has at least.
const SEEDS: [&str; 2] = ["3", "7"];

/// What was built.
#[derive(Default)]
pub(super) struct Executables {
    tests: Vec<Test>,
    simulator: Option<PathBuf>,
}

struct Test {
    krate: String,
    /// The folder of the crate, where cargo would run it.
    folder: PathBuf,
    path: PathBuf,
}

/// A line of cargo's output.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    package_id: Option<String>,
    profile: Option<MessageProfile>,
    target: Option<MessageTarget>,
}

#[derive(Deserialize)]
struct MessageProfile {
    test: bool,
}

#[derive(Deserialize)]
struct MessageTarget {
    name: String,
}

/// Builds the tests of the whole workspace; cargo compiles only what changed and what depends on it.
pub(super) fn build() -> Result<Executables, String> {
    let arguments = [
        "test",
        "--workspace",
        "--lib",
        "--bins",
        "--tests",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ];
    let mut command = cargo(&arguments);
    let line = command::describe(&command);
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("cannot run `{line}`: {error}"))?;
    let mut executables = Executables::default();
    for message in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufReader::lines) {
        let message = message.map_err(|error| format!("cannot read from `{line}`: {error}"))?;
        let message = serde_json::from_str(&message);
        executables.add(message.map_err(|error| format!("cannot read a message of cargo: {error}"))?);
    }
    let status = child.wait().map_err(|error| format!("`{line}` was lost: {error}"))?;
    if status.success() { Ok(executables) } else { Err(format!("`{line}` failed ({status})")) }
}

impl Executables {
    fn add(&mut self, message: Message) {
        let Message { executable: Some(path), manifest_path: Some(manifest), package_id: Some(id), .. } =
            message
        else {
            return;
        };
        let is_test = message.profile.is_some_and(|profile| profile.test);
        let name = message.target.map(|target| target.name);
        if is_test {
            let folder = manifest.parent().map(Path::to_path_buf).unwrap_or_default();
            self.tests.push(Test { krate: crate_name(&id).to_owned(), folder, path });
        } else if name.as_deref() == Some(SIMULATOR) {
            self.simulator = Some(path);
        }
    }

    /// Runs the tests of these crates, apart from those of [`LEFT_OUT`].
    pub(super) fn run(&self, crates: &BTreeSet<String>) -> Outcome {
        let chosen = |test: &&Test| crates.contains(&test.krate) && !LEFT_OUT.contains(&test.krate.as_str());
        for test in self.tests.iter().filter(chosen) {
            let mut command = Command::new(&test.path);
            command.current_dir(&test.folder).env("CARGO_MANIFEST_DIR", &test.folder).arg("--quiet");
            eprintln!("{}: {}", test.krate, command::describe(&command));
            command::run(&mut command)?;
        }
        Ok(())
    }

    /// Replays a few seeds, side by side.
    pub(super) fn run_seeds(&self) -> Outcome {
        let simulator = self.simulator.as_ref().ok_or("cargo built no simulator")?;
        let start = |seed: &str| {
            let child = Command::new(simulator).args(["--seed", seed]).stdout(Stdio::null()).spawn();
            child.map_err(|error| format!("cannot run {}: {error}", simulator.display()))
        };
        let children: Vec<_> = SEEDS.iter().map(|seed| start(seed)).collect();
        for (child, seed) in children.into_iter().zip(SEEDS) {
            let status = child?.wait().map_err(|error| format!("seed {seed} was lost: {error}"))?;
            if !status.success() {
                return Err(format!("`{} --seed {seed}` failed", simulator.display()));
            }
        }
        Ok(())
    }
}

/// The name of a package in an id: `path+file:///a/crates/log#stele-log@0.1.0`, or `...sim#0.1.0` when the folder is
/// called like the package.
fn crate_name(id: &str) -> &str {
    let (folder, version) = id.rsplit_once('#').unwrap_or((id, ""));
    version.split_once('@').map_or_else(|| folder.rsplit('/').next().unwrap_or(folder), |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_the_simulator_are_found_among_the_messages() {
        let artifact = |id: &str, name: &str, is_test: bool, executable: Option<&str>| {
            serde_json::json!({
                "reason": "compiler-artifact", "package_id": id, "manifest_path": "/x/Cargo.toml",
                "target": { "name": name }, "profile": { "test": is_test }, "executable": executable,
            })
        };
        let lines = [
            artifact("path+file:///x/crates/log#stele-log@0.1.0", "log", true, Some("/t/log-1")),
            artifact("path+file:///x/sim#0.1.0", "sim", false, Some("/t/sim")),
            artifact("path+file:///x/sim#0.1.0", "seeds", true, Some("/t/seeds-1")),
            artifact("registry+x#bytes@1.0.0", "bytes", false, None),
            serde_json::json!({ "reason": "build-finished", "success": true }),
        ];
        let mut executables = Executables::default();
        lines.into_iter().for_each(|line| executables.add(serde_json::from_value(line).unwrap()));
        let found: Vec<_> =
            executables.tests.iter().map(|test| (test.krate.as_str(), test.path.to_str().unwrap())).collect();
        assert_eq!(found, [("stele-log", "/t/log-1"), ("sim", "/t/seeds-1")]);
        assert_eq!(executables.simulator, Some(PathBuf::from("/t/sim")));
    }
}
