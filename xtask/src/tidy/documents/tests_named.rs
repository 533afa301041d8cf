//! Tests that documents name: each exists, so that what is promised with a test is promised with one that runs.
//!
//! - `TestX` in a document is a function of a Go file below `tests`; in a row of a table behind the name of a folder of
//!   `tests/go` it is one of that folder.
//! - Each row of a table whose last column is headed "test" names one at least.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::tidy::file::{File, Finding};

/// The heading of a column whose every cell names a test.
pub(super) const DEMANDING: &str = "test";

/// The folders of the Go tests, each with its test functions.
type Tests<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Checks every Markdown file.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut tests = Tests::new();
    for file in files.iter().filter(|file| file.is_go() && file.path.starts_with("tests/")) {
        let folder = file.folder().rsplit('/').next().unwrap_or_default();
        tests.entry(folder).or_default().extend(file.text.lines().filter_map(function));
    }
    let documents = files.iter().filter(|file| file.is_document());
    documents.flat_map(|file| DocumentReader { file, tests: &tests, findings: Vec::new() }.read()).collect()
}

/// The test that begins in a line.
fn function(line: &str) -> Option<&str> {
    let name = line.strip_prefix("func ")?.split_once('(')?.0;
    is_test(name).then_some(name)
}

fn is_test(name: &str) -> bool {
    let rest = name.strip_prefix("Test").unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_uppercase()) && rest.chars().all(|c| c.is_ascii_alphanumeric())
}

/// A document that is read.
struct DocumentReader<'a> {
    file: &'a File,
    tests: &'a Tests<'a>,
    findings: Vec<Finding>,
}

impl DocumentReader<'_> {
    fn read(mut self) -> Vec<Finding> {
        let (mut in_head, mut demands, mut cell) = (false, false, String::new());
        let mut folder: Option<String> = None;
        // Of the last cell: the tests of it.
        let mut named = 0;
        for (event, range) in Parser::new_ext(&self.file.text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = self.file.text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::TableHead) => in_head = true,
                Event::End(TagEnd::TableHead) => (in_head, demands) = (false, cell == DEMANDING),
                Event::End(TagEnd::TableRow) if demands && named == 0 => {
                    self.findings.push(Finding::new(self.file, line, "the row names no test"));
                }
                Event::Start(Tag::TableCell | Tag::Paragraph | Tag::Item) => {
                    (folder, named) = (None, 0);
                    cell.clear();
                }
                Event::Text(text) if in_head => cell.push_str(&text),
                Event::Code(code) if is_test(&code) => {
                    named += 1;
                    self.find(&code, folder.as_deref(), line);
                }
                Event::Code(code) => {
                    folder = self.tests.contains_key(&*code).then(|| code.into_string());
                }
                _ => {}
            }
        }
        self.findings
    }

    /// Looks for a test, in one folder if it is named.
    fn find(&mut self, test: &str, folder: Option<&str>, line: usize) {
        let is_in = |folder: &str| self.tests.get(folder).is_some_and(|tests| tests.contains(test));
        let what = match folder {
            Some(folder) if !is_in(folder) => format!("tests/go/{folder} has no {test}"),
            None if !self.tests.keys().any(|folder| is_in(folder)) => format!("no test is called {test}"),
            _ => return,
        };
        self.findings.push(Finding::new(self.file, line, what));
    }
}
