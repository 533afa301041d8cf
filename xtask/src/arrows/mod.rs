//! The arrows of the design: which crate of ours may know which, which libraries are behind a door, and that the
//! imports between the files of a crate have no cycles.
//!
//! Direct dependencies are read from `cargo metadata` (ordinary and build ones; tests may use more), and for the
//! deterministic crates the whole tree below them from `cargo tree`, which, unlike the metadata, does not mix in the
//! features that other crates ask for. Imports are read from the source, see [`imports`]; there is no list of
//! exceptions.

mod cycles;
mod imports;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;

use crate::command::{self, cargo};
use crate::metadata::{self, Metadata, Package};
use crate::{Outcome, source};

use table::{ARROWS, DETERMINISTIC, DOORS, RUNTIMES};

/// Checks every arrow, every door and every import.
pub(crate) fn run() -> Outcome {
    let metadata = metadata::read()?;
    let mut wrong = Vec::new();
    for package in metadata.ours() {
        check_package(&metadata, package, &mut wrong);
    }
    for name in DETERMINISTIC {
        check_tree(name, &mut wrong)?;
    }
    for package in metadata.ours() {
        check_imports(package, &mut wrong)?;
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn check_imports(package: &Package, wrong: &mut Vec<String>) -> Outcome {
    for tree in source::read_package(package, &|path| fs::read_to_string(path).ok())? {
        let cycles = cycles::shortest(&imports::between_files(&tree));
        wrong.extend(cycles.iter().map(|cycle| imports::describe(&package.name, &tree, cycle)));
    }
    Ok(())
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
