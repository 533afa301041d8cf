//! Limits with a memory: a file that breaks a limit today may not break it further tomorrow.
//!
//! `xtask/ratchet.txt` has a line `RULE PATH NUMBER` for each such file. The file must measure exactly that
//! number: more is a finding, and so is less, so that the list shrinks whenever the file does.

use std::collections::BTreeMap;
use std::fs;

use super::file::{File, Finding};

const PATH: &str = "xtask/ratchet.txt";

/// A measure of a file and its limit.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    name: &'static str,
    pub(super) limit: usize,
    remedy: &'static str,
}

/// Long files hide their parts.
pub(super) const FILE_LINES: Rule =
    Rule { name: "file-lines", limit: 500, remedy: "split the file by what its parts are" };

/// What rustfmt.toml asks of code holds for comments too.
pub(super) const LINE_CHARS: Rule = Rule { name: "line-chars", limit: 120, remedy: "break the line" };

/// Two unexplained calls that may panic are an oversight to be seen at a glance; more are a habit.
pub(super) const UNWRAPS: Rule =
    Rule { name: "unwraps", limit: 2, remedy: "return an error, or say in a comment why it cannot fail" };

/// What serves one other file stands there.
pub(super) const MISSING_LINES: Rule = Rule {
    name: "missing-lines",
    limit: 0,
    remedy: "a source file has 30 lines or more: merge it into what it serves",
};

const RULES: &[Rule] = &[FILE_LINES, LINE_CHARS, UNWRAPS, MISSING_LINES];

/// What a rule found in a file.
#[derive(Clone, Copy, Default)]
pub(super) struct Measured {
    pub(super) value: usize,
    /// Where to look, counted from 1.
    pub(super) line: usize,
}

/// The exceptions, each with the line of the list it stands in and whether its file was seen.
pub(super) struct Ratchet {
    entries: BTreeMap<(String, String), Entry>,
}

struct Entry {
    number: usize,
    line: usize,
    seen: bool,
}

impl Ratchet {
    /// Reads the list of the repository.
    pub(super) fn read() -> Result<Self, String> {
        let text = fs::read_to_string(PATH).map_err(|error| format!("cannot read {PATH}: {error}"))?;
        Self::parse(&text)
    }

    /// Reads a list: one exception a line; `#` begins a comment.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut entries = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            let entry = match words.as_slice() {
                [] => continue,
                [rule, path, number] if RULES.iter().any(|known| known.name == *rule) => {
                    number.parse().ok().map(|number| ((*rule, *path), number))
                }
                _ => None,
            };
            let ((rule, path), number) =
                entry.ok_or_else(|| format!("{PATH}:{}: not `RULE PATH NUMBER`: {line:?}", index + 1))?;
            let entry = Entry { number, line: index + 1, seen: false };
            entries.insert((rule.to_owned(), path.to_owned()), entry);
        }
        Ok(Self { entries })
    }

    /// Holds what was measured in `file` against the limit, or against the file's exception.
    pub(super) fn apply(&mut self, file: &File, rule: Rule, measured: Measured) -> Option<Finding> {
        let Measured { value, line } = measured;
        let Rule { name, limit, remedy } = rule;
        let entry = self.entries.get_mut(&(name.to_owned(), file.path.clone()));
        let Some(entry) = entry else {
            let what = || format!("{name} {value}, at most {limit}: {remedy}");
            return (value > limit).then(|| Finding::new(file, line, what()));
        };
        entry.seen = true;
        let allowed = entry.number;
        let entry = format!("line {} of {PATH}", entry.line);
        let what = if value <= limit {
            format!("{name} {value} is within the limit of {limit}: remove {entry}")
        } else if value < allowed {
            format!("{name} {value}, no longer {allowed}: lower {entry}")
        } else if value > allowed {
            format!("{name} {value}, at most {allowed} (limit {limit}; {entry}): {remedy}")
        } else {
            return None;
        };
        Some(Finding::new(file, line, what))
    }

    /// Exceptions of files that are gone.
    pub(super) fn unused(&self) -> Vec<Finding> {
        let unseen = self.entries.iter().filter(|(_, entry)| !entry.seen);
        let finding = |((rule, path), entry): (&(String, String), &Entry)| Finding {
            path: PATH.to_owned(),
            line: entry.line,
            what: format!("nothing measures {rule} of {path}: remove the line"),
        };
        unseen.map(finding).collect()
    }
}
