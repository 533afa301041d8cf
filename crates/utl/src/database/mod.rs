//! etcd's database file: what a snapshot holds, and the way from it into a state of Stele.
//!
//! | file | holds |
//! |---|---|
//! | `file` | the file: its lock, its pages, the SHA-256 behind a snapshot |
//! | `status` | `snapshot status` |
//! | `hashkv` | `hashkv` |
//! | `forms` | the forms in which both print |
//! | `state` | all records, version by version, into a data directory that is being made |

pub(crate) mod file;
mod forms;
pub(crate) mod hashkv;
pub(crate) mod state;
pub(crate) mod status;
