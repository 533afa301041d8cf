//! The commands of etcd's `benchmark`: the same requests, and the same lines around the report.

mod keys;
mod lease;
mod put;
mod range;
mod stm;
mod stm_locks;
mod txn;
mod watch;
mod watch_get;
mod watch_latency;
pub(crate) mod watchers;

pub(crate) use keys::{check_key_space, number_key, random_bytes};
pub(crate) use range::pages;
pub(crate) use txn::put_if;

use crate::cli::Task;
use crate::cli::etcd::{CompletionOptions, ShellName};
use crate::session::BenchSession;

/// Runs a command of `benchmark`.
///
/// # Errors
/// One line that says what was wrong.
pub(crate) async fn run(session: &mut BenchSession, task: &Task) -> Result<(), String> {
    match task {
        Task::Put(options) => put::run(session, options).await,
        Task::Range(options) => range::run(session, options).await,
        Task::TxnPut(options) => txn::put(session, options).await,
        Task::TxnMixed(options) => txn::mixed(session, options).await,
        Task::Stm(options) => stm::run(session, options).await,
        Task::LeaseKeepalive(options) => lease::run(session, options).await,
        Task::Watch(options) => watch::run(session, options).await,
        Task::WatchGet(options) => watch_get::run(session, options).await,
        Task::WatchLatency(options) => watch_latency::run(session, options).await,
        _ => Err("this command does not make requests".to_owned()),
    }
}

/// The script that makes a shell complete lines.
pub(crate) fn completion(options: &CompletionOptions, mut definition: clap::Command) -> String {
    let shell = match options.shell {
        ShellName::Bash => clap_complete::Shell::Bash,
        ShellName::Fish => clap_complete::Shell::Fish,
        ShellName::Powershell => clap_complete::Shell::PowerShell,
        ShellName::Zsh => clap_complete::Shell::Zsh,
    };
    let name = definition.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definition, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Why `mvcc put` does nothing: it measures the Go package that stores etcd's keys, without a server.
pub(crate) fn no_mvcc() -> String {
    "mvcc put measures etcd's own storage package without a server, which is not part of Stele: use etcd's benchmark \
     for it, and `put` for a server"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn each_shell_gets_a_script_that_it_can_read() {
        for own_name in [true, false] {
            let name = if own_name { "stele" } else { "benchmark" };
            for shell in [ShellName::Bash, ShellName::Fish, ShellName::Powershell, ShellName::Zsh] {
                let is_bash = matches!(shell, ShellName::Bash);
                let options = CompletionOptions { shell, no_descriptions: false };
                let script = completion(&options, crate::cli::for_scripts(own_name));
                assert!(script.contains(name) && script.contains("key-space-size"), "{script}");
                let called =
                    ["complete -c stele bench", "#compdef stele bench", "'stele bench'", "_stele bench"];
                assert!(called.iter().all(|called| !script.contains(called)), "{script}");
                assert!(!is_bash || bash_reads(&script), "{script}");
            }
        }
    }

    fn bash_reads(script: &str) -> bool {
        let bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn();
        let mut bash = bash.expect("there is a bash");
        bash.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("it reads");
        bash.wait().expect("it ends").success()
    }
}
