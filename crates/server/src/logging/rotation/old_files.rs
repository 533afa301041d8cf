//! The old files of a log: their names, which of them are removed, and compressing them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::ToSpan;
use jiff::civil::DateTime;

use crate::config::LogRotation;

/// The time in a name, as lumberjack writes it.
const TIME_FORMAT: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// What follows the name of a compressed file.
const COMPRESSED: &str = ".gz";

/// The old files of one log.
#[derive(Clone)]
pub(super) struct OldFiles {
    directory: PathBuf,
    /// Before the time in a name: `log-`.
    prefix: String,
    /// Behind it: `.txt`, or nothing.
    extension: String,
    rotation: LogRotation,
}

/// An old file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OldFile {
    time: DateTime,
    name: String,
}

impl OldFile {
    fn is_compressed(&self) -> bool {
        self.name.ends_with(COMPRESSED)
    }
}

impl OldFiles {
    /// Those of the log at `path`.
    pub(super) fn of(path: &Path, rotation: LogRotation) -> OldFiles {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (stem, extension) = name.rfind('.').map_or((&*name, ""), |dot| name.split_at(dot));
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        OldFiles {
            directory: directory.unwrap_or(Path::new(".")).to_owned(),
            prefix: format!("{stem}-"),
            extension: extension.to_owned(),
            rotation,
        }
    }

    /// The path of a file that becomes an old one at this time.
    pub(super) fn name_at(&self, time: DateTime) -> PathBuf {
        self.directory.join(format!("{}{}{}", self.prefix, time.strftime(TIME_FORMAT), self.extension))
    }

    /// Removes those that are too many or too old at this time, and compresses the others if that is asked for.
    ///
    /// # Errors
    /// The first that the system refuses; the others are done nevertheless.
    pub(super) fn look_after(&self, now: DateTime) -> io::Result<()> {
        let LogRotation { max_backups, max_age_days, compress, .. } = self.rotation;
        if max_backups == 0 && max_age_days == 0 && !compress {
            return Ok(());
        }
        let oldest = now.checked_sub(i64::from(max_age_days).days()).ok().filter(|_| max_age_days > 0);
        let mut result = Ok(());
        let mut kept = 0;
        let mut last_time = None;
        for file in self.find()? {
            // A compressed file and the one it was made from count once.
            if last_time.replace(file.time) != Some(file.time) {
                kept += 1;
            }
            let is_surplus = max_backups > 0 && kept > max_backups;
            let path = self.directory.join(&file.name);
            let done = if is_surplus || oldest.is_some_and(|oldest| file.time < oldest) {
                fs::remove_file(path)
            } else if compress && !file.is_compressed() {
                compress_file(&path)
            } else {
                Ok(())
            };
            result = result.and(done);
        }
        result
    }

    /// All of them, newest first.
    fn find(&self) -> io::Result<Vec<OldFile>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && entry.file_type()?.is_file()
                && let Some(time) = self.time_of(&name)
            {
                found.push(OldFile { time, name });
            }
        }
        found.sort_by(|one, other| other.cmp(one));
        Ok(found)
    }

    /// The time in the name of an old file; `None` for all other files.
    fn time_of(&self, name: &str) -> Option<DateTime> {
        let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
        let time = name.strip_prefix(&self.prefix)?.strip_suffix(&self.extension)?;
        DateTime::strptime(TIME_FORMAT, time).ok()
    }
}

/// Compresses a file into one of the same mode beside it, and removes it.
fn compress_file(path: &Path) -> io::Result<()> {
    let mut target = path.as_os_str().to_owned();
    target.push(COMPRESSED);
    let target = PathBuf::from(target);
    let mut source = File::open(path)?;
    let mode = source.metadata()?.permissions().mode();
    // If it exists, an earlier attempt has begun it.
    let written =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&target).and_then(
            |file| {
                let mut encoder = GzEncoder::new(file, Compression::default());
                io::copy(&mut source, &mut encoder)?;
                encoder.finish().map(drop)
            },
        );
    match written {
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            let _ = fs::remove_file(&target);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    //! Names, and which files go. The time is an argument.
    use std::io::Read;

    use flate2::read::GzDecoder;
    use jiff::civil::date;

    use super::*;

    /// The names that are left after files of the days 1 to 5, and some others, were looked after on the fifth.
    fn left(rotation: LogRotation) -> Vec<String> {
        let dir = tempfile::tempdir().expect("directory");
        let old = OldFiles::of(&dir.path().join("log.txt"), rotation);
        for day in 1..=5 {
            let path = old.name_at(date(2026, 11, day).at(12, 0, 0, 7_000_000));
            fs::write(&path, format!("day {day}")).expect("room");
        }
        for other in ["log.txt", "log-x.txt", "other-2026-11-01T12-00-00.007.txt"] {
            fs::write(dir.path().join(other), "").expect("room");
        }
        old.look_after(date(2026, 11, 5).at(13, 0, 0, 0)).expect("it works");
        let mut names = Vec::new();
        for entry in fs::read_dir(dir.path()).expect("directory") {
            let path = entry.expect("entry").path();
            if path.extension().is_some_and(|extension| extension == "gz") {
                let mut text = String::new();
                let file = File::open(&path).expect("a file");
                GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
                assert!(text.starts_with("day "), "{text}");
            }
            names.push(path.file_name().expect("a name").to_string_lossy().into_owned());
        }
        names.retain(|name| name.starts_with("log-2026"));
        names.sort();
        names
            .into_iter()
            .map(|name| name.replace("log-2026-11-", "").replace("T12-00-00.007.txt", ""))
            .collect()
    }

    #[test]
    fn surplus_and_old_files_are_removed_and_the_others_compressed() {
        let rotation = LogRotation::default();
        assert_eq!(left(rotation.clone()), ["01", "02", "03", "04", "05"]);
        assert_eq!(left(LogRotation { max_backups: 2, ..rotation.clone() }), ["04", "05"]);
        assert_eq!(left(LogRotation { max_age_days: 2, ..rotation.clone() }), ["04", "05"]);
        let all = LogRotation { max_backups: 3, max_age_days: 2, compress: true, ..rotation };
        assert_eq!(left(all), ["04.gz", "05.gz"]);
    }

    #[test]
    fn a_name_without_extension_has_none_later() {
        let old = OldFiles::of(Path::new("/var/log/etcd"), LogRotation::default());
        let path = old.name_at(date(2026, 1, 2).at(3, 4, 5, 6_000_000));
        assert_eq!(path, Path::new("/var/log/etcd-2026-01-02T03-04-05.006"));
    }
}
