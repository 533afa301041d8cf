//! A log file that makes room for a new one when it is full, as etcd's library for it, lumberjack, does:
//!
//! ```text
//! log.txt                                    is written; when the next line would not fit, it becomes
//! log-2026-11-20T11-50-12.417.txt            an old file, named by the time, and
//! log-2026-11-20T11-50-12.417.txt.gz         with "compress" is compressed, then removed
//! ```
//!
//! Old files beyond "maxbackups" and older than "maxage" are removed. That, and compressing, is done by a thread of its
//! own: [`old_files`].

mod old_files;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};

use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::config::LogRotation;
use old_files::OldFiles;

/// Mode of a new file, unless it replaces one: what is logged may name keys and users.
const NEW_FILE_MODE: u32 = 0o600;

/// A file with a largest size.
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
    time_zone: TimeZone,
    old_files: OldFiles,
    /// Wakes the thread that looks after old files. A wake-up that waits stands for all.
    wake: SyncSender<()>,
}

impl RotatingFile {
    /// Opens a file for appending, or creates it with its directory.
    ///
    /// # Errors
    /// What the system refuses.
    pub(super) fn open(path: &Path, rotation: LogRotation) -> io::Result<RotatingFile> {
        RotatingFile::with_max_bytes(path, rotation.max_file_bytes(), rotation)
    }

    fn with_max_bytes(path: &Path, max_bytes: u64, rotation: LogRotation) -> io::Result<RotatingFile> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let (file, bytes) = open(path)?;
        let time_zone = if rotation.local_time { TimeZone::system() } else { TimeZone::UTC };
        let old_files = OldFiles::of(path, rotation);
        let (wake, woken) = sync_channel(1);
        let removing = old_files.clone();
        let zone = time_zone.clone();
        std::thread::Builder::new().name("stele-log-files".to_owned()).spawn(move || {
            while woken.recv().is_ok() {
                // It is tried again with the next file; there is nowhere to report a failure but the log itself.
                let _ = removing.look_after(Zoned::now().with_time_zone(zone.clone()).datetime());
            }
        })?;
        let this = RotatingFile { path: path.to_owned(), file, bytes, max_bytes, time_zone, old_files, wake };
        this.wake();
        Ok(this)
    }

    /// Writes a line. If it does not fit, a new file is begun first.
    ///
    /// # Errors
    /// What the system refuses, and a line that is larger than a file may be.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if length > self.max_bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the line is larger than a file may be"));
        }
        if self.bytes + length > self.max_bytes {
            self.begin_new()?;
        }
        self.file.write_all(line)?;
        self.bytes += length;
        Ok(())
    }

    /// Opens the file again under its name: another program may have moved it away.
    ///
    /// # Errors
    /// What the system refuses; the file that was open stays in use.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.bytes) = open(&self.path)?;
        Ok(())
    }

    fn begin_new(&mut self) -> io::Result<()> {
        let mode = fs::metadata(&self.path).map_or(NEW_FILE_MODE, |known| known.permissions().mode());
        let now = Zoned::now().with_time_zone(self.time_zone.clone());
        match fs::rename(&self.path, self.old_files.name_at(now.datetime())) {
            // Another program has moved it away.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.file = OpenOptions::new().append(true).create(true).mode(mode).open(&self.path)?;
        self.bytes = 0;
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        // A wake-up that waits already, or a thread that has ended: either way there is nothing to do.
        let _ = self.wake.try_send(());
    }
}

/// Opens or creates a file for appending; with the bytes it has.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(NEW_FILE_MODE).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

#[cfg(test)]
mod tests {
    //! Which bytes are in which file.
    use super::*;

    #[test]
    fn a_full_file_makes_room_and_keeps_its_mode() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("new").join("log.txt");
        let open = || RotatingFile::with_max_bytes(&path, 10, LogRotation::default()).expect("a file");
        let mut file = open();
        file.write(b"12345\n").expect("room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("our file");
        // What is there counts when it is opened again.
        let mut file_again = open();
        file_again.write(b"abc\n").expect("room");
        assert_eq!(fs::read(&path).expect("a file"), b"12345\nabc\n");
        file_again.write(b"x\n").expect("a new file");
        assert_eq!(fs::read(&path).expect("a file"), b"x\n");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let old: Vec<_> = fs::read_dir(path.parent().expect("one"))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .filter(|found| *found != path)
            .collect();
        assert_eq!(old.len(), 1, "{old:?}");
        assert_eq!(fs::read(&old[0]).expect("a file"), b"12345\nabc\n");
        assert!(file_again.write(b"12345678901").is_err(), "it would fit into no file");
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_again() {
        let dir = tempfile::tempdir().expect("directory");
        let (path, moved) = (dir.path().join("log.txt"), dir.path().join("moved.txt"));
        let mut file = RotatingFile::with_max_bytes(&path, 10, LogRotation::default()).expect("a file");
        file.write(b"12345\n").expect("room");
        fs::rename(&path, &moved).expect("our file");
        file.reopen().expect("a new file");
        // It is empty, so that this fits.
        file.write(b"abcdefgh\n").expect("room");
        assert_eq!(fs::read(&path).expect("a file"), b"abcdefgh\n");
        assert_eq!(fs::read(&moved).expect("a file"), b"12345\n");
    }
}
