//! Paths of the repository that documents name in backticks or in blocks of code: each is one of a file or a folder.
//!
//! ```text
//! `crates/log/src/write/`         checked
//! `tests/MODULE`, `tests/.bin/`   a placeholder, and what git ignores: not checked
//! `crates/*/src`, `a.{rs,md}`     patterns: not checked
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::tidy::file::{File, Finding};

/// Folders of the root with which a path begins.
const ROOTS: &[&str] = &["crates/", "docs/", "fuzz/", "sim/", "tests/", "xtask/"];

/// Checks every Markdown file. `other_paths` are the files that are no text.
pub(super) fn check(files: &[File], other_paths: &[String]) -> Vec<Finding> {
    let all = files.iter().map(|file| &file.path).chain(other_paths);
    let there: BTreeSet<&Path> = all.flat_map(|path| Path::new(path).ancestors()).collect();
    let documents = files.iter().filter(|file| file.is_document());
    documents.flat_map(|file| missing(file, &there)).collect()
}

fn missing(file: &File, there: &BTreeSet<&Path>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_block = false;
    for (event, range) in Parser::new(&file.text).into_offset_iter() {
        let text = match event {
            Event::Start(Tag::CodeBlock(_)) => {
                is_block = true;
                continue;
            }
            Event::End(TagEnd::CodeBlock) => {
                is_block = false;
                continue;
            }
            Event::Text(text) if is_block => text,
            Event::Code(text) => text,
            _ => continue,
        };
        let first = || file.text[..range.start].matches('\n').count() + 1;
        for (index, line) in text.lines().enumerate() {
            for path in
                line.split_whitespace().filter(|word| is_path(word) && !there.contains(Path::new(word)))
            {
                let what = format!("`{path}`: there is no such file or folder in the repository");
                findings.push(Finding::new(file, first() + index, what));
            }
        }
    }
    findings
}

/// Whether a word is a path of the repository, with nothing that stands for something else.
fn is_path(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let stands_for_another = |part: &str| {
        part.starts_with('.') || !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase())
    };
    ROOTS.iter().any(|root| word.starts_with(root))
        && word.chars().all(is_plain)
        && !word.split('/').any(stands_for_another)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let text = "`crates/log/src/a.rs`, `crates/log/src/` and `crates/log/src/b.rs`\n\n\
                    ```text\nlog  crates/log/src/a\ntests/MODULE tests/.bin/etcd crates/*/b.rs\n```\n\n\
                    `docs/p.png` docs/gone.md\n";
        let files = [file("crates/log/src/a.rs", ""), file("docs/a.md", text)];
        let found = check(&files, &["docs/p.png".to_owned()]);
        let found: Vec<String> =
            found.iter().map(|found| format!("{}: {}", found.line, found.what)).collect();
        let says = |line: usize, path: &str| {
            format!("{line}: `{path}`: there is no such file or folder in the repository")
        };
        assert_eq!(found, [says(1, "crates/log/src/b.rs"), says(4, "crates/log/src/a")]);
    }
}
