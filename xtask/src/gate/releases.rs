//! Clusters that mix this release with older ones, which are built from their commits.
//!
//! ```text
//! git worktree add target/releases/tree COMMIT     a checkout of its own, so that nothing here changes
//! cargo build in it, into target/releases/build    -> target/releases/stele-COMMIT
//! go test ./membership -run Releases -old .. -same ..
//! ```
//!
//! Besides, etcd 3.6 takes what a member sends and exports while a downgrade to 3.6 is enabled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::processes::go_tests;
use crate::binaries;
use crate::command::{self, Outcome, cargo};

/// The last commit before changes of membership were commands: it knows the first command set only.
const FIRST_COMMAND_SET: &str = "87284cc161ed";

/// The commit before the one that is checked out, which mixes with it for good if both know the same commands.
const BEFORE: &str = "HEAD^";

/// The Go module that pins etcdutl and etcd 3.6, and their packages.
const OLDER_ETCD: &str = "tests/older-utl";
const OLDER_TOOL: &str = "go.etcd.io/etcd/etcdutl/v3";
const OLDER_SERVER: &str = "go.etcd.io/etcd/server/v3";

/// Where the newest command set is defined, and how.
const COMMAND_SETS: (&str, &str) =
    ("crates/member/src/membership/command_sets.rs", "pub const NEWEST_COMMAND_SET: u8 =");

/// Rolls clusters from older releases to this one and back, under load.
pub(super) fn run() -> Outcome {
    if !command::has_go("clusters of mixed releases")? {
        return Ok(());
    }
    let stele = binaries::build_for_tests()?;
    let mut go = go_tests("./membership", "Releases")?;
    go.args(["-timeout", "30m", "-old"]).arg(build(FIRST_COMMAND_SET)?);
    let newest = newest_command_set("HEAD");
    let newest = newest.ok_or_else(|| format!("{} has no line {:?}", COMMAND_SETS.0, COMMAND_SETS.1))?;
    if newest_command_set(BEFORE).is_some_and(|before| before == newest) {
        go.arg("-same").arg(build(BEFORE)?);
    } else {
        println!(
            "SKIPPED: {BEFORE} and this release, which can be mixed in one direction only: their commands differ"
        );
    }
    command::run(go.env("STELE_BIN", &stele))?;
    let tool = older_etcd("etcdutl-3.6", OLDER_TOOL)?;
    let mut go = go_tests("./dbfile", "AnOlderTool")?;
    command::run(go.arg("-older-utl").arg(tool).env("STELE_BIN", &stele))?;
    let server = older_etcd("etcd-3.6", OLDER_SERVER)?;
    let mut go = go_tests("./utl", "AnOlderReleaseGoesOn")?;
    command::run(go.arg("-older").arg(server).env("STELE_BIN", &stele))
}

/// Builds a program of etcd 3.6.
fn older_etcd(name: &str, package: &str) -> Result<PathBuf, String> {
    let program = target_file(name)?;
    let mut build = Command::new("go");
    command::run(build.current_dir(OLDER_ETCD).args(["build", "-o"]).arg(&program).arg(package))?;
    Ok(program)
}

/// A file among the binaries of older releases.
fn target_file(name: &str) -> Result<PathBuf, String> {
    let folder = binaries::target_folder()?.join("releases");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    Ok(folder.join(name))
}

/// The line that names the newest command set of a commit; none if that stands elsewhere.
fn newest_command_set(commit: &str) -> Option<String> {
    let (path, begin) = COMMAND_SETS;
    let text = command::output(Command::new("git").args(["show", &format!("{commit}:{path}")])).ok()?;
    text.lines().find(|line| line.starts_with(begin)).map(str::to_owned)
}

/// The binary of a commit, built for tests unless that was done before.
fn build(commit: &str) -> Result<PathBuf, String> {
    let name = format!("{commit}^{{commit}}");
    let id = command::output(Command::new("git").args(["rev-parse", "--verify", &name]))
        .map_err(|error| format!("{error}; a clone without its history needs `git fetch --unshallow`"))?;
    let binary = target_file(&format!("stele-{}", id.trim()))?;
    if binary.is_file() {
        return Ok(binary);
    }
    let tree = target_file("tree")?;
    // One of an earlier run that was interrupted.
    let _ = remove(&tree);
    let mut add = Command::new("git");
    add.args(["worktree", "add", "--force", "--detach"]).arg(&tree).arg(id.trim());
    command::run(&mut add)?;
    let built = build_in(&tree, &target_file("build")?);
    remove(&tree)?;
    fs::copy(built?, &binary).map_err(|error| format!("cannot write {}: {error}", binary.display()))?;
    Ok(binary)
}

/// Builds the binary of a checkout. Libraries are shared by all commits that use the same ones.
fn build_in(tree: &Path, target: &Path) -> Result<PathBuf, String> {
    let mut build = cargo(&["build", "--locked", "--package", "stele"]);
    command::run(build.current_dir(tree).env("CARGO_TARGET_DIR", target))?;
    Ok(target.join("debug/stele"))
}

fn remove(tree: &Path) -> Outcome {
    command::output(Command::new("git").args(["worktree", "remove", "--force"]).arg(tree)).map(drop)
}
