//! Data directories of Stele.
//!
//! | file | holds |
//! |---|---|
//! | `cluster` | the flags that say which cluster a new directory belongs to |
//! | `staging` | a directory that gets its name when it is whole |
//! | `restore` | `snapshot restore` |
//! | `write_behind` | a disk that changes files in a thread of its own |
//! | `read_only` | a disk on which nothing changes |
//! | `offline` | the state of a member that does not run |
//! | `database_file` | that state as etcd's database file |
//! | `export`, `inspect`, `verify`, `repair` | the commands with these names |

pub(crate) mod cluster;
pub(crate) mod database_file;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod offline;
pub(crate) mod read_only;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod staging;
pub(crate) mod verify;
mod write_behind;
