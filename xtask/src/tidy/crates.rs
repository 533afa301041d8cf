//! Rules over the types of whole crates: names, see [`super::names`], and how many kinds of errors a crate has.

use crate::metadata::Package;
use crate::source::{self, SourceTree};

use super::file::{File, Finding};
use super::names::TypeName;

/// One error type for each audience that handles it differently; a crate has few audiences.
const MAX_PUBLIC_ERRORS: usize = 4;

/// Checks the crates of the workspace.
pub(super) fn check(packages: &[&Package], files: &[File]) -> Result<Vec<Finding>, String> {
    let read = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.clone());
    let mut findings = Vec::new();
    let mut types = Vec::new();
    for package in packages {
        let trees = source::read_package(package, &read)?;
        types.extend(trees.iter().flat_map(|tree| type_names(&package.name, tree)));
        findings.extend(trees.iter().filter_map(few_errors));
    }
    findings.extend(super::names::check(&types, crate::arrows::known_by, files));
    Ok(findings)
}

/// The types and traits of a tree. Those of generated code have names given by a protocol, which nests them.
pub(super) fn type_names(krate: &str, tree: &SourceTree) -> Vec<TypeName> {
    let mut names = Vec::new();
    for module in &tree.modules {
        let path = &tree.files[module.file];
        if path.split('/').any(|part| part == "generated") {
            continue;
        }
        names.extend(module.items.iter().filter(|item| item.is_type).map(|item| TypeName {
            krate: krate.to_owned(),
            name: item.name.clone(),
            path: path.clone(),
            line: item.line,
        }));
    }
    names
}

/// At most four error types are visible to a crate's users.
pub(super) fn few_errors(tree: &SourceTree) -> Option<Finding> {
    let public = tree.public_items();
    let mut errors = Vec::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let visible = module.items.iter().filter(|item| item.is_error);
        errors.extend(visible.map(|item| (id, item.name.clone())).filter(|found| public.contains(found)));
    }
    let names: Vec<String> = errors.into_iter().map(|(_, name)| name).collect();
    (names.len() > MAX_PUBLIC_ERRORS).then(|| Finding {
        path: tree.files[0].clone(),
        line: 1,
        what: format!(
            "{} public error types ({}), at most {MAX_PUBLIC_ERRORS}: one for each audience that handles it \
             differently",
            names.len(),
            names.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_apart_from_generated_ones_and_tests() {
        let tree = source::tree_of(&[
            (
                "lib.rs",
                "mod generated; struct A; enum B {} trait C {} type D = u8; const E: u8 = 1; fn f() {}",
            ),
            ("generated/mod.rs", "pub struct G;"),
        ]);
        let names: Vec<String> = type_names("fake", &tree).into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["A", "B", "C", "D"]);
    }

    #[test]
    fn a_fifth_public_error_is_found() {
        let error = |name: &str| format!("#[derive(Debug, Error)] pub enum {name} {{}}");
        let four = ["A", "B", "C", "D"].map(error).concat() + "mod own { #[derive(Error)] pub enum Own {} }";
        assert!(few_errors(&source::tree_of(&[("lib.rs", &four)])).is_none());
        let five = four + "pub struct E; impl std::error::Error for E {}";
        let found = few_errors(&source::tree_of(&[("lib.rs", &five)])).unwrap();
        assert!(found.what.starts_with("5 public error types (A, B, C, D, E), at most 4"), "{}", found.what);
    }
}
