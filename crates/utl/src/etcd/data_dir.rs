//! What a data directory is: etcd's, Stele's, or none.

use std::path::{Path, PathBuf};

use log::{Disk, Log, Options, RealDisk};

use crate::directory::read_only::ReadOnlyDisk;
use crate::line::{Refusal, system_error};

/// Whose data directory it is.
pub(super) enum DirectoryOwner {
    /// etcd's, with its database file.
    Etcd(PathBuf),
    /// Stele's; no member uses it now.
    Stele,
}

/// Looks whose data directory this is.
///
/// # Errors
/// It is neither etcd's nor Stele's; or a member of Stele uses it.
pub(super) fn owner(data_dir: &Path) -> Result<DirectoryOwner, Refusal> {
    let member = data_dir.join("member");
    let database = member.join("snap").join("db");
    if database.exists() {
        return Ok(DirectoryOwner::Etcd(database));
    }
    if !member.join("checkpoint").join("MANIFEST").exists() {
        let missing = std::io::ErrorKind::NotFound.into();
        return Err(system_error("stat", &database, &missing));
    }
    match ReadOnlyDisk::default().lock(&member.join("LOCK")) {
        Ok(_) => Ok(DirectoryOwner::Stele),
        Err(log::LockError::Held(holder)) => Err(Refusal::error(format!(
            "{} is in use by {holder}: stop that member first",
            data_dir.display()
        ))),
        Err(log::LockError::Io(error)) => Err(system_error("lock", &member.join("LOCK"), &error)),
    }
}

/// Whether a log of Stele can be found in a directory, for a message.
pub(super) fn is_steles(data_dir: &Path) -> bool {
    Log::exists(&RealDisk, &Options::new(data_dir)).unwrap_or(false)
}
