//! Data directories of etcd.
//!
//! | file | holds |
//! |---|---|
//! | `data_dir` | what is in one, and the lock against a running etcd |
//! | `wal` | the entries of its write-ahead log, and the beginning of a new one |
//! | `request` | what an entry asks for |
//! | `raft_conf` | who votes, as Raft has it |
//! | `membership` | its members, and what an entry says of them |
//! | `import` | `import`: a data directory of Stele from one of etcd |
//! | `export` | `export --as-directory`: one of etcd from one of Stele |
//! | `snap_file` | the file beside its database that says who the members are |
//! | `rewrite` | writing its database again, with a change |
//! | `defrag`, `migrate` | the commands with these names, which also know directories of Stele |

mod data_dir;
pub(crate) mod defrag;
pub(crate) mod export;
pub(crate) mod import;
mod membership;
pub(crate) mod migrate;
mod raft_conf;
mod request;
mod rewrite;
mod snap_file;
mod wal;
