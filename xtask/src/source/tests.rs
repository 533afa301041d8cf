//! Paths lead to the modules that define what they name.

use super::Target;
use super::tree::{self, SourceTree};

/// The tree of a crate with these files below `src/`, the first of which is its root.
pub(crate) fn tree_of(files: &[(&str, &str)]) -> SourceTree {
    let read = |path: &str| {
        let named = |(name, _): &&(&str, &str)| path.strip_prefix("src/") == Some(*name);
        files.iter().find(named).map(|(_, text)| (*text).to_owned())
    };
    tree::read(&format!("src/{}", files[0].0), &read).unwrap()
}

/// The file that defines `path`, seen from the root file.
fn defined_in(files: &[(&str, &str)], path: &str) -> Option<String> {
    let tree = tree_of(files);
    let path: Vec<String> = path.split("::").map(str::to_owned).collect();
    match tree.resolve(0, &path)? {
        Target::ItemOf(module) => Some(tree.files[tree.modules[module].file].clone()),
        other => Some(format!("{other:?}")),
    }
}

#[test]
fn modules_are_found_in_every_place_that_rust_allows() {
    let files = [
        ("lib.rs", "mod a; mod b; mod inline { pub mod c; } #[path = \"../src/odd.rs\"] mod d;"),
        ("a.rs", "pub mod deep; pub struct A;"),
        ("a/deep.rs", "pub fn deep() {}"),
        ("b/mod.rs", "pub enum B { One }"),
        ("inline/c.rs", "pub const C: u8 = 1;"),
        ("odd.rs", "pub trait D {}"),
    ];
    for (path, file) in [
        ("a::A", "src/a.rs"),
        ("crate::a::deep::deep", "src/a/deep.rs"),
        ("b::B::One", "src/b/mod.rs"),
        ("inline::c::C", "src/inline/c.rs"),
        ("self::d::D", "src/odd.rs"),
        ("std::fmt::Debug", ""),
        ("a::Made", "UnknownOf(1)"),
    ] {
        assert_eq!(defined_in(&files, path).unwrap_or_default(), file, "{path}");
    }
}

#[test]
fn re_exports_renames_and_globs_lead_to_the_definition() {
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::*; pub use b::{B as Bee, self as bees}; use std::fmt::Debug;"),
        ("a.rs", "pub use crate::b::B; mod deep; pub(crate) use deep::Deep; use super::a as itself;"),
        ("a/deep.rs", "pub struct Deep; pub use super::super::Circle;"),
        ("b.rs", "pub struct B; pub use crate::Circle; pub fn a() {}"),
    ];
    for (path, file) in [
        ("Bee", "src/b.rs"),
        ("B", "src/b.rs"),
        ("bees::B", "src/b.rs"),
        ("a::B", "src/b.rs"),
        ("Deep::new", "src/a/deep.rs"),
        ("a::itself::Deep", "src/a/deep.rs"),
        ("Debug", "Foreign"),
        ("b::Circle", "UnknownOf(0)"),
    ] {
        assert_eq!(defined_in(&files, path).unwrap_or_default(), file, "{path}");
    }
}

#[test]
fn tests_are_left_out() {
    let tree = tree_of(&[(
        "lib.rs",
        "#[cfg(test)] mod tests; #[cfg(all(test, unix))] struct A; #[cfg(not(test))] struct B;
         impl B { #[cfg(test)] fn f() { c::d() } #[test] fn g() { c::e() } fn h() { c::f() } }",
    )]);
    assert_eq!(tree.files.len(), 1);
    assert_eq!(tree.modules[0].items.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["B"]);
    let mentions: Vec<String> = tree.modules[0].mentions.iter().map(|found| found.path.join("::")).collect();
    assert_eq!(mentions, ["B", "c::f", "c::f"]);
}

#[test]
fn paths_in_macros_are_mentions_and_methods_are_not() {
    let tree = tree_of(&[(
        "lib.rs",
        "fn f() { assert_eq!(a::b(x.c::<D>(), E { e: f::g }), vec![$crate::h, 'i: 1], ..j::k, l(m)); }",
    )]);
    let mentions: Vec<String> = tree.modules[0].mentions.iter().map(|found| found.path.join("::")).collect();
    assert_eq!(mentions, ["assert_eq", "a::b", "D", "E", "f::g", "vec", "j::k", "l"]);
}

#[test]
fn public_is_what_users_of_the_crate_can_name() {
    let tree = tree_of(&[
        ("lib.rs", "mod a; pub mod b; pub use a::Shown; pub(crate) use a::Inner;"),
        ("a.rs", "#[derive(Debug, thiserror::Error)] pub enum Shown {} pub struct Inner; pub struct Hidden;"),
        ("b.rs", "pub struct Open; struct Own; impl std::error::Error for Open {}"),
    ]);
    let names: Vec<String> = tree.public_items().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["Shown", "Open"]);
    let errors = tree.modules.iter().flat_map(|module| &module.items).filter(|item| item.is_error);
    assert_eq!(errors.map(|item| item.name.as_str()).collect::<Vec<_>>(), ["Shown", "Open"]);
}
