//! A data directory that gets its name when it is whole.
//!
//! ```text
//! begin     D/unfinished-restore/member/…      a start with D finds no member; unfinished-export for etcd's
//! commit    all changes behind the caller; rename to D/member: the commit point
//! failure   what was made is removed; after a crash, D is not empty: the next attempt refuses it and says so
//! ```
//!
//! A separate WAL directory is created at the beginning and gets one small file, which means nothing without the rest.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use log::{Disk, Options, RealDisk};

use super::write_behind::WriteBehindDisk;
use crate::line::{CommandEnd, Refusal, system_error};

/// Below the data directory, as long as it is not whole.
const UNFINISHED: &str = "unfinished-restore";

/// The same for a data directory of etcd.
const UNFINISHED_EXPORT: &str = "unfinished-export";

/// What the log calls the directory with everything in it.
const MEMBER: &str = "member";

/// Where it has segments without a separate WAL directory, below that.
const DEFAULT_WAL: &str = "wal";

/// Permission bits of directories: what they hold is for members alone.
const DIRECTORY_MODE: u32 = 0o700;

/// A data directory that is being made. What was made is removed unless it was committed.
pub(crate) struct StagedDirectory {
    data_dir: PathBuf,
    /// What it is called until it is whole.
    unfinished: &'static str,
    /// A separate WAL directory, which this attempt created.
    wal_dir: Option<PathBuf>,
    /// Whether the data directory did not exist.
    is_new: bool,
    /// Where directories that did not exist get their names.
    named_in: Vec<PathBuf>,
    /// Writes the log's files.
    disk: Arc<WriteBehindDisk>,
    is_committed: bool,
}

impl StagedDirectory {
    /// Begins to make a data directory.
    ///
    /// # Errors
    /// There is something in it; the WAL directory exists, cannot be created or would be renamed with the rest; the
    /// system has no thread for the disk.
    pub(crate) fn begin(data_dir: &Path, wal_dir: Option<&Path>) -> Result<StagedDirectory, Refusal> {
        let is_new = check_empty(data_dir)?;
        let mut named_in = parents_of_new(data_dir)?;
        let wal_dir = separate(data_dir, wal_dir)?;
        if let Some(wal_dir) = wal_dir {
            named_in.extend(parents_of_new(wal_dir)?);
        }
        let disk = begin_to_write(data_dir)?;
        if let Some(wal_dir) = wal_dir {
            create_wal_dir(wal_dir)?;
        }
        Ok(StagedDirectory {
            data_dir: data_dir.to_owned(),
            unfinished: UNFINISHED,
            wal_dir: wal_dir.map(Path::to_owned),
            is_new,
            named_in,
            disk,
            is_committed: false,
        })
    }

    /// Begins to make a data directory of etcd, in [`unfinished_member`](Self::unfinished_member).
    ///
    /// # Errors
    /// There is something in it; the system has no thread for the disk.
    pub(crate) fn begin_export(data_dir: &Path) -> Result<StagedDirectory, Refusal> {
        let is_new = check_empty(data_dir)?;
        Ok(StagedDirectory {
            data_dir: data_dir.to_owned(),
            unfinished: UNFINISHED_EXPORT,
            wal_dir: None,
            is_new,
            named_in: parents_of_new(data_dir)?,
            disk: begin_to_write(data_dir)?,
            is_committed: false,
        })
    }

    /// Where the log is made.
    pub(crate) fn options(&self) -> Options {
        Options { wal_dir: self.wal_dir.clone(), ..Options::new(self.unfinished()) }
    }

    /// What writes the log: behind the caller, until the directory is committed.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    fn unfinished(&self) -> PathBuf {
        self.data_dir.join(self.unfinished)
    }

    /// The part of it that gets its name at the end.
    pub(crate) fn unfinished_member(&self) -> PathBuf {
        self.unfinished().join(MEMBER)
    }

    /// Gives the directory, which is whole and closed, its name. No crash takes it away after that.
    ///
    /// # Errors
    /// The system refuses, now or what was still to be written.
    pub(crate) fn commit(mut self) -> CommandEnd {
        self.disk.finish().map_err(|error| system_error("finish", &self.data_dir, &error))?;
        let (from, to) = (self.unfinished_member(), self.data_dir.join(MEMBER));
        fs::rename(&from, &to).map_err(|error| system_error("rename", &from, &error))?;
        // It has its name: whatever fails now, no part of it may be removed.
        self.is_committed = true;
        // Empty now, and without a meaning.
        let _ = fs::remove_dir(self.unfinished());
        for dir in [&self.data_dir].into_iter().chain(&self.named_in) {
            let synced = fs::File::open(dir).and_then(|dir| dir.sync_all());
            synced.map_err(|error| system_error("sync", dir, &error))?;
        }
        Ok(())
    }
}

fn begin_to_write(data_dir: &Path) -> Result<Arc<WriteBehindDisk>, Refusal> {
    let begun = WriteBehindDisk::new(Arc::new(RealDisk));
    begun.map(Arc::new).map_err(|error| system_error("begin to write to", data_dir, &error))
}

/// The directories in which a directory and those above it that do not exist will get their names, the lowest first.
fn parents_of_new(dir: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let absolute = std::path::absolute(dir).map_err(|error| system_error("open", dir, &error))?;
    let new = absolute.ancestors().take_while(|dir| !dir.exists());
    Ok(new.filter_map(Path::parent).map(Path::to_owned).collect())
}

