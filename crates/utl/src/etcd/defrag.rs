//! `defrag`: gives the free space of a database file back to the disk.
//!
//! | directory | what it does |
//! |---|---|
//! | etcd's | writes the database again without free pages |
//! | Stele's, also a restored one | nothing: a running member frees files by itself |

use std::path::PathBuf;

use super::data_dir::{self, DirectoryOwner};
use super::rewrite::{StorageVersion, rewrite};
use crate::database::file::LockedFile;
use crate::line::{CommandEnd, CommandLine, Refusal, system_error};

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    let data_dir = PathBuf::from(line.values.text("data-dir"));
    let ended = match data_dir::owner(&data_dir) {
        Ok(DirectoryOwner::Etcd(path)) => LockedFile::open_alone(line, &path).and_then(|file| {
            let before = file.database()?.bytes();
            rewrite(line, &file, &StorageVersion::Kept)?;
            let after = std::fs::metadata(&path).map_err(|error| system_error("stat", &path, &error))?.len();
            line.complain(&format!("defragmented {}: {after} bytes, before {before}", path.display()));
            Ok(())
        }),
        Ok(DirectoryOwner::Stele) => {
            line.complain(
                "nothing to do: a member of Stele frees files while it runs, and at once when `etcdctl defrag` asks",
            );
            Ok(())
        }
        Err(refusal) => Err(refusal),
    };
    ended.map_err(|refusal| {
        let why = refusal.message;
        Refusal::error(format!("Failed to defragment etcd data[{}] ({why})", data_dir.display()))
    })
}
