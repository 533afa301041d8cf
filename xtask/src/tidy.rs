//! Tidy: the rules of STYLE.md about text, checked over the files that git knows.
//!
//! Each rule is a function from a file to findings; a finding names file, line and what to do. What a rule
//! cannot ask of some file is written in `xtask/ratchet.txt` as a number that may only shrink, see
//! [`ratchet`]. Generated code (a folder named `generated`) is nobody's style and is checked for nothing but
//! forbidden words.

mod dependencies;
mod links;
mod ratchet;
mod rules;
#[cfg(test)]
mod tests;

use std::fs;
use std::process::Command;

use crate::{Outcome, command};
use ratchet::Ratchet;

/// A text file of the repository.
struct File {
    /// From the root of the repository.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_generated(&self) -> bool {
        self.path.split('/').any(|part| part == "generated")
    }

    /// Whether the whole file is test code.
    fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        parts.iter().any(|part| ["tests", "benches", "tests.rs"].contains(part))
    }
}

/// Something that breaks a rule.
struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: &File, line: usize, what: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, what: what.into() }
    }
}

/// Checks all files.
pub(crate) fn run() -> Outcome {
    let files = read_files()?;
    let mut ratchet = Ratchet::read()?;
    let mut findings: Vec<Finding> = files.iter().flat_map(|file| check(file, &mut ratchet)).collect();
    findings.extend(links::check(&files));
    findings.extend(dependencies::check(&files));
    findings.extend(ratchet.unused());
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        eprintln!("{}:{}: {}", finding.path, finding.line, finding.what);
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("{count} findings in {} files checked", files.len())),
    }
}

fn check(file: &File, ratchet: &mut Ratchet) -> Vec<Finding> {
    let mut findings = rules::name(file);
    findings.extend(rules::places(file));
    if file.is_generated() {
        return findings;
    }
    findings.extend(rules::unfinished(file));
    findings.extend(rules::whitespace(file));
    if file.is_rust() {
        findings.extend(rules::head(file));
    }
    if file.is_rust() || file.path.ends_with(".go") {
        findings.extend(ratchet.apply(file, ratchet::FILE_LINES, rules::file_lines(file)));
    }
    if file.is_rust() {
        findings.extend(ratchet.apply(file, ratchet::LINE_CHARS, rules::longest_line(file)));
    }
    if file.is_rust() && file.path.starts_with("crates/") && !file.is_test() {
        findings.extend(ratchet.apply(file, ratchet::UNWRAPS, rules::unwraps(file)));
    }
    findings
}

/// The text files that git tracks or would track, in order.
fn read_files() -> Result<Vec<File>, String> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
    let paths = command::output(Command::new("git").args(list))?;
    let read = |path: &str| fs::read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let files = paths.split('\0').filter(|path| !path.is_empty());
    Ok(files.filter_map(|path| Some(File { path: path.to_owned(), text: read(path)? })).collect())
}
