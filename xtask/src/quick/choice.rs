//! Which crates to test, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::Command;

use crate::command;
use crate::metadata::{Metadata, Package};

/// Files that concern every crate.
const OF_ALL: &[&str] =
    &["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "clippy.toml", "edge.clippy.toml", ".cargo/"];

/// Branches from which changes are counted, the first that exists.
const MAIN: &[&str] = &["origin/main", "main"];

/// The crates to test.
pub(super) struct Choice {
    /// Why each was chosen: the name of the crate, and a reason.
    reasons: BTreeMap<String, String>,
    /// Changed files that belong to no crate of the workspace.
    others: Vec<String>,
    pub(super) tested: BTreeSet<String>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, reason) in &self.reasons {
            writeln!(f, "{name}: {reason}")?;
        }
        if self.reasons.is_empty() {
            writeln!(f, "no crate of the workspace has changed: text and imports are checked, no tests run")?;
        }
        if let Some(first) = self.others.first() {
            writeln!(
                f,
                "{} changed files are in no crate of the workspace ({first}): see the gate",
                self.others.len()
            )?;
        }
        Ok(())
    }
}

/// Chooses the crates `named`, else those that changed, and all that depend on them.
pub(super) fn of(metadata: &Metadata, named: &[String]) -> Result<Choice, String> {
    let packages: Vec<&Package> = metadata.ours().collect();
    if named.is_empty() {
        let base = base()?;
        let files = changed(&base)?;
        let folders = folders(&packages)?;
        Ok(choose(&packages, &|file| crate_of(&folders, file), &files, &base))
    } else {
        let mut reasons = BTreeMap::new();
        for name in named {
            let is_it =
                |package: &&&Package| package.name == *name || package.name == format!("stele-{name}");
            let package = packages.iter().find(is_it).ok_or_else(|| format!("there is no crate {name:?}"))?;
            reasons.insert(package.name.clone(), "named".to_owned());
        }
        Ok(with_dependents(&packages, reasons, Vec::new()))
    }
}

/// The commit since which changes are counted: the merge base with main.
fn base() -> Result<String, String> {
    for branch in MAIN {
        let merge_base = command::output(Command::new("git").args(["merge-base", "HEAD", branch]));
        if let Ok(commit) = merge_base {
            return Ok(commit.trim().to_owned());
        }
    }
    command::output(Command::new("git").args(["rev-parse", "HEAD"])).map(|commit| commit.trim().to_owned())
}

/// The files that differ from `base`: committed or not, tracked or not yet.
fn changed(base: &str) -> Result<Vec<String>, String> {
    let tracked = command::output(Command::new("git").args(["diff", "--name-only", base]))?;
    let new = command::output(Command::new("git").args(["ls-files", "--others", "--exclude-standard"]))?;
    Ok(tracked.lines().chain(new.lines()).map(str::to_owned).collect())
}

/// The folders of the crates with their names.
fn folders(packages: &[&Package]) -> Result<Vec<(String, String)>, String> {
    packages.iter().map(|package| Ok((package.folder()?, package.name.clone()))).collect()
}

fn crate_of(folders: &[(String, String)], file: &str) -> Option<String> {
    let holds = |folder: &str| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let wire_types = || file.starts_with("proto/").then(|| "stele-api".to_owned());
    folders.iter().find(|(folder, _)| holds(folder)).map(|(_, name)| name.clone()).or_else(wire_types)
}

fn choose(
    packages: &[&Package],
    crate_of: &dyn Fn(&str) -> Option<String>,
    files: &[String],
    base: &str,
) -> Choice {
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    let mut others = Vec::new();
    for file in files {
        if OF_ALL.iter().any(|of_all| file == of_all || (of_all.ends_with('/') && file.starts_with(of_all))) {
            let all =
                packages.iter().map(|package| (package.name.clone(), format!("{file} changed since {base}")));
            reasons.extend(all);
        } else if let Some(name) = crate_of(file) {
            reasons.entry(name).or_insert_with(|| format!("{file} changed since {base}"));
        } else {
            others.push(file.clone());
        }
    }
    with_dependents(packages, reasons, others)
}

/// Adds the crates that depend on the chosen ones, directly or through others. What a crate uses only in its tests
/// concerns that crate, but none that depends on it.
fn with_dependents(
    packages: &[&Package],
    mut reasons: BTreeMap<String, String>,
    others: Vec<String>,
) -> Choice {
    let mut pending: Vec<String> = reasons.keys().cloned().collect();
    let mut in_tests = Vec::new();
    while let Some(chosen) = pending.pop() {
        for package in packages {
            let Some(dependency) = package.dependencies.iter().find(|found| found.name == chosen) else {
                continue;
            };
            if dependency.is_for_tests() {
                in_tests.push((package.name.clone(), format!("its tests use {chosen}")));
            } else if !reasons.contains_key(&package.name) {
                reasons.insert(package.name.clone(), format!("depends on {chosen}"));
                pending.push(package.name.clone());
            }
        }
    }
    for (name, reason) in in_tests {
        reasons.entry(name).or_insert(reason);
    }
    let tested = reasons.keys().cloned().collect();
    Choice { reasons, others, tested }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies: Vec<_> = dependencies
            .iter()
            .map(|(name, kind)| serde_json::json!({ "name": name, "kind": kind }))
            .collect();
        let text = serde_json::json!({
            "id": name, "name": name, "version": "1.0.0", "license": null, "source": null, "targets": [],
            "manifest_path": "/x/Cargo.toml", "dependencies": dependencies,
        });
        serde_json::from_value(text).unwrap()
    }

    fn tested(files: &[&str]) -> Vec<String> {
        let packages = [
            package("stele-log", &[]),
            package("stele-member", &[("stele-log", None)]),
            package("stele-server", &[("stele-member", None), ("tempfile", Some("dev"))]),
            package("rig", &[("stele-log", Some("dev"))]),
            package("uses-rig", &[("rig", None)]),
        ];
        let packages: Vec<&Package> = packages.iter().collect();
        let folders = [("crates/log", "stele-log"), ("crates/member", "stele-member")];
        let folders: Vec<(String, String)> =
            folders.iter().map(|(folder, name)| ((*folder).to_owned(), (*name).to_owned())).collect();
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        choose(&packages, &|file| crate_of(&folders, file), &files, "main").tested.into_iter().collect()
    }

    #[test]
    fn what_depends_on_a_changed_crate_is_tested_too() {
        assert_eq!(tested(&["crates/member/src/lib.rs"]), ["stele-member", "stele-server"]);
        assert_eq!(tested(&["crates/log/src/a.rs"]), ["rig", "stele-log", "stele-member", "stele-server"]);
    }

    #[test]
    fn files_of_no_crate_concern_none_and_the_manifest_concerns_all() {
        assert_eq!(tested(&["docs/a.md", "crates/logger/x.rs", "tests/go/a.go"]), Vec::<String>::new());
        assert_eq!(tested(&["docs/a.md", "Cargo.lock"]).len(), 5);
    }
}
