//! etcdctl's commands: each checks its arguments, makes its calls and prints the answers.

mod access;
mod check;
mod endpoint;
mod kv;
mod lease;
mod locks;
mod maintenance;
mod member;
mod mirror;
pub(crate) mod ranges;
mod txn;
pub(crate) mod watch;

pub(crate) use endpoint::each_endpoint;
pub(crate) use kv::read_range;
pub(crate) use locks::stopped;

use crate::exit::{Exit, Outcome, code};
use crate::shell::Shell;

/// Runs the command with this name.
///
/// # Errors
///
/// How the command ends, if not well.
pub(crate) async fn run(shell: &mut Shell, words: &str) -> Outcome {
    let (family, rest) = words.split_once(' ').unwrap_or((words, ""));
    match (family, rest) {
        ("put", _) => kv::put(shell).await,
        ("get", _) => kv::get(shell).await,
        ("del", _) => kv::delete(shell).await,
        ("compaction", _) => kv::compact(shell).await,
        ("txn", _) => txn::run(shell).await,
        ("watch", _) => watch::run(shell).await,
        ("lease", which) => lease::run(shell, which).await,
        ("member", which) => member::run(shell, which).await,
        ("endpoint", which) => endpoint::run(shell, which).await,
        ("alarm", which) => maintenance::alarm(shell, which).await,
        ("defrag", _) => maintenance::defragment(shell).await,
        ("move-leader", _) => maintenance::move_leader(shell).await,
        ("snapshot", _) => maintenance::save_snapshot(shell).await,
        ("downgrade", which) => maintenance::downgrade(shell, which).await,
        ("lock", _) => locks::lock(shell).await,
        ("elect", _) => locks::elect(shell).await,
        ("auth" | "user" | "role", _) => access::run(shell, words).await,
        ("check", which) => check::run(shell, which).await,
        ("make-mirror", _) => mirror::run(shell).await,
        ("version", _) => version(shell),
        _ => Err(Exit::new(code::ERROR, format!("the command {words} has no implementation"))),
    }
}

/// The version of etcdctl whose behaviour this is.
fn version(shell: &mut Shell) -> Outcome {
    let full = api::version::ETCD_VERSION;
    let short = full.rsplit_once('.').map_or(full, |(short, _)| short);
    shell.say(format!("etcdctl version: {full}\nAPI version: {short}"))
}
