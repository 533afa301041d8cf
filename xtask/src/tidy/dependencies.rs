//! Every library of the workspace table is explained in docs/dependencies.md, and nothing else is.

use std::collections::BTreeMap;

use super::file::{File, Finding};

const TABLE: &str = "Cargo.toml";
const EXPLAINED: &str = "docs/dependencies.md";

/// Compares the two lists.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    let (Some(table), Some(explained)) = (find(TABLE), find(EXPLAINED)) else { return Vec::new() };
    let (used, told) = (used(&table.text), told(&explained.text));
    let untold = used.iter().filter(|(name, _)| !told.contains_key(*name));
    let untold =
        untold.map(|(name, line)| Finding::new(table, *line, format!("{name} has no line in {EXPLAINED}")));
    let unused = told.iter().filter(|(name, _)| !used.contains_key(*name));
    let unused =
        unused.map(|(name, line)| Finding::new(explained, *line, format!("{name} is not in {TABLE}")));
    untold.chain(unused).collect()
}

/// The names in the workspace table with their lines; our own crates have paths and are left out.
fn used(table: &str) -> BTreeMap<&str, usize> {
    let lines = table.lines().enumerate().skip_while(|(_, line)| *line != "[workspace.dependencies]").skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with('['));
    let libraries = section.filter(|(_, line)| !line.contains("path = "));
    libraries.filter_map(|(index, line)| Some((line.split_once(" = ")?.0, index + 1))).collect()
}

/// The names in the first column of the tables with their lines; a line may tell of several.
fn told(document: &str) -> BTreeMap<&str, usize> {
    let rows =
        document.lines().enumerate().filter_map(|(index, line)| Some((index, line.strip_prefix("| ")?)));
    let cells = rows.filter_map(|(index, row)| Some((index, row.split_once(" |")?.0)));
    let names = cells.filter(|(_, cell)| *cell != "crate");
    names.flat_map(|(index, cell)| cell.split(", ").map(move |name| (name, index + 1))).collect()
}
