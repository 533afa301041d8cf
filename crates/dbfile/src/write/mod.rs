//! Writing a file from its first byte to its last, in one pass, with a length that is known before.
//!
//! bbolt itself allocates pages as it goes and writes the meta pages last. Here, nothing can be written twice, and the
//! receiver wants to know the length first. Both follow from bulk loading: pairs come in order, so the same pairs
//! always give the same pages. They are given twice. [`FileLayout`] takes only lengths and counts pages; its
//! [`FilePlan`] holds what the meta pages say. [`FileWriter`] takes the bytes and writes the pages.
//!
//! ```text
//! page  0  meta                        } root page 8, 9 pages
//!       1  meta                        }
//!       2  freelist, empty
//!       3  leaf    a b c               } bucket "key": a page is written as soon as it is full, a branch
//!       4  leaf    d e                 } as soon as it has enough children
//!       5  leaf    f g h               }
//!       6  branch  a:3 d:4 f:5         }
//!       7  leaf ...                      the root of another bucket; a small bucket is in its record instead
//!       8  leaf    "key":6 "lease":7     the root bucket, last: now the pages of all buckets are known
//! ```
//!
//! Memory: a page of pairs, and for each level of the tree the keys of at most a branch page and five children; a
//! record for each bucket. None of it grows with the number of pairs, but for the levels: four hold a billion.
//!
//! Both passes run the same code, [`Load`](load::Load), with different [`PageSink`](sink::PageSink)s, so that they
//! cannot divide the pairs differently.

mod layout;
mod load;
mod sink;
mod tree;
mod writer;

pub use layout::{FileLayout, FilePlan};
pub use writer::FileWriter;

/// The page of the list of free pages, which is empty: bbolt would read the whole file if there were none.
const FREELIST_PAGE: u64 = 2;

/// The first page of a bucket.
const FIRST_PAGE: u64 = 3;

/// The longest value, as bbolt has it.
const MAX_VALUE_BYTES: usize = (1 << 31) - 2;
