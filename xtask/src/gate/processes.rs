//! Tests against real processes, under `tests/`: Stele's binary, real clients and a real etcd.
//!
//! The tests find the servers through `STELE_BIN` and `ETCD_BIN`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::unstable;
use crate::binaries;
use crate::command::{self, Outcome, cargo};

/// The module of the tests that use Go's client.
pub(super) const GO_TESTS: &str = "tests/go";

/// Modules with Go code of ours.
const GO_CODE: &[&str] = &[GO_TESTS, "tests/load", "tests/older-clients", "tests/older-clients/v3.6"];

/// The package of the tests that use the `etcd-client` crate; outside of the workspace, since it needs
/// `protoc`.
pub(super) const RUST_TESTS: &str = "tests/etcd-client/Cargo.toml";

/// What the clients of [`languages`] are fetched, built and run with.
const LANGUAGE_TOOLS: [&str; 4] = ["python3", "npm", "node", "mvn"];

/// What [`alerts`] compiles and evaluates the rules with.
const ALERT_TOOLS: [&str; 2] = ["jsonnet", "promtool"];

/// Builds everything and runs the tests of both clients.
pub(super) fn run() -> Outcome {
    let stele = binaries::build_for_tests()?;
    let has_go = command::has_go("etcd's own clients, the comparison with etcd and the crash tests")?;
    let report = if has_go { run_go(&stele)? } else { String::new() };
    let outcome = command::run(rust_tests(&[])?.env("STELE_BIN", &stele));
    // Last, so that nothing scrolls it away.
    eprint!("{report}");
    outcome
}

/// What is built for [`run`].
pub(super) fn builds() -> Result<Vec<Command>, String> {
    let mut builds = Vec::new();
    if command::is_go_installed() {
        builds.extend(binaries::etcd_builds()?);
        let mut go = Command::new("go");
        go.current_dir(GO_TESTS).args(["test", "-exec", "true", "./..."]);
        builds.push(go);
        let mut gotestsum = Command::new("go");
        gotestsum.current_dir(GO_TESTS).args(["tool", "-n", "gotestsum"]);
        builds.push(gotestsum);
    }
    builds.push(rust_tests(&["--no-run"])?);
    Ok(builds)
}

/// Runs the tests that are written in Go, against `stele` and a real etcd, and returns a report on those that passed
/// only when they were repeated, or were skipped; empty if there is none.
fn run_go(stele: &Path) -> Result<String, String> {
    let etcd = binaries::build_etcd()?.join("etcd");
    for module in GO_CODE {
        command::run(Command::new("go").current_dir(module).args(["vet", "./..."]))?;
    }
    let events = binaries::target_folder()?.join("go-tests.json");
    let mut go = Command::new("go");
    go.current_dir(GO_TESTS).args(["tool", "gotestsum", "--format=pkgname-and-test-fails"]);
    go.args(["--format-icons=text", "--hide-summary=skipped,output", "--packages=./..."]);
    // Each test that failed is repeated once, after all others and alone. Many failures have one cause, which is not
    // an accident of time.
    go.args(["--rerun-fails=1", "--rerun-fails-max-failures=5", "--rerun-fails-run-root-test"]);
    go.arg("--jsonfile").arg(&events);
    // Two packages at a time, and those tests of each that say so: each starts clusters of its own, and waits for
    // elections and leases most of the time.
    go.args(["--", "-count=1", "-p", "2", "-parallel", "4"]);
    command::run(go.env("STELE_BIN", stele).env("ETCD_BIN", &etcd))?;
    let text =
        fs::read_to_string(&events).map_err(|error| format!("cannot read {}: {error}", events.display()))?;
    unstable::find(&text).map(|found| unstable::report(&found))
}

