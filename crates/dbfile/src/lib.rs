//! etcd's database file: bbolt's pages, and in them etcd's buckets and records.
//!
//! etcd keeps its data in one file, `member/snap/db`, which the library bbolt writes. A snapshot that a client takes of
//! etcd is that file, followed by its SHA-256. So this is the format in which backups are taken, checked, restored and
//! migrated.
//!
//! ```text
//! | records   what etcd puts into the buckets: versions of keys, leases, members, the applied index |
//! | write     pairs in order -> pages, one after the other; the length of the file is known before  |
//! | read      pages -> pairs, of which nothing is trusted                                          |
//! | format    the bytes of a page's header and of a meta page                                       |
//! ```
//!
//! A file is written to any [`std::io::Write`], without going back, and read from any [`ReadAt`].
//!
//! ```
//! use dbfile::{DbFile, FileLayout, FileWriter};
//!
//! let pairs: [(&[u8], &[u8]); 2] = [(b"a", b"1"), (b"b", b"2")];
//! let mut layout = FileLayout::default();
//! layout.bucket("letters")?;
//! pairs.iter().try_for_each(|(key, value)| layout.pair(key.len(), value.len()))?;
//! let plan = layout.finish()?;
//!
//! let mut writer = FileWriter::new(Vec::new(), plan)?;
//! writer.bucket("letters")?;
//! pairs.iter().try_for_each(|(key, value)| writer.pair(key, value))?;
//! let file = writer.finish()?;
//! assert_eq!(file.len() as u64, plan.bytes());
//!
//! let file = DbFile::open(&file[..])?;
//! let mut letters = file.bucket("letters")?.expect("it was written");
//! assert_eq!(letters.next_pair()?, Some(pairs[0]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It knows no files, no threads and nothing of Stele's own state. `docs/internals/database-file.md` describes the
//! format to the byte.

mod error;
mod format;
mod read;
pub mod records;
mod write;

pub use error::{ReadError, WriteError};
pub use read::{BucketWalk, DbFile, RawPair, ReadAt};
pub use write::{FileLayout, FilePlan, FileWriter};
