//! The tables of files in the heads of modules: they agree with the folder.
//!
//! A table in the head of a `lib.rs`, `main.rs` or `mod.rs` names files in the column that is called `file`, `module`
//! or `folder`. Each of these exists. Where this is the first column, the table is the list of the folder's contents,
//! and names all of them but tests and generated code.

use std::collections::BTreeSet;

use super::file::{File, Finding};

/// What the column of names is called.
const COLUMNS: [&str; 3] = ["file", "module", "folder"];

/// A name in a table.
struct Named {
    /// As it is written, without backticks.
    name: String,
    /// Counted from 1.
    line: usize,
    is_contents: bool,
}

/// Checks the head of every module with a folder of its own.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let roots = files.iter().filter(|file| file.is_source() && file.is_root() && !file.is_generated());
    roots.flat_map(|root| check_root(root, &paths)).collect()
}

fn check_root(root: &File, paths: &BTreeSet<&str>) -> Vec<Finding> {
    let entries = entries(&root.text);
    let missing = entries.iter().filter(|entry| !exists(root.folder(), &entry.name, paths));
    let what = |entry: &Named| format!("the table names `{}`, which is not in {}", entry.name, root.folder());
    let mut findings: Vec<Finding> =
        missing.map(|entry| Finding::new(root, entry.line, what(entry))).collect();
    if let Some(first) = entries.iter().find(|entry| entry.is_contents) {
        let stem = |entry: &Named| entry.name.trim_end_matches('/').trim_end_matches(".rs").to_owned();
        let named: BTreeSet<String> = entries.iter().map(stem).collect();
        let unnamed = children(root, paths).into_iter().filter(|child| !named.contains(*child));
        let what = |child: &str| format!("the table does not name `{child}`, which is in {}", root.folder());
        findings.extend(unnamed.map(|child| Finding::new(root, first.line, what(child))));
    }
    findings
}

/// The names in all tables of the head.
fn entries(text: &str) -> Vec<Named> {
    let mut entries = Vec::new();
    // The column of names, and whether it is the first, while a table lasts that has one.
    let mut table: Option<Option<usize>> = None;
    for (index, line) in text.lines().enumerate() {
        let Some(head) = line.strip_prefix("//!") else { break };
        let Some(row) = head.trim().strip_prefix('|') else {
            table = None;
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let Some(column) = table else {
            table = Some(cells.iter().position(|cell| COLUMNS.contains(cell)));
            continue;
        };
        let Some(column) = column else { continue };
        // What stands between two backticks is every second part.
        let names = cells.get(column).into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
        entries.extend(names.flat_map(alternatives).map(|name| Named {
            name,
            line: index + 1,
            is_contents: column == 0,
        }));
    }
    entries
}

/// The names that `a/{b,c}.rs` stands for.
fn alternatives(name: &str) -> Vec<String> {
    let parts = name.split_once('{').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('}')?;
        Some(inside.split(',').map(|one| format!("{before}{one}{after}")).collect())
    });
    parts.unwrap_or_else(|| vec![name.to_owned()])
}

/// Whether a folder holds what a table calls `name`: with the ending a file, with a slash a folder, else a module.
fn exists(folder: &str, name: &str, paths: &BTreeSet<&str>) -> bool {
    let has = |path: String| paths.contains(path.as_str());
    if name.ends_with(".rs") {
        return has(format!("{folder}/{name}"));
    }
    let below = format!("{folder}/{}/", name.trim_end_matches('/'));
    let is_folder = paths.range(below.as_str()..).next().is_some_and(|path| path.starts_with(&below));
    is_folder || (!name.ends_with('/') && has(format!("{folder}/{name}.rs")))
}

/// The modules beside a root: files and folders, without tests and generated code.
fn children<'a>(root: &File, paths: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let below = format!("{}/", root.folder());
    let is_tested = |child: &str| root.text.contains(&format!("#[cfg(test)]\nmod {child};"));
    let inside = paths.iter().filter_map(|path| path.strip_prefix(below.as_str()));
    let modules = inside.filter_map(|path| match path.split_once('/') {
        Some((folder, rest)) => (rest == "mod.rs").then_some(folder),
        None => path.strip_suffix(".rs").filter(|stem| !["lib", "main", "mod"].contains(stem)),
    });
    modules.filter(|child| !["tests", "generated"].contains(child) && !is_tested(child)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(head: &str, others: &[&str]) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let mut files = vec![file("crates/a/src/lib.rs", head)];
        files.extend(others.iter().map(|path| file(&format!("crates/a/src/{path}"), "//! X.\n")));
        check(&files).into_iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn a_table_and_its_folder_agree_in_both_directions() {
        let head = "//! X.\n//!\n//! | module | holds |\n//! |---|---|\n//! | `a`, [`b`] | `z` |\n//! | `c/` | x |\n";
        let others = ["a.rs", "b/mod.rs", "c/mod.rs", "c/d.rs", "tests.rs", "generated/mod.rs"];
        assert_eq!(found(head, &others), Vec::<String>::new());
        assert_eq!(found(head, &others[1..]), ["5: the table names `a`, which is not in crates/a/src"]);
        let more = [&others[..], &["e.rs", "f/mod.rs"]].concat();
        let unnamed =
            ["e", "f"].map(|child| format!("5: the table does not name `{child}`, which is in crates/a/src"));
        assert_eq!(found(head, &more), unnamed);
        let with_tests = format!("{head}\n#[cfg(test)]\nmod e;\n#[cfg(test)]\nmod f;\n");
        assert_eq!(found(&with_tests, &more), Vec::<String>::new());
    }

    #[test]
    fn the_ending_of_a_name_says_what_it_is() {
        let head =
            |name: &str| format!("//! X.\n//!\n//! | file | holds |\n//! |---|---|\n//! | `{name}` | x |\n");
        for (name, others, right) in [
            ("a.rs", ["a.rs"], true),
            ("a.rs", ["a/mod.rs"], false),
            ("a/", ["a/mod.rs"], true),
            ("a/", ["a.rs"], false),
            ("a", ["a.rs"], true),
            ("a", ["a/mod.rs"], true),
        ] {
            let findings = found(&head(name), &others);
            assert_eq!(findings.is_empty(), right, "{name} {others:?}: {findings:?}");
        }
    }

    #[test]
    fn a_table_of_questions_need_not_name_all() {
        let head = "//! X.\n//!\n//! | question | file |\n//! |---|---|\n//! | why | `b/{c,d}.rs` |\n//!\n\
                    //! | offset | field |\n//! |---|---|\n//! | `e` | x |\n";
        let wrong = found(head, &["a.rs", "b/mod.rs", "b/c.rs"]);
        assert_eq!(wrong, ["5: the table names `b/d.rs`, which is not in crates/a/src"]);
    }
}
