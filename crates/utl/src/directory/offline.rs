//! Opening the directory of a member that does not run, for commands that only look.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use log::Options;
use member::restore::{OfflineState, open_offline};
use member::{OpenMemberError, Sequential};

use super::read_only::ReadOnlyDisk;
use crate::line::{CommandLine, Refusal};

/// Opens the directory of `--data-dir` and `--wal-dir`, and changes nothing in it. Damaged entries after its checkpoint
/// are left to the caller, as [`OfflineState::damaged`] and [`OfflineState::warnings`].
///
/// # Errors
/// It has no data, a member uses it, or no state can be made of it.
pub(super) fn open(line: &CommandLine) -> Result<OfflineState, Refusal> {
    let disk: Arc<dyn log::Disk> = Arc::new(ReadOnlyDisk::default());
    let bar = line.waiting_bar("reading the state");
    let opened = open_offline(&disk, &options(line), &Sequential);
    bar.finish_and_clear();
    opened.map_err(|error| Refusal::error(explained(&error)))
}

/// As [`open`], and shows its warnings.
///
/// # Errors
/// As [`open`]; or an entry after the checkpoint is damaged, so the newest state is not known.
pub(crate) fn open_whole(line: &mut CommandLine) -> Result<OfflineState, Refusal> {
    let opened = open(line)?;
    for warning in &opened.warnings {
        line.complain(&format!("Warning: {warning}"));
    }
    match opened.damaged.first() {
        None => Ok(opened),
        Some(first) => Err(Refusal::error(format!(
            "entry {} of the log is damaged, so the state is not known: take another member's directory, or restore a \
             backup; `stele utl verify` lists all damage",
            first.index
        ))),
    }
}

/// Where the log of `--data-dir` and `--wal-dir` is.
pub(super) fn options(line: &CommandLine) -> Options {
    let wal_dir = Some(line.values.text("wal-dir")).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    Options { wal_dir, ..Options::new(PathBuf::from(line.values.text("data-dir"))) }
}

/// What `--data-dir` must name, for the end of a line.
const WANTED: &str = "--data-dir names the data directory of a Stele member that was stopped";

/// An error in a line, with what to do.
pub(super) fn explained(error: &OpenMemberError) -> String {
    match error {
        OpenMemberError::Log(log::OpenError::Etcd { path }) => {
            format!(
                "{} belongs to etcd: for its data directories there is `stele utl import`",
                path.display()
            )
        }
        OpenMemberError::Log(log::OpenError::Absent { path }) if !path.exists() => {
            format!("{} does not exist: {WANTED}", path.display())
        }
        OpenMemberError::Log(log::OpenError::Absent { path }) => {
            format!("{} holds no log of Stele: {WANTED}", path.display())
        }
        OpenMemberError::Log(log::OpenError::Io { path, source, .. })
            if source.kind() == ErrorKind::NotADirectory =>
        {
            let file = path.ancestors().find(|part| part.is_file()).unwrap_or(Path::new(path));
            format!("{} is a file: {WANTED}", file.display())
        }
        error => error.to_string(),
    }
}
