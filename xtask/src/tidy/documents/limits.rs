//! The limits in the manual, and the tests that show them: `tests/limits.json` has an entry for each row of each table
//! of `docs/operating/limits.md`.
//!
//! ```text
//! { "section": "Requests", "rows": [
//!   { "limit": "nesting of transactions",
//!     "value": ["crates/api/src/validate/kv/mod.rs::MAX_TXN_DEPTH = 48"],
//!     "tests": ["crates/api/src/validate/kv/tests.rs::nesting_ends", "tests/go/attack/txn_test.go::TestNesting"] } ] }
//! ```
//!
//! - `limit` is the first cell of the row without its marks, or a beginning that no other row of the section has.
//! - `tests` are functions of Rust or Go that the gate runs. A row that states nothing which a program could exceed has
//!   `why` instead, and so may a section as a whole.
//! - `value` are the constants with their values, where there are any: who changes one is led to the document.
//! - A table whose last column is headed "test" names its tests itself: [`super::tests_named`].

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde::Deserialize;

use super::tests_named;
use crate::tidy::file::{File, Finding};

const DOCUMENT: &str = "docs/operating/limits.md";

const LIST: &str = "tests/limits.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitList {
    sections: Vec<LimitSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitSection {
    section: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    rows: Vec<LimitEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitEntry {
    limit: String,
    #[serde(default)]
    value: Vec<String>,
    #[serde(default)]
    tests: Vec<String>,
    #[serde(default)]
    why: String,
}

/// A row of a table of the document.
struct LimitRow {
    section: String,
    /// The text of the first cell.
    limit: String,
    /// Counted from 1.
    line: usize,
}

/// Compares the document with the list, and the list with the sources.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    let Some(document) = find(DOCUMENT) else { return Vec::new() };
    let Some(list) = find(LIST) else {
        return vec![Finding::new(document, 1, format!("{LIST} is missing, which names the tests"))];
    };
    let limits: LimitList = match serde_json::from_str(&list.text) {
        Ok(limits) => limits,
        Err(error) => return vec![Finding::new(list, error.line(), error.to_string())],
    };
    let rows = rows(document);
    let mut findings = unknown_sections(list, &limits, &rows);
    let mut entries_of = vec![0_usize; rows.len()];
    for section in &limits.sections {
        for entry in &section.rows {
            let mut find = |what: String| {
                let what = format!("\"{}\": {what}", entry.limit);
                findings.push(Finding::new(list, line_of(list, &entry.limit), what));
            };
            match rows_of(entry, &section.section, &rows)[..] {
                [row] => entries_of[row] += 1,
                [] => find(format!("no row of {} begins so", section.section)),
                _ => find("more than one row begins so".to_owned()),
            }
            if entry.tests.is_empty() == entry.why.is_empty() {
                find("either tests or a reason why there are none".to_owned());
            }
            entry.value.iter().filter_map(|named| missing(named, files, constant)).for_each(&mut find);
            entry.tests.iter().filter_map(|named| missing(named, files, test)).for_each(&mut find);
        }
    }
    for (row, entries) in rows.iter().zip(entries_of) {
        let is_section = |section: &&LimitSection| section.section == row.section;
        let explained =
            || limits.sections.iter().find(is_section).is_some_and(|section| !section.why.is_empty());
        let what = match entries {
            0 if !explained() => "no entry",
            0 | 1 => continue,
            _ => "more than one entry",
        };
        findings.push(Finding::new(document, row.line, format!("\"{}\" has {what} in {LIST}", row.limit)));
    }
    findings
}

/// Names of sections that the document has no table under.
fn unknown_sections(list: &File, limits: &LimitList, rows: &[LimitRow]) -> Vec<Finding> {
    let names = limits.sections.iter().map(|section| &section.section);
    let unknown = names.filter(|name| rows.iter().all(|row| row.section != **name));
    let finding = |name: &String| {
        Finding::new(list, line_of(list, name), format!("{DOCUMENT} has no table under \"{name}\""))
    };
    unknown.map(finding).collect()
}

/// The rows that an entry means: the one with exactly its text, else those that begin with it.
fn rows_of(entry: &LimitEntry, section: &str, rows: &[LimitRow]) -> Vec<usize> {
    let those = |is_it: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let here = |row: &LimitRow| row.section == section && is_it(&row.limit);
        (0..rows.len()).filter(|index| here(&rows[*index])).collect()
    };
    let exact = those(&|limit| limit == entry.limit);
    if exact.is_empty() { those(&|limit| limit.starts_with(&entry.limit)) } else { exact }
}

