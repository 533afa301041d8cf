//! Data directories of etcd.
//!
//! | file | holds |
//! |---|---|
//! | `data_dir` | what is in one, and the lock against a running etcd |
//! | `wal` | the entries of its write-ahead log |
//! | `request` | what an entry asks for |
//! | `import` | `import`: a data directory of Stele from one of etcd |
//! | `rewrite` | writing its database again, with a change |
//! | `defrag`, `migrate` | the commands with these names, which also know directories of Stele |

mod data_dir;
pub(crate) mod defrag;
pub(crate) mod import;
pub(crate) mod migrate;
mod request;
mod rewrite;
mod wal;
