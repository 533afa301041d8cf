//! Commands that etcdctl does not have: for the operators of this store, under its own name only.

mod backup;
mod cluster;
mod diff;
mod follow;
pub(crate) mod hints;
mod pages;
mod reload;
mod status;
mod top;

use crate::exit::Outcome;
use crate::shell::Shell;

/// Runs the command with this name, if it is one of these.
pub(crate) async fn run(shell: &mut Shell, words: &str) -> Option<Outcome> {
    match words {
        "status" => Some(status::run(shell).await),
        "top" => Some(top::run(shell).await),
        "reload" => Some(reload::run(shell).await),
        "diff" => Some(diff::run(shell).await),
        "backup" => Some(backup::run(shell).await),
        "follow" => Some(follow::run(shell).await),
        _ => None,
    }
}
