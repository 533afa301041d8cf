//! The binary as scripts call it, before any member starts: what it prints where, and its exit codes.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stele")).args(arguments).output().expect("the binary was built")
}

#[test]
fn it_names_its_own_version_and_that_of_the_etcd_it_replaces() {
    let output = run(&["--version"]);
    let text = String::from_utf8(output.stdout).expect("it is text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], concat!("stele Version: ", env!("CARGO_PKG_VERSION")));
    assert!(lines[1].starts_with("etcd Version: 3."), "{text}");
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn a_flag_that_does_not_exist_is_named_and_nothing_starts() {
    let output = run(&["server", "--nonsense"]);
    let text = String::from_utf8(output.stderr).expect("it is text");
    assert!(text.contains("-nonsense"), "{text}");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}