/// Checks that nothing is in the place of a directory. Returns whether it does not exist.
fn check_empty(data_dir: &Path) -> Result<bool, Refusal> {
    if !data_dir.exists() {
        return Ok(true);
    }
    if fs::read_dir(data_dir).is_ok_and(|mut items| items.next().is_none()) {
        return Ok(false);
    }
    let is_left = [UNFINISHED, UNFINISHED_EXPORT].iter().any(|name| data_dir.join(name).exists());
    let advice = if is_left { ": an attempt before was cut short; remove it" } else { "" };
    Err(Refusal::error(format!("data-dir {data_dir:?} not empty or could not be read{advice}")))
}

/// The WAL directory, if it is a separate one and not the place where the log is without one, `D/member/wal`.
///
/// # Errors
/// It is elsewhere in what is renamed at the end.
fn separate<'a>(data_dir: &Path, wal_dir: Option<&'a Path>) -> Result<Option<&'a Path>, Refusal> {
    let Some(wal_dir) = wal_dir else { return Ok(None) };
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|error| system_error("open", path, &error));
    let (data, wal) = (absolute(data_dir)?, absolute(wal_dir)?);
    if wal == data.join(MEMBER).join(DEFAULT_WAL) {
        return Ok(None);
    }
    if wal == data || wal.starts_with(data.join(MEMBER)) || wal.starts_with(data.join(UNFINISHED)) {
        return Err(Refusal::error(format!(
            "wal-dir {wal_dir:?} is part of data-dir {data_dir:?}: name another"
        )));
    }
    Ok(Some(wal_dir))
}

/// Creates the WAL directory. Its parents are created as well, and stay.
fn create_wal_dir(wal_dir: &Path) -> CommandEnd {
    let refused = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Refusal::error(format!("wal-dir {wal_dir:?} exists")),
        _ => system_error("create", wal_dir, &error),
    };
    let mut builder = fs::DirBuilder::new();
    builder.mode(DIRECTORY_MODE);
    if let Some(parent) = wal_dir.parent() {
        builder.recursive(true).create(parent).map_err(refused)?;
    }
    builder.recursive(false).create(wal_dir).map_err(refused)
}

impl Drop for StagedDirectory {
    /// Best effort: what cannot be removed is refused by the next attempt.
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        self.disk.give_up();
        let _ = fs::remove_dir_all(self.unfinished());
        if let Some(wal_dir) = &self.wal_dir {
            let _ = fs::remove_dir_all(wal_dir);
        }
        if self.is_new {
            let _ = fs::remove_dir(&self.data_dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wal_directory_is_separate_or_in_its_usual_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let (data, wal) = (dir.path().join("data"), dir.path().join("fast").join("wal"));
        let begun =
            StagedDirectory::begin(&data, Some(&data.join("member").join("wal"))).expect("it is the usual");
        assert_eq!(begun.options().wal_dir, None);
        for within in
            [data.clone(), data.join("member"), data.join("member/wal/x"), data.join("unfinished-restore/x")]
        {
            let refused = StagedDirectory::begin(&data, Some(&within)).err().expect("it would be renamed");
            assert!(refused.message.contains("is part of data-dir"), "{refused:?}");
        }
        drop(StagedDirectory::begin(&data, Some(&wal)).expect("nothing is in the way"));
        assert!(!wal.exists(), "this attempt created it");
        fs::create_dir_all(&wal).expect("it is made");
        assert!(StagedDirectory::begin(&data, Some(&wal)).is_err() && wal.exists(), "another created it");
    }

    #[test]
    fn each_new_directory_is_known_by_the_one_above() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |path: &str| dir.path().join(path);
        fs::create_dir(at("empty")).expect("it is made");
        let named_in = |data: &str, wal: Option<&str>| {
            let begun =
                StagedDirectory::begin(&at(data), wal.map(at).as_deref()).expect("nothing is in the way");
            begun.named_in.clone()
        };
        assert_eq!(named_in("empty", None), Vec::<PathBuf>::new(), "it had its name");
        assert_eq!(named_in("new", None), [dir.path()]);
        assert_eq!(named_in("a/b", Some("empty/wal")), [at("a"), dir.path().to_owned(), at("empty")]);
        let export = StagedDirectory::begin_export(&at("new")).expect("nothing is in the way");
        assert_eq!(export.named_in, [dir.path()]);
    }

    #[test]
    fn what_has_its_name_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let (data, wal) = (dir.path().join("data"), dir.path().join("wal"));
        let begun = StagedDirectory::begin(&data, Some(&wal)).expect("nothing is in the way");
        fs::create_dir_all(begun.unfinished().join(MEMBER)).expect("it is made");
        begun.commit().expect("it is renamed");
        assert!(data.join(MEMBER).exists() && wal.exists() && !data.join(UNFINISHED).exists());
    }

    #[test]
    fn what_was_not_written_is_not_committed() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        let begun = StagedDirectory::begin(&data, None).expect("nothing is in the way");
        fs::create_dir_all(begun.unfinished_member()).expect("it is made");
        // The disk says later that there is no such directory.
        let _ = begun.disk().create_new(&data.join("missing").join("file"));
        let refused = begun.commit().expect_err("a change has failed");
        assert!(refused.message.starts_with("finish "), "{refused:?}");
        assert!(!data.exists(), "nothing is left");
    }
}
