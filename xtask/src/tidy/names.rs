//! One name, one type: within a crate, and between a crate and those it depends on.
//!
//! A reader who follows a path through the crates must not meet two types of one name. `xtask/same-names.txt` lists
//! the exceptions, one a line: the name, the two crates (twice the same for two types in one crate), and why both are
//! called so.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{File, Finding};

/// Where the exceptions are.
pub(super) const EXCEPTIONS: &str = "xtask/same-names.txt";

/// A type or trait of one of our crates, tests left out.
pub(super) struct TypeName {
    pub(super) krate: String,
    pub(super) name: String,
    pub(super) path: String,
    /// Counted from 1.
    pub(super) line: usize,
}

/// Checks the names of all crates. `known_by` gives the crates that a crate depends on.
pub(super) fn check(
    types: &[TypeName],
    known_by: impl Fn(&str) -> BTreeSet<&'static str>,
    files: &[File],
) -> Vec<Finding> {
    let list = files.iter().find(|file| file.path == EXCEPTIONS);
    let (mut exceptions, mut findings) = list.map(read).unwrap_or_default();
    let mut by_name: BTreeMap<&str, Vec<&TypeName>> = BTreeMap::new();
    types.iter().for_each(|found| by_name.entry(&found.name).or_default().push(found));
    for same in by_name.values() {
        for (index, first) in same.iter().enumerate() {
            for second in &same[index + 1..] {
                let Some((lower, upper)) = in_order(first, second, &known_by) else { continue };
                let pair = pair(&upper.krate, &lower.krate);
                if let Some(exception) = exceptions.get_mut(&(upper.name.clone(), pair)) {
                    exception.is_used = true;
                } else {
                    let what =
                        format!("{} is also a type in {}:{}: rename one", upper.name, lower.path, lower.line);
                    findings.push(Finding { path: upper.path.clone(), line: upper.line, what });
                }
            }
        }
    }
    let unused = exceptions.into_values().filter(|exception| !exception.is_used);
    findings.extend(unused.map(|exception| Finding {
        path: EXCEPTIONS.to_owned(),
        line: exception.line,
        what: "there are no two such types: remove the line".to_owned(),
    }));
    findings
}

/// Which of two types is below: the one whose crate the other's knows; `None` when neither crate knows the other.
fn in_order<'a>(
    first: &'a TypeName,
    second: &'a TypeName,
    known_by: impl Fn(&str) -> BTreeSet<&'static str>,
) -> Option<(&'a TypeName, &'a TypeName)> {
    if first.krate == second.krate || known_by(&second.krate).contains(first.krate.as_str()) {
        Some((first, second))
    } else if known_by(&first.krate).contains(second.krate.as_str()) {
        Some((second, first))
    } else {
        None
    }
}

/// Two crates, whichever is named first.
type Pair = (String, String);

fn pair(first: &str, second: &str) -> Pair {
    let (first, second) = (first.to_owned(), second.to_owned());
    if first <= second { (first, second) } else { (second, first) }
}

struct Exception {
    /// Counted from 1.
    line: usize,
    is_used: bool,
}

/// The exceptions by name and crates, and the lines that are none.
fn read(list: &File) -> (BTreeMap<(String, Pair), Exception>, Vec<Finding>) {
    let mut exceptions = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in list.text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [comment, ..] if comment.starts_with('#') => {}
            [name, first, second, _, ..] => {
                let exception = Exception { line: index + 1, is_used: false };
                exceptions.insert(((*name).to_owned(), pair(first, second)), exception);
            }
            _ => findings.push(Finding::new(list, index + 1, "not `NAME CRATE CRATE reason`")),
        }
    }
    (exceptions, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(types: &[(&str, &str)], list: &str) -> Vec<String> {
        let named = |(krate, name): &(&str, &str)| TypeName {
            krate: (*krate).to_owned(),
            name: (*name).to_owned(),
            path: format!("crates/{krate}/src/lib.rs"),
            line: 7,
        };
        let types: Vec<TypeName> = types.iter().map(named).collect();
        let known_by = |krate: &str| match krate {
            "member" => BTreeSet::from(["log", "store"]),
            _ => BTreeSet::new(),
        };
        let files = [File { path: EXCEPTIONS.to_owned(), text: list.to_owned() }];
        let findings = check(&types, known_by, &files);
        findings.into_iter().map(|found| format!("{}:{}: {}", found.path, found.line, found.what)).collect()
    }

    #[test]
    fn two_types_of_one_name_are_found_where_a_reader_meets_both() {
        let wrong = "crates/member/src/lib.rs:7: Plan is also a type in crates/log/src/lib.rs:7: rename one";
        assert_eq!(found(&[("log", "Plan"), ("member", "Plan")], ""), [wrong]);
        assert_eq!(found(&[("member", "Plan"), ("log", "Plan")], ""), [wrong]);
        assert_eq!(found(&[("log", "Plan"), ("log", "Plan")], "").len(), 1);
        assert_eq!(
            found(&[("log", "Plan"), ("store", "Plan"), ("member", "Batch")], ""),
            Vec::<String>::new()
        );
    }

    #[test]
    fn exceptions_have_a_reason_and_are_used() {
        let types = [("log", "Plan"), ("member", "Plan")];
        assert_eq!(
            found(&types, "# why\n\nPlan member log one concept in two layers\n"),
            Vec::<String>::new()
        );
        assert!(found(&types, "Plan member log\n")[0].contains("not `NAME CRATE CRATE reason`"));
        assert!(found(&[], "Plan log member one concept\n")[0].contains("1: there are no two such types"));
    }
}
