//! The part of `cargo metadata` that the checks read.

use std::env;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::command::{self, cargo};

#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    /// Ids of the packages of this repository.
    pub(crate) workspace_members: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression, when the package declares one.
    pub(crate) license: Option<String>,
    /// Where it comes from; `None` for the packages of this repository.
    pub(crate) source: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<CompilationTarget>,
    pub(crate) manifest_path: PathBuf,
}

/// What cargo builds of a package.
#[derive(Deserialize)]
pub(crate) struct CompilationTarget {
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Dependency {
    /// Whether only tests, benchmarks and examples use it.
    pub(crate) fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Package {
    /// The folder of its manifest, from the root of the repository.
    pub(crate) fn folder(&self) -> Result<String, String> {
        from_root(self.manifest_path.parent().unwrap_or(&self.manifest_path))
    }

    /// The root files of its library and its binaries, as paths from the root of the repository.
    pub(crate) fn roots(&self) -> Result<Vec<String>, String> {
        let is_product = |kind: &String| kind == "lib" || kind == "bin";
        let targets = self.targets.iter().filter(|target| target.kind.iter().any(is_product));
        targets.map(|target| from_root(&target.src_path)).collect()
    }
}

/// `path` without the folder in which every task runs.
fn from_root(path: &Path) -> Result<String, String> {
    let root = env::current_dir().map_err(|error| format!("cannot find the current folder: {error}"))?;
    let below = path.strip_prefix(&root);
    let below = below.map_err(|_| format!("{} is not below {}", path.display(), root.display()))?;
    Ok(below.to_string_lossy().into_owned())
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for an ordinary dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// The packages of this repository.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }
}

/// Asks cargo about the workspace, with the features and the platform of Linux, which is what we build for.
pub(crate) fn read() -> Result<Metadata, String> {
    let platform = "x86_64-unknown-linux-gnu";
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", platform];
    let text = command::output(&mut cargo(&arguments))?;
    serde_json::from_str(&text).map_err(|error| format!("cannot read the output of cargo metadata: {error}"))
}
