//! The loads of the training, on clusters of three members.
//!
//! They take a minute or two: a branch that is taken a hundred thousand times tells the compiler no less than one that
//! is taken ten million times. All of it comes from the one binary, the load generator and `etcdctl` included, so no
//! other program is needed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::command::Outcome;
use crate::measure::access::Access;
use crate::measure::around;
use crate::measure::cluster::{Cluster, Site, System};
use crate::measure::generator::Load;

/// The loads; its head says how they are written.
const LOADS: &str = include_str!("training.txt");

const MEMBERS: usize = 3;

/// Ways of access, by their word in the file, in the order in which they are trained.
const ACCESSES: [(&str, Access); 2] = [
    ("clear", Access { is_secure: false, is_mutual: false, is_self_signed: false, has_users: false }),
    ("secure", Access { is_secure: true, is_mutual: false, is_self_signed: true, has_users: true }),
];

/// Runs all loads on members of `system`, which write what they have counted when they stop. `folder` is on a real
/// disk.
pub(super) fn run(system: &System, folder: &Path) -> Outcome {
    let tools = tools(system, folder)?;
    for (word, access) in ACCESSES {
        eprintln!("training with access {word}");
        let site = Site {
            folder: folder.to_owned(),
            open_files: None,
            core: None,
            flags: Vec::new(),
            access,
            tools: tools.clone(),
        };
        let mut cluster = Cluster::start(system, MEMBERS, &site)?;
        for line in lines(word) {
            eprintln!("  stele bench {line}");
            drive(&cluster, line, system)?;
        }
        cluster.stop()?;
    }
    Ok(())
}

fn drive(cluster: &Cluster, line: &str, system: &System) -> Outcome {
    let load = Load::benchmark(line).made_by(Some(system.binary()));
    let figures = around::drive(cluster, &load, Path::new(""))?;
    match figures.first_error {
        Some(error) => Err(format!("{} requests of `{line}` failed, the first one: {error}", figures.errors)),
        None if figures.requests == 0 => Err(format!("`{line}` made no request")),
        None => Ok(()),
    }
}

/// Removes a folder, if it is there.
pub(super) fn remove(folder: &Path) -> Outcome {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// A folder with the one tool that making users needs, which is the binary itself.
fn tools(system: &System, folder: &Path) -> Result<PathBuf, String> {
    let tools = folder.join("tools");
    remove(&tools)?;
    let made = fs::create_dir_all(&tools).and_then(|()| symlink(system.binary(), tools.join("etcdctl")));
    made.map_err(|error| format!("cannot fill {}: {error}", tools.display()))?;
    Ok(tools)
}

/// The lines of a way of access.
fn lines(word: &str) -> impl Iterator<Item = &'static str> {
    all().filter_map(move |(access, line)| (access == word).then_some(line))
}

/// All lines, each with its way of access.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = LOADS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').map_or((line, ""), |(access, line)| (access, line.trim_start())))
}

#[cfg(test)]
mod tests {
    //! That `stele bench` takes the lines is tested there: `crates/bench/src/line_check.rs`.
    use super::*;

    #[test]
    fn every_load_has_an_access_and_every_kind_of_request_a_load() {
        let known = |word: &str| ACCESSES.iter().any(|(access, _)| *access == word);
        assert!(all().all(|(access, line)| known(access) && !line.is_empty()));
        for (word, _) in ACCESSES {
            for kind in ["put ", "mixed --shares=get", "watch ", "lease-keepalive "] {
                assert!(lines(word).any(|line| line.starts_with(kind)), "{word}: {kind}");
            }
        }
        for kind in ["range ", "txn-put ", "stm ", "watch-latency ", "kubernetes "] {
            assert!(lines("clear").any(|line| line.starts_with(kind)), "{kind}");
        }
    }
}
