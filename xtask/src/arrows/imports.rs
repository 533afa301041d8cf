//! Which file of a crate imports which.
//!
//! A file imports another when its code names something that the other defines: in a `use`, or in a path. A re-export
//! leads to the file that defines the item, so it does not matter through which module a name is reached. By
//! themselves, `mod child;` and `pub use child::X` are no imports: a parent may hold and offer what it does not use.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::source::{SourceTree, Target};

/// Why one file imports another: the first name that it takes from there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) path: String,
}

/// Imports by the indices of the importing and the imported file.
pub(super) type Imports = BTreeMap<usize, BTreeMap<usize, Cause>>;

/// All imports between the files of a crate.
pub(super) fn between_files(tree: &SourceTree) -> Imports {
    let mut imports = Imports::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let taken = module.imports.iter().filter(|import| {
            let only_offers = || import.is_reexport && is_of_descendant(tree, id, &import.path);
            !(import.is_glob || only_offers())
        });
        let taken = taken.map(|import| (&import.path, import.line));
        let mentioned = module.mentions.iter().map(|mention| (&mention.path, mention.line));
        for (path, line) in taken.chain(mentioned) {
            let Some(to) = defining_file(tree, id, path).filter(|to| *to != module.file) else { continue };
            let cause = Cause { line, path: path.join("::") };
            let first = imports.entry(module.file).or_default().entry(to).or_insert_with(|| cause.clone());
            *first = cause.min(first.clone());
        }
    }
    imports
}

/// The file that defines what `path` names. To name a module takes nothing from it.
fn defining_file(tree: &SourceTree, module: usize, path: &[String]) -> Option<usize> {
    match tree.resolve(module, path)? {
        Target::ItemOf(module) | Target::UnknownOf(module) => Some(tree.modules[module].file),
        Target::Module(_) | Target::Foreign => None,
    }
}

fn is_of_descendant(tree: &SourceTree, module: usize, path: &[String]) -> bool {
    match tree.resolve(module, path) {
        Some(Target::ItemOf(target) | Target::UnknownOf(target) | Target::Module(target)) => {
            tree.is_within(target, module)
        }
        Some(Target::Foreign) | None => true,
    }
}

/// A cycle in words, one line for each import.
pub(super) fn describe(name: &str, tree: &SourceTree, cycle: &[(usize, usize, Cause)]) -> String {
    let mut text = format!("{name}: {} files import each other in a cycle:", cycle.len());
    for (from, to, Cause { line, path }) in cycle {
        let (from, to) = (&tree.files[*from], &tree.files[*to]);
        // Writing to a string does not fail.
        let _ = write!(text, "\n  {from}:{line}: `{path}` is defined in {to}");
    }
    text
}
