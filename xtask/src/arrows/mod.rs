//! The arrows of the design: which crate of ours may know which, which libraries are behind a door, and that the
//! imports between the files of a crate have no cycles.
//!
//! Direct dependencies are read from `cargo metadata` (ordinary and build ones; tests may use more), and for the
//! deterministic crates the whole tree below them from `cargo tree`, which, unlike the metadata, does not mix in the
//! features that other crates ask for. Imports are read from the source, see [`imports`]; there is no list of
//! exceptions.

mod cycles;
mod imports;
mod table;

use std::collections::BTreeSet;
use std::fs;

use crate::command::{self, Outcome, cargo};
use crate::metadata::{self, Metadata, Package};
use crate::source;

pub(crate) use table::known_by;
use table::{ARROWS, DETERMINISTIC, DOORS, RUNTIMES};

/// Checks every arrow, every door and every import.
pub(crate) fn run() -> Outcome {
    let metadata = metadata::read()?;
    let mut wrong = Vec::new();
    for package in metadata.ours() {
        check_package(&metadata, package, &mut wrong);
    }
    for name in DETERMINISTIC {
        check_tree(name, &mut wrong)?;
    }
    for package in metadata.ours() {
        check_imports(package, &mut wrong)?;
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn check_imports(package: &Package, wrong: &mut Vec<String>) -> Outcome {
    for tree in source::read_package(package, &|path| fs::read_to_string(path).ok())? {
        let cycles = cycles::shortest(&imports::between_files(&tree));
        wrong.extend(cycles.iter().map(|cycle| imports::describe(&package.name, &tree, cycle)));
    }
    Ok(())
}

fn check_package(metadata: &Metadata, package: &Package, wrong: &mut Vec<String>) {
    let name = package.name.as_str();
    let Some(arrow) = ARROWS.iter().find(|arrow| arrow.from == name) else {
        wrong.push(format!("{name} is not in the table of arrows: say what it may know, and why"));
        return;
    };
    let ours: BTreeSet<&str> = metadata.ours().map(|package| package.name.as_str()).collect();
    for dependency in package.dependencies.iter().filter(|found| !found.is_for_tests()) {
        let to = dependency.name.as_str();
        if ours.contains(to) && !arrow.to.contains(&to) {
            wrong.push(format!("{name} must not depend on {to}: {}", arrow.reason));
        }
        let closed = DOORS.iter().find(|door| door.libraries.contains(&to) && !door.only.contains(&name));
        if let Some(door) = closed {
            wrong.push(format!("{name} must not depend on {to}: {}", door.reason));
        }
    }
}

fn check_tree(name: &str, wrong: &mut Vec<String>) -> Outcome {
    let arguments = ["tree", "--locked", "-p", name, "-e", "normal", "--prefix", "none", "-f", "{p}"];
    let tree = command::output(&mut cargo(&arguments))?;
    let below: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    for runtime in RUNTIMES.iter().filter(|runtime| below.contains(**runtime)) {
        wrong.push(format!(
            "{name} reaches {runtime}: see `cargo tree -p {name} -e normal -i {runtime}`; the core is plain \
             synchronous code"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descriptions of the cycles in a crate of these files.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = source::tree_of(files);
        let cycles = cycles::shortest(&imports::between_files(&tree));
        cycles.iter().map(|cycle| imports::describe("fake", &tree, cycle)).collect()
    }

    #[test]
    fn a_cycle_is_described_by_its_imports() {
        let cycle = found(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "//! A.\nuse crate::b::B;\npub struct A(B);"),
            ("b.rs", "pub struct B;\nfn f() {\n    crate::c::g();\n}"),
            ("c.rs", "pub fn g() { assert!(super::a::A::new().is_some()); }"),
        ]);
        let expected = "fake: 3 files import each other in a cycle:
  src/a.rs:2: `crate::b::B` is defined in src/b.rs
  src/b.rs:3: `crate::c::g` is defined in src/c.rs
  src/c.rs:1: `super::a::A::new` is defined in src/a.rs";
        assert_eq!(cycle, [expected]);
    }

    #[test]
    fn a_child_and_its_parent_can_form_a_cycle() {
        let uses_child = "mod part; use part::Part; pub struct Whole(Part);";
        let uses_parent = "use super::Whole; pub struct Part(Box<Whole>);";
        assert_eq!(found(&[("lib.rs", uses_child), ("part.rs", uses_parent)]).len(), 1);
        assert_eq!(found(&[("lib.rs", uses_child), ("part.rs", "pub struct Part;")]).len(), 0);
        let only_offers = "mod part; pub use part::Part; pub struct Whole;";
        assert_eq!(found(&[("lib.rs", only_offers), ("part.rs", uses_parent)]).len(), 0);
        let offers_and_uses = "mod part; pub use part::Part; pub struct Whole(Part);";
        assert_eq!(found(&[("lib.rs", offers_and_uses), ("part.rs", uses_parent)]).len(), 1);
        let calls = "mod part; pub struct Whole; impl Whole { fn f(&self) { part::work() } }";
        let called = "use super::Whole; pub fn work() { Whole.f() }";
        assert_eq!(found(&[("lib.rs", calls), ("part.rs", called)]).len(), 1);
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("a.rs", "use crate::B; pub struct A;"),
            ("b.rs", "use crate::A; pub struct B;"),
        ];
        assert_eq!(found(&files).len(), 1);
        let one_way = [files[0], files[1], ("b.rs", "pub struct B;")];
        assert_eq!(found(&one_way).len(), 0);
        let through_globs = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use super::b::*; pub struct A(B);"),
            ("b.rs", "pub use super::a::*; pub struct B(Box<A>);"),
        ];
        assert_eq!(found(&through_globs).len(), 1);
    }

    #[test]
    fn tests_and_modules_as_such_are_no_imports() {
        let files = [
            ("lib.rs", "mod a; mod b; use std::fmt; fn f() { a::f() }"),
            ("a.rs", "use crate::b; pub fn f() { b::f() } #[cfg(test)] mod tests { use crate::b::B; }"),
            ("b.rs", "use crate::a; pub fn f() {} pub struct B; #[cfg(test)] fn t() { a::f(); super::f() }"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn each_file_in_a_cycle_is_in_one_of_those_found() {
        let cycles = found(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::{b::B, c::C}; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
            ("c.rs", "use crate::d::D; pub struct C;"),
            ("d.rs", "use crate::a::A; pub struct D;"),
        ]);
        let lengths: Vec<usize> = cycles.iter().map(|cycle| cycle.lines().count() - 1).collect();
        assert_eq!(lengths, [2, 3]);
    }

    #[test]
    fn the_table_is_followed_through() {
        assert!(known_by("stele-server").contains("stele-crc32c"));
        assert!(!known_by("stele-log").contains("stele-store"));
    }
}
