//! The store's state as etcd's database file: what a client receives as a snapshot, and what an export writes.
//!
//! ```text
//! capture                 the state as of one entry, and a walk over its versions
//! lay_out  walk 1         lengths of all records -> the length of the file, so that it is written front to back
//! write    walk 2         records, with values that the caller reads, a MiB at a time
//! ```
//!
//! It knows neither files nor threads: the caller reads values, and decides whether to go on.

mod records;
mod writing;

pub use records::{small, version};
pub use writing::{lay_out, write};
