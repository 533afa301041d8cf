//! The modules of a crate as its source shows them: which file defines a name, and which names a file uses.
//!
//! [`tree`] follows the `mod` declarations from a root file and notes what each module defines, imports and
//! mentions; [`references`] finds the mentions; [`resolve`] follows a path through imports, re-exports and globs to
//! the module that defines its item:
//!
//! ```text
//! crates/log/src/lib.rs      mod read;  pub use read::cursor::Cursor;
//! crates/log/src/append.rs   use crate::Cursor;      ->  crates/log/src/read/cursor.rs defines Cursor
//! ```
//!
//! Code under `#[cfg(test)]` is left out. Macros are not expanded: paths are searched in their tokens.

mod attributes;
mod references;
mod resolve;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use resolve::Target;
pub(crate) use tree::{Read, SourceTree};

use crate::metadata::Package;

/// The trees of a package: one for its library, one for each binary.
pub(crate) fn read_package(package: &Package, read: Read<'_>) -> Result<Vec<SourceTree>, String> {
    let roots = package.roots()?;
    roots.iter().map(|root| tree::read(root, read)).collect()
}

#[cfg(test)]
pub(crate) use tests::tree_of;
