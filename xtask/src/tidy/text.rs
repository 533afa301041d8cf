//! The rules over one file.

use super::file::{File, Finding};
use super::ratchet::Measured;

/// Names that say nothing about what is in a file.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helper", "helpers", "manager", "misc"];

/// Words of unfinished work. They are put together here so that this file does not hold them.
const UNFINISHED: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
];

/// Folders of somebody's machine and hosts of package registries: neither means anything to the next reader.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Use", "rs/"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("proxy.", "golang.org"),
    concat!("sum.", "golang.org"),
    concat!("registry.", "npmjs.org"),
    concat!("files.", "pythonhosted.org"),
    concat!("deb.", "debian.org"),
];

/// Nothing is called by a name that fits everything. (`utl` is the name of a tool of etcd's.)
pub(super) fn name(file: &File) -> Vec<Finding> {
    let empty = |part: &&str| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or(part));
    let found = file.path.split('/').find(empty);
    found
        .map(|part| Finding::new(file, 1, format!("{part:?} says nothing: name what is inside")))
        .into_iter()
        .collect()
}

/// Every Rust file begins with what it is.
pub(super) fn head(file: &File) -> Option<Finding> {
    let documented =
        file.text.lines().find(|line| !line.starts_with("#!")).is_some_and(|line| line.starts_with("//!"));
    (!documented).then(|| Finding::new(file, 1, "no head: begin with `//!` and say what this is"))
}

/// No unfinished work.
pub(super) fn unfinished(file: &File) -> Vec<Finding> {
    words(file, UNFINISHED, |word| format!("{word:?}: finish it, or open an issue"))
}

/// No paths that exist on one machine only.
pub(super) fn machine_paths(file: &File) -> Vec<Finding> {
    words(file, MACHINE_PATHS, |word| {
        format!("{word:?} is a path on somebody's machine or a registry's host")
    })
}

fn words(file: &File, words: &[&str], what: impl Fn(&str) -> String) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in numbered(&file.text) {
        for word in words.iter().filter(|word| line.contains(**word)) {
            findings.push(Finding::new(file, number, what(word)));
        }
    }
    findings
}

/// No blanks at the end of a line, and one newline at the end of a file. Tables of the contract stay as they came, and
/// inputs of the fuzz targets are no text.
pub(super) fn whitespace(file: &File) -> Vec<Finding> {
    if file.path.contains("/tests/contract/") || file.path.starts_with("fuzz/corpus/") {
        return Vec::new();
    }
    let ends = |line: &str| line.ends_with([' ', '\t', '\r']);
    let lines = numbered(&file.text).filter(|(_, line)| ends(line));
    let mut findings: Vec<Finding> =
        lines.map(|(number, _)| Finding::new(file, number, "blanks at the end of the line")).collect();
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        let last = file.lines();
        findings.push(Finding::new(file, last, "a file ends with exactly one newline"));
    }
    findings
}

/// How long the file is, tests of its own included: they belong into a file of their own.
pub(super) fn file_lines(file: &File) -> Measured {
    Measured { value: file.lines(), line: 1 }
}

/// The longest line. Rows of tables in comments and lines that hold an address cannot be broken.
pub(super) fn longest_line(file: &File) -> Measured {
    let breakable = |line: &str| !line.contains("://") && !comment(line).starts_with('|');
    let lines = numbered(&file.text).filter(|(_, line)| breakable(line));
    let lengths = lines.map(|(line, text)| Measured { value: text.chars().count(), line });
    lengths.max_by_key(|measured| measured.value).unwrap_or_default()
}

/// Calls that may panic, outside of tests, where neither the line nor the one above it says why they do not.
pub(super) fn unwraps(file: &File) -> Measured {
    let mut measured = Measured::default();
    let mut before = "";
    for (number, line) in numbered(&file.text).take_while(|(_, line)| line.trim() != "#[cfg(test)]") {
        let code = line.split("//").next().unwrap_or(line);
        let calls = [".unwrap()", ".expect("].iter().map(|call| code.matches(call).count()).sum::<usize>();
        let explained = line.contains("//") || before.trim_start().starts_with("//");
        if calls > 0 && !explained {
            measured.value += calls;
            measured.line = number;
        }
        before = line;
    }
    measured
}

/// The text of a comment line, or the line itself.
fn comment(line: &str) -> &str {
    line.trim_start().trim_start_matches(['/', '!']).trim_start()
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split('\n').enumerate().map(|(index, line)| (index + 1, line))
}
