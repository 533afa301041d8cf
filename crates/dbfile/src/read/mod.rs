//! Reading a file of which every byte may be anything.
//!
//! A page is trusted when its header has its own number and a kind that may be where it was found, and all that it
//! names lies inside: elements inside the page, pages inside the file. A tree may still lead back into itself, so a
//! walk ends with an error when it has read more pages than the file has, or when a key does not follow the one
//! before.
//!
//! Memory: one page for each level of a tree, with its overflow.

mod file;
mod node;
mod pages;
mod source;
mod walk;

pub use file::DbFile;
pub use source::ReadAt;
pub use walk::{BucketWalk, RawPair};
