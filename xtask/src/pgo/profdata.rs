//! `llvm-profdata`, which makes a profile of what processes have counted.
//!
//! Its format changes with LLVM, and each tool writes its own version: it must be of the LLVM that the compiler holds.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::toolchain::{Toolchain, major};
use crate::command::{self, Outcome};

const NAME: &str = "llvm-profdata";

/// What follows the names of files with counts.
const COUNTS: &str = "profraw";

/// Finds the tool: that of the compiler's own tools, else in the path, with or without the version in its name.
///
/// # Errors
/// There is none of the right version; says which were found and what to install.
pub(super) fn find(toolchain: &Toolchain) -> Result<PathBuf, String> {
    let candidates = candidates(toolchain);
    choose(candidates, toolchain.llvm, |tool| {
        // Without a command, old ones tell no version.
        let mut ask = Command::new(tool);
        command::output(ask.args(["merge", "--version"])).ok().as_deref().and_then(llvm_version)
    })
}

fn candidates(toolchain: &Toolchain) -> Vec<PathBuf> {
    let own = toolchain.sysroot.join("lib/rustlib").join(&toolchain.host).join("bin").join(NAME);
    let (numbered, plain) = (format!("{NAME}-{}", toolchain.llvm), NAME.to_owned());
    vec![own, numbered.into(), plain.into()]
}

/// The first candidate of this version; `version` runs one, and tells none if it is not there.
fn choose(
    candidates: Vec<PathBuf>,
    llvm: u32,
    version: impl Fn(&Path) -> Option<u32>,
) -> Result<PathBuf, String> {
    let mut found = Vec::new();
    for tool in candidates {
        match version(&tool) {
            Some(found) if found == llvm => return Ok(tool),
            Some(other) => found.push(format!("{} is of LLVM {other}", tool.display())),
            None => found.push(format!("there is no {}", tool.display())),
        }
    }
    Err(format!(
        "merging profiles needs {NAME} of LLVM {llvm}, which the compiler holds; {}. Install it with `rustup component \
         add llvm-tools`, or from the distribution's package llvm-{llvm}",
        found.join(", ")
    ))
}

/// The major version in what a tool says: `LLVM version 22.1.8`, with a distribution's name before it or not.
fn llvm_version(said: &str) -> Option<u32> {
    let (_, version) = said.split_once("LLVM version ")?;
    major(version)
}

/// Makes `profile` of all counts in `folder`.
///
/// # Errors
/// There are none, or the tool fails.
pub(super) fn merge(tool: &Path, folder: &Path, profile: &Path) -> Outcome {
    let entries = fs::read_dir(folder).map_err(|error| {
        format!("no process has left counts in {}: {error}; is the binary instrumented?", folder.display())
    })?;
    let paths = entries.flatten().map(|entry| entry.path());
    let counts: Vec<PathBuf> = paths.filter(|path| path.extension() == Some(OsStr::new(COUNTS))).collect();
    if counts.is_empty() {
        return Err(format!("there are no counts (*.{COUNTS}) in {}", folder.display()));
    }
    // Processes of one binary add what they have counted to one file, which holds the sums.
    eprintln!("merging {} files of counts", counts.len());
    command::run(Command::new(tool).args(["merge", "-o"]).arg(profile).args(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(versions: [Option<u32>; 3]) -> Result<PathBuf, String> {
        let toolchain = Toolchain { host: "h".to_owned(), llvm: 22, sysroot: "/s".into() };
        let candidates = candidates(&toolchain);
        let all = candidates.clone();
        choose(candidates, 22, |tool| versions[all.iter().position(|other| other == tool).unwrap()])
    }

    #[test]
    fn the_tool_is_that_of_the_compilers_llvm() {
        let name = |versions| chosen(versions).unwrap().display().to_string();
        assert_eq!(name([Some(22), Some(22), Some(22)]), "/s/lib/rustlib/h/bin/llvm-profdata");
        assert_eq!(name([None, Some(22), Some(14)]), "llvm-profdata-22");
        assert_eq!(name([None, None, Some(22)]), "llvm-profdata");
    }

    #[test]
    fn what_is_missing_is_said_and_what_to_install() {
        let error = chosen([None, None, Some(14)]).unwrap_err();
        for part in [
            "of LLVM 22",
            "llvm-profdata is of LLVM 14",
            "rustup component add llvm-tools",
            "package llvm-22",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn versions_are_found_behind_a_name_or_without_one() {
        assert_eq!(llvm_version("Debian LLVM version 14.0.6\n  Optimized build."), Some(14));
        assert_eq!(llvm_version("LLVM (http://llvm.org/):\n  LLVM version 22.1.2-rust-1.95.0"), Some(22));
        assert_eq!(llvm_version("USAGE: llvm-profdata"), None);
    }

    #[test]
    fn a_training_without_counts_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let merged = |folder: &Path| merge(Path::new("false"), folder, Path::new("none")).unwrap_err();
        assert!(merged(folder.path()).contains("no counts (*.profraw)"));
        assert!(merged(&folder.path().join("absent")).contains("is the binary instrumented?"));
    }
}
