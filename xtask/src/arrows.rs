//! The dependency arrows: which crate of ours may know which, and which libraries are behind a door.
//!
//! This table is the only place where an arrow is allowed. Direct dependencies are read from `cargo metadata`
//! (ordinary and build ones; tests may use more), and for the deterministic crates the whole tree below them
//! from `cargo tree`, which, unlike the metadata, does not mix in the features that other crates ask for.

use std::collections::BTreeSet;

use crate::Outcome;
use crate::command::{self, cargo};
use crate::metadata::{self, Metadata, Package};

/// A crate of ours and the crates of ours it may depend on.
struct Arrow {
    from: &'static str,
    to: &'static [&'static str],
    reason: &'static str,
}

const ARROWS: &[Arrow] = &[
    Arrow { from: "stele-api", to: &[], reason: "wire types know nobody" },
    Arrow { from: "stele-crc32c", to: &[], reason: "it sums bytes" },
    Arrow {
        from: "stele-log",
        to: &["stele-crc32c"],
        reason: "files hold bytes: not what they mean, nor who agreed on them",
    },
    Arrow {
        from: "stele-store",
        to: &["stele-api", "stele-crc32c"],
        reason: "the state machine knows requests, not files or raft",
    },
    Arrow {
        from: "stele-consensus",
        to: &["stele-crc32c"],
        reason: "agreement is on bytes; its log is fed by member",
    },
    Arrow {
        from: "stele-member",
        to: &["stele-api", "stele-consensus", "stele-crc32c", "stele-log", "stele-store"],
        reason: "the one place that ties log, store and consensus",
    },
    Arrow {
        from: "stele-transport",
        to: &["stele-crc32c"],
        reason: "it moves frames of bytes between members",
    },
    Arrow {
        from: "stele-server",
        to: &["stele-api", "stele-log", "stele-member", "stele-store", "stele-transport"],
        reason: "the edge: threads, disks, sockets and services around a member; raft stays behind member",
    },
    Arrow { from: "stele", to: &["stele-server"], reason: "the binary chooses an entry point" },
    Arrow {
        from: "sim",
        to: &["stele-api", "stele-consensus", "stele-crc32c", "stele-log", "stele-member", "stele-store"],
        reason: "it drives the same core, without the edge",
    },
    Arrow {
        from: "powerloss",
        to: &["stele-api", "stele-log", "stele-member", "stele-store"],
        reason: "it runs a member over a disk that records, without sockets and services",
    },
    Arrow { from: "xtask", to: &[], reason: "the gate must build when the product does not" },
];

/// Libraries and the only crates of ours that may depend on them.
struct Door {
    libraries: &'static [&'static str],
    only: &'static [&'static str],
    reason: &'static str,
}

const DOORS: &[Door] = &[
    Door {
        libraries: &["crc-fast"],
        only: &["stele-crc32c"],
        reason: "formats name the sum; who computes it can be replaced in one crate",
    },
    Door {
        libraries: &["raft", "raft-proto", "protobuf", "slog"],
        only: &["stele-consensus"],
        reason: "the raft library, its codec and its logger can be replaced in one crate",
    },
    Door {
        libraries: &["tokio", "tokio-stream", "hyper", "hyper-util", "axum", "tower", "h2"],
        only: &["stele-server", "stele-transport"],
        reason: "runtimes and sockets are the edge's",
    },
    Door {
        libraries: &["prost"],
        only: &["stele-api", "stele-member", "stele-server", "sim", "powerloss"],
        reason: "wire bytes are made and read at the door: member decodes commands, server the streams, sim and \
                 powerloss play the clients",
    },
    Door {
        libraries: &["rustix"],
        only: &["stele", "stele-log", "stele-server", "stele-transport"],
        reason: "the system is called where the process, the files and the peers' sockets are",
    },
];

/// Crates whose whole tree must be free of [`RUNTIMES`].
const DETERMINISTIC: &[&str] = &["stele-log", "stele-store", "stele-consensus", "stele-member", "sim"];

const RUNTIMES: &[&str] = &["tokio", "mio", "hyper", "h2", "async-std", "smol"];

/// Checks every arrow and every door.
pub(crate) fn run() -> Outcome {
    let metadata = metadata::read()?;
    let mut wrong = Vec::new();
    for package in metadata.ours() {
        check_package(&metadata, package, &mut wrong);
    }
    for name in DETERMINISTIC {
        check_tree(name, &mut wrong)?;
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn check_package(metadata: &Metadata, package: &Package, wrong: &mut Vec<String>) {
    let name = package.name.as_str();
    let Some(arrow) = ARROWS.iter().find(|arrow| arrow.from == name) else {
        wrong.push(format!("{name} is not in the table of arrows: say what it may know, and why"));
        return;
    };
    let ours: BTreeSet<&str> = metadata.ours().map(|package| package.name.as_str()).collect();
    for dependency in package.dependencies.iter().filter(|found| found.kind.as_deref() != Some("dev")) {
        let to = dependency.name.as_str();
        if ours.contains(to) && !arrow.to.contains(&to) {
            wrong.push(format!("{name} must not depend on {to}: {}", arrow.reason));
        }
        let closed = DOORS.iter().find(|door| door.libraries.contains(&to) && !door.only.contains(&name));
        if let Some(door) = closed {
            wrong.push(format!("{name} must not depend on {to}: {}", door.reason));
        }
    }
}

fn check_tree(name: &str, wrong: &mut Vec<String>) -> Outcome {
    let arguments = ["tree", "--locked", "-p", name, "-e", "normal", "--prefix", "none", "-f", "{p}"];
    let tree = command::output(&mut cargo(&arguments))?;
    let below: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    for runtime in RUNTIMES.iter().filter(|runtime| below.contains(**runtime)) {
        wrong.push(format!(
            "{name} reaches {runtime}: see `cargo tree -p {name} -e normal -i {runtime}`; the core is plain \
             synchronous code"
        ));
    }
    Ok(())
}