/// The rows of the tables that do not name their tests themselves.
fn rows(document: &File) -> Vec<LimitRow> {
    let (mut rows, mut table) = (Vec::new(), Vec::new());
    let (mut section, mut cells) = (String::new(), Vec::<String>::new());
    let mut names_tests = false;
    for (event, range) in Parser::new_ext(&document.text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H2, .. } | Tag::TableCell) => {
                cells.push(String::new());
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(cell) = cells.last_mut() {
                    cell.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(HeadingLevel::H2)) => section = cells.pop().unwrap_or_default(),
            Event::End(TagEnd::TableHead) => {
                names_tests = cells.last().is_some_and(|cell| cell == tests_named::DEMANDING);
                cells.clear();
            }
            Event::End(TagEnd::TableRow) => {
                let line = document.text[..range.start].matches('\n').count() + 1;
                table.push(LimitRow { section: section.clone(), limit: cells.swap_remove(0), line });
                cells.clear();
            }
            Event::End(TagEnd::Table) if names_tests => table.clear(),
            Event::End(TagEnd::Table) => rows.append(&mut table),
            _ => {}
        }
    }
    rows
}

/// What to say of `path::name` if there is no such thing.
fn missing(
    named: &str,
    files: &[File],
    is_in: fn(&File, &str) -> Result<(), &'static str>,
) -> Option<String> {
    let Some((path, name)) = named.split_once("::") else {
        return Some(format!("{named} is not path::name"));
    };
    let Some(file) = files.iter().find(|file| file.path == path) else {
        return Some(format!("there is no file {path}"));
    };
    is_in(file, name).err().map(|what| format!("{path} has no {what} {name}"))
}

/// `stated` is `NAME = value`, as the source has it, so that a number is not changed without a look at the document.
fn constant(file: &File, stated: &str) -> Result<(), &'static str> {
    let is_stated = |(before, after): (&str, &str)| {
        let visibility = before.rsplit('\n').next().unwrap_or_default().trim_start();
        let declared = after.split(';').next().and_then(|declared| declared.split_once(": "));
        let value = declared.and_then(|(name, rest)| Some((name, rest.split_once(" =")?.1)));
        let words = |(name, value): (&str, &str)| {
            let words: Vec<&str> = value.split_whitespace().collect();
            format!("{name} = {}", words.join(" "))
        };
        visibility.chars().all(|c| c.is_ascii_lowercase() || "(): ".contains(c))
            && value.map(words).is_some_and(|found| found == stated)
    };
    let mut declarations = file.text.match_indices("const ").map(|(at, _)| file.text.split_at(at));
    let has = declarations.any(|(before, after)| is_stated((before, &after["const ".len()..])));
    has.then_some(()).ok_or("constant")
}

/// A test of Rust is a function below `#[test]` or one of its kind, without `#[ignore]`.
fn test(file: &File, name: &str) -> Result<(), &'static str> {
    if file.is_go() {
        let has = name.starts_with("Test") && file.text.contains(&format!("\nfunc {name}(t *testing.T)"));
        return has.then_some(()).ok_or("test");
    }
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let begins = [format!("fn {name}("), format!("async fn {name}(")];
    let Some(index) = lines.iter().position(|line| begins.iter().any(|begin| line.starts_with(begin))) else {
        return Err("test");
    };
    let above =
        lines[..index].iter().rev().take_while(|line| !line.is_empty() && !line.ends_with(['{', '}']));
    let attributes: Vec<&&str> = above.filter(|line| line.starts_with("#[")).collect();
    if attributes.iter().any(|line| line.starts_with("#[ignore")) {
        return Err("test that is always run called");
    }
    let is_test = |line: &&&str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    attributes.iter().any(is_test).then_some(()).ok_or("test")
}