/// Runs the clients in other languages than Go and Rust, with the libraries that they use, which are fetched. Where a
/// language is missing all are left out, with a line that says so.
///
/// # Errors
/// In a CI run, which must leave nothing out.
pub(super) fn languages() -> Outcome {
    let what = "clients in Python, Node and Java";
    if !has_tools(what, &LANGUAGE_TOOLS)? || !command::has_go(what)? {
        return Ok(());
    }
    let stele = binaries::build_for_tests()?;
    // One package after the other: both fetch the same libraries into the same folders.
    for package in ["./interop", "./tls"] {
        let mut go = go_tests(package, "TestOtherLanguages")?;
        go.args(["-timeout", "60m", "-languages", "python,node,java"]);
        command::run(go.env("STELE_BIN", &stele))?;
    }
    Ok(())
}

/// Runs etcd's alert rules over healthy and unhealthy clusters. Where a tool is missing they are left out, with a line
/// that says so.
///
/// # Errors
/// In a CI run, which must leave nothing out.
pub(super) fn alerts() -> Outcome {
    let what = "etcd's alert rules over clusters";
    if !has_tools(what, &ALERT_TOOLS)? || !command::has_go(what)? {
        return Ok(());
    }
    let stele = binaries::build_for_tests()?;
    let etcd = binaries::build_etcd()?.join("etcd");
    let mut go = go_tests("./metrics", "Alerts")?;
    go.args(["-timeout", "60m", "-alerts"]);
    command::run(go.env("STELE_BIN", &stele).env("ETCD_BIN", &etcd))
}

/// Runs what takes minutes beside the tests of [`run`]: copies over a slow line and from a source that outruns them,
/// etcdctl's checks of performance, and the first round of the scrub.
pub(super) fn slow() -> Outcome {
    if !command::has_go("copies over a slow line, checks of performance, and the scrub")? {
        return Ok(());
    }
    let stele = binaries::build_for_tests()?;
    let etcd = binaries::build_etcd()?.join("etcd");
    for (package, pattern, flag) in [
        ("./follow", "SlowLine|KubernetesSwitches", "-long"),
        ("./ctl", "CheckEnds", "-slow"),
        ("./etcdctl", ".", "-slow"),
        ("./corruption", "Scrub", "-slow"),
    ] {
        let mut go = go_tests(package, pattern)?;
        go.args(["-timeout", "30m", flag]);
        command::run(go.env("STELE_BIN", &stele).env("ETCD_BIN", &etcd))?;
    }
    Ok(())
}

/// A command for the tests of a package whose names match a pattern, `.` for all; flags of that package may follow.
///
/// # Errors
/// No test's name matches: `go test` would pass.
pub(super) fn go_tests(package: &str, pattern: &str) -> Result<Command, String> {
    let mut list = Command::new("go");
    let listed = command::output(list.current_dir(GO_TESTS).args(["test", package, "-list", pattern]))?;
    if !listed.lines().any(|line| line.starts_with("Test")) {
        return Err(format!("no test of {GO_TESTS}/{package} is called {pattern:?}: it was renamed"));
    }
    let mut go = Command::new("go");
    go.current_dir(GO_TESTS).args(["test", "-count=1", "-v", package, "-run", pattern]);
    Ok(go)
}

/// Whether these programs are installed; says which are not.
fn has_tools(what: &str, tools: &[&str]) -> Result<bool, String> {
    let missing: Vec<&str> = tools.iter().copied().filter(|tool| !command::is_installed(tool)).collect();
    if !missing.is_empty() && std::env::var_os("CI").is_some() {
        return Err(format!("{what}: need {}", missing.join(", ")));
    }
    if !missing.is_empty() {
        println!("SKIPPED: {what}: need {}", missing.join(", "));
    }
    Ok(missing.is_empty())
}

/// The command for the tests of the `etcd-client` crate, in the workspace's target folder: a package outside of the
/// workspace would build into its own.
fn rust_tests(arguments: &[&str]) -> Result<Command, String> {
    let mut tests = cargo(&["test", "--locked", "--manifest-path", RUST_TESTS]);
    tests.args(arguments).env("PROTOC", protoc()?).env("CARGO_TARGET_DIR", binaries::target_folder()?);
    Ok(tests)
}

/// The `protoc` that the build script of the `etcd-client` crate wants.
fn protoc() -> Result<PathBuf, String> {
    protoc_bin_vendored::protoc_bin_path().map_err(|error| format!("no protoc for this platform: {error}"))
}
