//! Tidy: the rules of STYLE.md about text, checked over the files that git knows.
//!
//! Each rule is a function from a file, from all files or from the crates to findings; a finding names file, line and
//! what to do. Exceptions to a limit are numbers in `xtask/ratchet.txt` that only shrink, see [`ratchet`]. Generated
//! code (a folder named `generated`) is checked for its name and for paths of one machine only.

mod code;
mod crates;
mod dependencies;
mod documents;
mod file;
mod layout;
mod module_tables;
mod names;
mod ratchet;
mod retired;
#[cfg(test)]
mod tests;
mod text;

use std::fs;
use std::process::Command;

use crate::command::{self, Outcome};
use crate::metadata::{self, Package};
use file::{File, Finding};
use ratchet::Ratchet;

/// Checks all files.
pub(crate) fn run() -> Outcome {
    let (files, other_paths) = read_files()?;
    let mut ratchet = Ratchet::read()?;
    let mut findings: Vec<Finding> = files.iter().flat_map(|file| check(file, &mut ratchet)).collect();
    findings.extend(documents::check(&files, &other_paths));
    findings.extend(dependencies::check(&files));
    findings.extend(layout::check(&files));
    findings.extend(module_tables::check(&files));
    findings.extend(crates::check(&metadata::read()?.ours().collect::<Vec<&Package>>(), &files)?);
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
    let mut findings = text::name(file);
    findings.extend(text::machine_paths(file));
    if file.is_generated() {
        return findings;
    }
    findings.extend(text::unfinished(file));
    findings.extend(text::whitespace(file));
    findings.extend(retired::check(file));
    if file.is_rust() {
        findings.extend(text::head(file));
        findings.extend(code::check(file));
    }
    if file.is_rust() || file.is_go() {
        findings.extend(ratchet.apply(file, ratchet::FILE_LINES, text::file_lines(file)));
    }
    if file.is_rust() {
        findings.extend(ratchet.apply(file, ratchet::LINE_CHARS, text::longest_line(file)));
        findings.extend(ratchet.apply(file, ratchet::MISSING_LINES, layout::missing_lines(file)));
    }
    if file.is_rust() && file.path.starts_with("crates/") && !file.is_test() {
        findings.extend(ratchet.apply(file, ratchet::UNWRAPS, text::unwraps(file)));
    }
    findings
}

/// The text files that git tracks or would track, in order, and the paths of its other files, such as pictures.
fn read_files() -> Result<(Vec<File>, Vec<String>), String> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
    let paths = command::output(Command::new("git").args(list))?;
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for path in paths.split('\0').filter(|path| !path.is_empty()) {
        // What is tracked may have been removed.
        let Ok(bytes) = fs::read(path) else { continue };
        match String::from_utf8(bytes) {
            Ok(text) => files.push(File { path: path.to_owned(), text }),
            Err(_) => others.push(path.to_owned()),
        }
    }
    Ok((files, others))
}
