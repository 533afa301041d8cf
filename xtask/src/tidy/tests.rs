//! Each rule sees what it forbids and leaves the rest alone.

use super::*;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

fn findings(path: &str, text: &str) -> Vec<String> {
    let mut ratchet = Ratchet::parse("").unwrap();
    check(&file(path, text), &mut ratchet).into_iter().map(|finding| finding.what).collect()
}

#[test]
fn a_plain_file_is_tidy() {
    assert_eq!(findings("crates/log/src/lib.rs", "//! Segments.\n"), Vec::<String>::new());
}

#[test]
fn each_rule_sees_what_it_forbids() {
    let cases = [
        ("crates/log/src/utils/mod.rs", "//! X.\n".to_owned(), "says nothing"),
        ("crates/log/src/common/mod.rs", "//! X.\n".to_owned(), "says nothing"),
        ("crates/log/src/lib.rs", "fn f() {}\n".to_owned(), "no head"),
        ("crates/log/src/lib.rs", concat!("//! X.\n// FIX", "ME\n").to_owned(), "finish it"),
        ("docs/a.md", concat!("see /ho", "me/x\n").to_owned(), "somebody's machine"),
        ("docs/a.md", "blank \n".to_owned(), "blanks at the end"),
        ("docs/a.md", "no newline".to_owned(), "exactly one newline"),
        ("crates/log/src/lib.rs", format!("//! {}\n", "x".repeat(117)), "line-chars 121"),
        ("crates/log/src/lib.rs", "//! X.\n".repeat(501), "file-lines 501"),
        ("crates/log/src/lib.rs", format!("//! X.\n\n{}", "a.unwrap();\n".repeat(3)), "unwraps 3"),
        ("crates/log/src/a.rs", "//! X.\n".to_owned(), "missing-lines 29"),
        ("crates/log/src/lib.rs", "//! X.\nconst FRAME_MAX: u8 = 1;\n".to_owned(), "a limit is called MAX_X"),
        ("docs/a.md", concat!("The mail", "box.\n").to_owned(), "retired word"),
    ];
    for (path, text, expected) in cases {
        let found = findings(path, &text);
        assert_eq!(found.len(), 1, "{path}: {found:?}");
        assert!(found[0].contains(expected), "{path}: {found:?} should say {expected:?}");
    }
}

#[test]
fn what_cannot_be_helped_is_left_alone() {
    let unwrap = "a.unwrap();\n".repeat(3);
    let long = "x".repeat(200);
    let cases = [
        ("crates/log/src/a/tests.rs", format!("//! X.\n{unwrap}")),
        ("crates/log/src/lib.rs", format!("//! X.\n\n#[cfg(test)]\n{unwrap}")),
        ("crates/log/src/lib.rs", format!("//! X.\n{}", "a.unwrap(); // checked above\n".repeat(3))),
        ("crates/log/src/lib.rs", format!("//! X.\n//! | {long} |\n//! https://example.org/{long}\n")),
        ("crates/api/src/generated/kv.rs", format!("{long}\n")),
    ];
    for (path, text) in cases {
        assert_eq!(findings(path, &text), Vec::<String>::new(), "{path}");
    }
}

#[test]
fn the_ratchet_only_tightens() {
    let list = "# why\nfile-lines a.rs 600 # since ever\n";
    let apply = |lines: usize| {
        let mut ratchet = Ratchet::parse(list).unwrap();
        let measured = ratchet::Measured { value: lines, line: 1 };
        ratchet.apply(&file("a.rs", ""), ratchet::FILE_LINES, measured).map(|finding| finding.what)
    };
    assert_eq!(apply(600), None);
    assert!(apply(601).unwrap().contains("at most 600"));
    assert!(apply(599).unwrap().contains("lower line 2"));
    assert!(apply(500).unwrap().contains("remove line 2"));
    assert_eq!(Ratchet::parse(list).unwrap().unused().len(), 1);
    assert!(Ratchet::parse("file-lines a.rs\n").is_err());
    assert!(Ratchet::parse("height a.rs 3\n").is_err());
}

#[test]
fn links_name_files_and_headings_that_exist() {
    let texts = [
        "[a](b.md) [b](../README.md#the-word) [c](b.md#no) [d](#here)",
        "[e](no.md) `[f](no.md)` ![h](h.png)",
        "",
    ];
    let files = [
        file("docs/a.md", texts[0]),
        file("docs/b.md", texts[1]),
        file("README.md", "# The word\n\n[all](docs)"),
        file("docs/c.md", "# Here\n[d](#here) [g](https://example.org/no.md)"),
    ];
    let found: Vec<String> = documents::check(&files, &["docs/h.png".to_owned()])
        .iter()
        .map(|f| format!("{}: {}", f.path, f.what))
        .collect();
    assert_eq!(
        found,
        [
            "docs/a.md: link \"b.md#no\": the document has no such heading",
            "docs/a.md: link \"#here\": the document has no such heading",
            "docs/b.md: link \"no.md\": there is no such file in the repository",
        ]
    );
}

#[test]
fn the_tests_that_documents_name_exist() {
    let table = "| limit | test |\n|---|---|\n| a | `full` `TestItEnds` |\n| b | `slow` `TestItEnds` |\n| c | none |\n";
    let files = [
        file(
            "docs/a.md",
            &format!(
                "`TestItEnds` and `TestNothing`, `Tested`\n\n{table}\n| x | tests |\n|---|---|\n| a | |\n"
            ),
        ),
        file("tests/go/full/full_test.go", "func TestItEnds(t *testing.T) {\n"),
        file("tests/go/slow/slow_test.go", "func TestItIsSlow(t *testing.T) {\n"),
    ];
    let found = documents::check(&files, &[]).into_iter().map(|finding| (finding.line, finding.what));
    let expected = [
        (1, "no test is called TestNothing"),
        (6, "tests/go/slow has no TestItEnds"),
        (7, "the row names no test"),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected.map(|(line, what)| (line, what.to_owned())));
}

#[test]
fn libraries_and_their_reasons_belong_together() {
    let own = "log = { path = \"crates/log\" }";
    let table =
        format!("[workspace.dependencies]\n{own}\nbytes = \"1\"\nserde = \"1\"\n\n[profile]\nx = 1\n");
    let reasons = "| crate | why |\n|---|---|\n| bytes, clap | good |\n";
    let files = [file("Cargo.toml", &table), file("docs/dependencies.md", reasons)];
    let found: Vec<String> = dependencies::check(&files).into_iter().map(|finding| finding.what).collect();
    assert_eq!(found, ["serde has no line in docs/dependencies.md", "clap is not in Cargo.toml"]);
}
