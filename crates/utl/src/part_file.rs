//! A file that gets its name when it is whole and durable; until then its name ends in `.part`.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::line::{CommandEnd, Refusal, system_error};

/// Permission bits of the file: databases hold hashes of passwords.
const FILE_MODE: u32 = 0o600;

/// A file that is being written. It is removed unless it is committed.
pub(crate) struct PartFile {
    path: PathBuf,
    part: PathBuf,
    is_committed: bool,
}

impl PartFile {
    /// Creates the file for `path` that only its owner can read.
    ///
    /// # Errors
    /// The system refuses; or there is a file, also a link, with the name that it has until it is whole.
    pub(crate) fn create(path: &Path) -> Result<(PartFile, File), Refusal> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let opened = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&part);
        let file = opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Refusal::error(format!(
                "{} exists: another command is writing it, or one was cut short; then remove it",
                part.display()
            )),
            _ => system_error("open", &part, &error),
        })?;
        Ok((PartFile { path: path.to_owned(), part, is_committed: false }, file))
    }

    /// Gives the file, which is written and synced, its name. A file with that name is replaced.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn commit(mut self) -> CommandEnd {
        fs::rename(&self.part, &self.path).map_err(|error| system_error("rename", &self.part, &error))?;
        self.is_committed = true;
        let parent = self.path.parent().filter(|parent| parent.as_os_str() != OsStr::new(""));
        let folder = parent.unwrap_or(Path::new("."));
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| system_error("sync", folder, &error))
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.is_committed {
            // Best effort: the next attempt says that it is there.
            let _ = fs::remove_file(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn it_has_its_name_when_it_is_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("db");
        let (dropped, _) = PartFile::create(&path).expect("it is created");
        drop(dropped);
        assert_eq!(fs::read_dir(dir.path()).expect("it is listed").count(), 0);
        let (part, mut file) = PartFile::create(&path).expect("it is created");
        file.write_all(b"x").expect("it is written");
        part.commit().expect("it is renamed");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!((mode & 0o777, fs::read_dir(dir.path()).expect("it is listed").count()), (0o600, 1));
    }

    #[test]
    fn what_another_made_is_neither_written_nor_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, victim) = (dir.path().join("db"), dir.path().join("victim"));
        fs::write(&victim, "kept").expect("it is written");
        symlink(&victim, dir.path().join("db.part")).expect("it is linked");
        let refused = PartFile::create(&path).err().expect("there is a link");
        assert!(refused.message.contains("db.part exists"), "{refused:?}");
        assert_eq!(fs::read(&victim).expect("it is read"), b"kept");
        assert!(dir.path().join("db.part").exists());
    }
}
