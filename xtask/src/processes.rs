//! Tests against real processes, under `tests/`: the release binary, real clients and a real etcd.
//!
//! Go programs are built from their published modules into `tests/.bin`; the tests find the servers through
//! `STELE_BIN` and `ETCD_BIN`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::Outcome;
use crate::command::{self, cargo};

/// Where the binaries built from Go modules are put.
const BIN: &str = "tests/.bin";

/// Which Go packages are built, from which module under `tests/`, into a binary of which name.
const BINARIES: &str = "tests/binaries.json";

/// The module of the tests that use Go's client.
const GO_TESTS: &str = "tests/go";

/// Modules with Go code of ours.
const GO_CODE: &[&str] = &[GO_TESTS, "tests/load"];

/// The package of the tests that use the `etcd-client` crate; outside of the workspace, since it needs
/// `protoc`.
pub(crate) const RUST_TESTS: &str = "tests/etcd-client/Cargo.toml";

#[derive(Deserialize)]
struct GoProgram {
    binary: String,
    module: String,
    package: String,
}

/// Builds everything and runs the tests of both clients.
pub(crate) fn run() -> Outcome {
    let stele = build_stele()?;
    if command::has_go("etcd's own clients, the comparison with etcd and the crash tests")? {
        run_go(&stele)?;
    }
    let mut rust = cargo(&["test", "--locked", "--manifest-path", RUST_TESTS]);
    // A package outside of the workspace would build into its own folder.
    command::run(rust.env("STELE_BIN", &stele).env("PROTOC", protoc()?).env("CARGO_TARGET_DIR", target()?))
}

/// Runs the tests that are written in Go, against `stele` and a real etcd.
fn run_go(stele: &Path) -> Outcome {
    let etcd = build_etcd()?.join("etcd");
    for module in GO_CODE {
        command::run(Command::new("go").current_dir(module).args(["vet", "./..."]))?;
    }
    let mut go = Command::new("go");
    // One package at a time: each starts clusters of its own.
    go.current_dir(GO_TESTS).args(["test", "-count=1", "-p", "1", "./..."]);
    command::run(go.env("STELE_BIN", stele).env("ETCD_BIN", &etcd))
}

/// Builds the release binary and returns its path.
pub(crate) fn build_stele() -> Result<PathBuf, String> {
    command::run(&mut cargo(&["build", "--release", "--locked", "--package", "stele"]))?;
    Ok(target()?.join("release/stele"))
}

/// Where cargo builds: on a real disk, and ignored by git.
pub(crate) fn target() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    absolute(Path::new(&target))
}

/// Builds the programs of [`BINARIES`] (etcd, its tools, its load generator) and returns the folder they are
/// in.
pub(crate) fn build_etcd() -> Result<PathBuf, String> {
    let text = fs::read_to_string(BINARIES).map_err(|error| format!("cannot read {BINARIES}: {error}"))?;
    let programs: Vec<GoProgram> =
        serde_json::from_str(&text).map_err(|error| format!("cannot read {BINARIES}: {error}"))?;
    fs::create_dir_all(BIN).map_err(|error| format!("cannot create {BIN}: {error}"))?;
    let bin = absolute(Path::new(BIN))?;
    for program in programs {
        let mut build = Command::new("go");
        build.current_dir(Path::new("tests").join(&program.module)).args(["build", "-trimpath", "-o"]);
        command::run(build.arg(bin.join(&program.binary)).arg(&program.package))?;
    }
    Ok(bin)
}

/// The `protoc` that the build script of the `etcd-client` crate wants.
fn protoc() -> Result<PathBuf, String> {
    protoc_bin_vendored::protoc_bin_path().map_err(|error| format!("no protoc for this platform: {error}"))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("cannot find {}: {error}", path.display()))
}
