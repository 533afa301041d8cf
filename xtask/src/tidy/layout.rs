//! How files are laid out in folders: where a module with children begins, how many files a folder has, how short a
//! file may be, and where unit tests stand.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{File, Finding};
use super::ratchet::{self, Measured};

/// A reader takes in about so many files of a folder at a glance.
const MAX_FOLDER_FILES: usize = 12;

/// A shorter file costs a reader more to open than its contents would cost in the file that uses them.
const MIN_FILE_LINES: usize = 30;

/// Unit tests of up to so many lines stand at the end of the file that they test.
pub(super) const MAX_INLINE_TEST_LINES: usize = 100;

/// Checks the layout of all sources.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let sources: Vec<&File> = files.iter().filter(|file| file.is_source() && !file.is_generated()).collect();
    let mut findings = one_form_of_module(&sources);
    findings.extend(few_files_in_a_folder(&sources));
    findings.extend(sources.iter().filter_map(|tests| short_tests(tests, &sources)));
    findings
}

/// A module with children is `foo/mod.rs`, never `foo.rs` beside `foo/`.
fn one_form_of_module(sources: &[&File]) -> Vec<Finding> {
    let folders: BTreeSet<&str> = sources.iter().map(|file| file.folder()).collect();
    let stem = |file: &File| file.path.trim_end_matches(".rs").to_owned();
    let beside = sources.iter().filter(|file| folders.contains(stem(file).as_str()));
    let what =
        |file: &File| format!("a module with children is a folder: move this to {}/mod.rs", stem(file));
    beside.map(|file| Finding::new(file, 1, what(file))).collect()
}

fn few_files_in_a_folder(sources: &[&File]) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in sources.iter().filter(|file| !file.is_root()) {
        folders.entry(file.folder()).or_default().push(file);
    }
    let full = folders.into_values().filter(|files| files.len() > MAX_FOLDER_FILES);
    let what = |files: &[&File]| {
        let (folder, count) = (files[0].folder(), files.len());
        format!(
            "{folder} holds {count} files beside its root, at most {MAX_FOLDER_FILES}: make folders of what \
             belongs together"
        )
    };
    full.map(|files| Finding::new(files[0], 1, what(&files))).collect()
}

/// A file `tests.rs` that would fit at the end of the file which it tests.
fn short_tests(tests: &File, sources: &[&File]) -> Option<Finding> {
    let lines = tests.lines();
    let fits = |tested: &File| tested.lines() + lines <= ratchet::FILE_LINES.limit;
    let is_tested = |file: &&&File| file.folder() == tests.folder() && file.is_root();
    let is_tested_alone = |file: &&&File| file.path == format!("{}.rs", tests.folder());
    let tested = sources.iter().find(is_tested).or_else(|| sources.iter().find(is_tested_alone))?;
    let has_parts = sources.iter().any(|file| file.folder() == tests.path.trim_end_matches(".rs"));
    let wrong = tests.name() == "tests.rs" && lines < MAX_INLINE_TEST_LINES && fits(tested) && !has_parts;
    wrong.then(|| {
        let what = format!(
            "{lines} lines of tests, under {MAX_INLINE_TEST_LINES}: put them into `mod tests` of {}",
            tested.path
        );
        Finding::new(tests, 1, what)
    })
}

/// How many lines a source file is short of being worth a file; tests have a rule of their own.
pub(super) fn missing_lines(file: &File) -> Measured {
    let exempt = !file.is_source() || file.is_root() || file.is_test();
    let value = if exempt { 0 } else { MIN_FILE_LINES.saturating_sub(file.lines()) };
    Measured { value, line: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, usize)]) -> Vec<String> {
        let file =
            |(path, lines): &(&str, usize)| File { path: (*path).to_owned(), text: "x\n".repeat(*lines) };
        let files: Vec<File> = files.iter().map(file).collect();
        check(&files).into_iter().map(|finding| format!("{}: {}", finding.path, finding.what)).collect()
    }

    #[test]
    fn a_file_beside_its_folder_is_found() {
        let wrong = found(&[("crates/log/src/a.rs", 40), ("crates/log/src/a/b.rs", 40)]);
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].contains("move this to crates/log/src/a/mod.rs"), "{wrong:?}");
        let right =
            [("crates/log/src/a/mod.rs", 40), ("crates/log/src/a/b.rs", 40), ("crates/log/tests/a.rs", 9)];
        assert_eq!(found(&right), Vec::<String>::new());
    }

    #[test]
    fn a_folder_of_thirteen_files_is_found() {
        let names: Vec<String> = (0..13).map(|number| format!("crates/log/src/f{number}.rs")).collect();
        let files: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 40)).collect();
        assert_eq!(found(&files[..12]), Vec::<String>::new());
        assert!(found(&files)[0].contains("holds 13 files"));
        let with_root =
            [&files[..12], &[("crates/log/src/lib.rs", 40), ("crates/log/src/mod.rs", 1)]].concat();
        assert_eq!(found(&with_root), Vec::<String>::new());
    }

    #[test]
    fn short_tests_stand_in_the_file_they_test() {
        let tests = |lines| found(&[("crates/log/src/a/mod.rs", 300), ("crates/log/src/a/tests.rs", lines)]);
        assert!(tests(99)[0].contains("put them into `mod tests` of crates/log/src/a/mod.rs"));
        assert_eq!(tests(100), Vec::<String>::new());
        let full = [("crates/log/src/a/mod.rs", 450), ("crates/log/src/a/tests.rs", 60)];
        assert_eq!(found(&full), Vec::<String>::new());
        let several = [("src/a/mod.rs", 9), ("src/a/tests/mod.rs", 9), ("src/a/tests/b.rs", 9)];
        assert_eq!(found(&several), Vec::<String>::new());
    }

    #[test]
    fn a_file_of_a_few_lines_is_measured() {
        let missing = |path: &str, lines| {
            missing_lines(&File { path: path.to_owned(), text: "x\n".repeat(lines) }).value
        };
        assert_eq!(missing("crates/log/src/a.rs", 29), 1);
        assert_eq!(missing("crates/log/src/a.rs", 30), 0);
        for path in ["crates/log/src/lib.rs", "crates/log/src/a/tests.rs", "crates/log/benches/log.rs"] {
            assert_eq!(missing(path, 3), 0, "{path}");
        }
    }
}