/// The first line of the list that has this text.
fn line_of(list: &File, text: &str) -> usize {
    let quoted = serde_json::Value::from(text).to_string();
    list.text.lines().position(|line| line.contains(&quoted)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "# Limits\n\n## A\n\n| limit | value |\n|---|---|\n| size of `x`: [y](z) | 1 |\n| size | 2 |\n\
                          \n## B\n\n| what | test |\n|---|---|\n| other | `TestIt` |\n\n| b |\n|---|\n| c |\n";

    const RUST: &str = "    pub(super) const MAX_X: u8 =\n    1 << 2;\n\n#[test]\nfn full() {\n}\n\n\
                        #[test]\n#[ignore = \"slow\"]\n\
                        fn slow() {\n}\n\nfn plain() {\n}\n\n\
                        #[tokio::test(start_paused = true)]\nasync fn waits() {\n}\n";

    fn found(list: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let go = "package x\n\nfunc TestIt(t *testing.T) {\n";
        let files = [file(DOCUMENT, TABLES), file(LIST, list), file("a.rs", RUST), file("x_test.go", go)];
        let name = |finding: &Finding| finding.path.rsplit('/').next().unwrap_or_default().to_owned();
        check(&files).iter().map(|found| format!("{}:{}: {}", name(found), found.line, found.what)).collect()
    }

    /// A list with two entries of A, and what is said of B.
    fn list(first: &str, second: &str, b: &str) -> String {
        format!(
            r#"{{ "sections": [ {{ "section": "A", "rows": [ {{ {first} }}, {{ {second} }} ] }}, {b} ] }}"#
        )
    }

    const FIRST: &str =
        r#""limit": "size of x", "value": ["a.rs::MAX_X = 1 << 2"], "tests": ["a.rs::full", "a.rs::waits"]"#;

    const SECOND: &str = r#""limit": "size", "tests": ["x_test.go::TestIt"]"#;

    const B: &str = r#"{ "section": "B", "why": "a description" }"#;

    #[test]
    fn a_list_with_an_entry_for_each_row_has_no_findings() {
        assert_eq!(found(&list(FIRST, SECOND, B)), Vec::<String>::new());
    }

    #[test]
    fn each_row_has_one_entry_and_each_entry_one_row() {
        let twice = list(FIRST, r#""limit": "size of x: y", "why": "x""#, B);
        let of_x = "limits.md:7: \"size of x: y\" has more than one entry in tests/limits.json";
        let of_size = "limits.md:8: \"size\" has no entry in tests/limits.json";
        assert_eq!(found(&twice), [of_x, of_size]);
        let unclear = found(&list(FIRST, r#""limit": "si", "why": "x""#, B));
        assert_eq!(unclear, ["limits.json:1: \"si\": more than one row begins so", of_size]);
        let strange = found(&list(FIRST, r#""limit": "other", "why": "x""#, B));
        assert_eq!(strange, ["limits.json:1: \"other\": no row of A begins so", of_size]);
        let without = found(&list(FIRST, SECOND, r#"{ "section": "C", "why": "x" }"#));
        let of_b = "limits.md:18: \"c\" has no entry in tests/limits.json";
        assert_eq!(without, ["limits.json:1: docs/operating/limits.md has no table under \"C\"", of_b]);
    }

    #[test]
    fn an_entry_names_what_exists() {
        let cases = [
            (r#""why": "x", "tests": ["a.rs::full"]"#, "either tests or a reason why there are none"),
            (r#""value": ["a.rs::MAX_X = 1 << 2"]"#, "either tests or a reason why there are none"),
            (r#""tests": ["a.rs"]"#, "a.rs is not path::name"),
            (r#""tests": ["b.rs::full"]"#, "there is no file b.rs"),
            (r#""tests": ["a.rs::ful"]"#, "a.rs has no test ful"),
            (r#""tests": ["a.rs::plain"]"#, "a.rs has no test plain"),
            (r#""tests": ["a.rs::slow"]"#, "a.rs has no test that is always run called slow"),
            (r#""tests": ["x_test.go::TestI"]"#, "x_test.go has no test TestI"),
            (
                r#""tests": ["a.rs::full"], "value": ["a.rs::MAX_ = 1 << 2"]"#,
                "a.rs has no constant MAX_ = 1 << 2",
            ),
            (r#""tests": ["a.rs::full"], "value": ["a.rs::MAX_X = 1"]"#, "a.rs has no constant MAX_X = 1"),
        ];
        for (rest, expected) in cases {
            let entry = format!(r#""limit": "size", {rest}"#);
            assert_eq!(found(&list(FIRST, &entry, B)), [format!("limits.json:1: \"size\": {expected}")]);
        }
        assert!(found(&list(FIRST, r#""limit": "size", "test": []"#, B))[0].contains("unknown field"));
    }
}
