//! `repair`: makes the directory of a member that was stopped one that starts again, after a copy of it.
//!
//! It repairs only what loses nothing that the member has acknowledged:
//!
//! ```text
//! a torn end of the log     cut off, as a start does; nothing proves that it was durable
//! the newest checkpoints    left out, if an older one and the entries after it make the same state
//! ```
//!
//! The second is tried out before anything is written: the directory is opened with the shorter manifest, and all
//! entries and values are read. All other damage needs bytes that this directory does not have. A member with peers
//! fetches those of entries and values from them by itself; else the member is removed and added again, or a backup
//! restored.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::ProgressBar;
use log::{RealDisk, ShorterManifest, Warning};
use member::restore::{OfflineState, open_offline};
use member::{OpenMemberError, Sequential};

use super::offline;
use super::read_only::ReadOnlyDisk;
use super::verify::examine;
use crate::line::{CommandEnd, CommandLine, Refusal, system_error};

/// Bytes that are copied together, or left out if all of them are zero.
const BLOCK_BYTES: usize = 64 << 10;

/// What `repair` can do for a directory.
enum RepairPlan {
    Nothing,
    CutTornEnd,
    DropCheckpoints(Box<ShorterManifest>),
}

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    if !line.args.is_empty() {
        return Err(Refusal::bad_args("repair accepts no arguments: the directory is named by --data-dir"));
    }
    let backup = PathBuf::from(line.values.text("backup-dir"));
    let parts = copied_parts(line, &backup)?;
    let plan = plan(line)?;
    if matches!(plan, RepairPlan::Nothing) {
        return line.print("nothing is to be repaired, and nothing was changed\n");
    }
    let bar = line.bytes_bar("copying", parts.iter().map(|(from, _)| bytes_below(from)).sum());
    let copied = parts.iter().try_for_each(|(from, to)| copy_directory(from, to, &bar));
    bar.finish_and_clear();
    copied?;
    line.print(&format!("copied the directory to {}\n", backup.display()))?;
    let disk: Arc<dyn log::Disk> = Arc::new(RealDisk);
    match plan {
        RepairPlan::DropCheckpoints(shorter) => {
            let newest = shorter.newest().index;
            shorter.commit(disk.as_ref()).map_err(|error| Refusal::error(error.to_string()))?;
            line.print(&format!(
                "left out damaged checkpoints: the newest is now that of entry {newest}, and the entries after it are \
                 replayed\n"
            ))?;
        }
        RepairPlan::CutTornEnd | RepairPlan::Nothing => {}
    }
    // Over the real disk: this cuts the end off, and removes files that the manifest does not name.
    let repaired = open_offline(&disk, &offline::options(line), &Sequential);
    let repaired = repaired.map_err(|error| Refusal::error(offline::explained(&error)))?;
    for warning in torn_ends(&repaired) {
        line.print(&format!("{warning}\n"))?;
    }
    let found = examine(line, &repaired)?;
    if found.is_damaged() {
        return Err(Refusal::error(
            "the directory is still damaged: put back the copy, and replace the member",
        ));
    }
    line.print(&format!("repaired: {}\n", found.summary()))
}

/// The torn ends of the log that recovery has found.
fn torn_ends(state: &OfflineState) -> impl Iterator<Item = &Warning> {
    state.warnings.iter().filter(|warning| matches!(warning, Warning::TornTail { .. }))
}

/// Finds out what can be done, and writes nothing.
fn plan(line: &mut CommandLine) -> Result<RepairPlan, Refusal> {
    let error = match try_out(line, None) {
        Ok(state) => {
            let found = examine(line, &state)?;
            if found.is_damaged() {
                return Err(needs_peers(&found.list()));
            }
            let is_torn = torn_ends(&state).next().is_some();
            return Ok(if is_torn { RepairPlan::CutTornEnd } else { RepairPlan::Nothing });
        }
        Err(error) => error,
    };
    let why = offline::explained(&error);
    if is_of_checkpoints(line, &error) {
        line.complain(&format!("Warning: {why}"));
        for dropped in 1.. {
            let shorter = ShorterManifest::plan(&RealDisk, &offline::options(line), dropped)
                .map_err(|error| Refusal::error(error.to_string()))?;
            let Some(shorter) = shorter else { break };
            let Ok(state) = try_out(line, Some(&shorter)) else { continue };
            if !examine(line, &state)?.is_damaged() {
                return Ok(RepairPlan::DropCheckpoints(Box::new(shorter)));
            }
        }
        return Err(needs_peers(
            "no older checkpoint is intact with all entries after it and all values of their state",
        ));
    }
    Err(match error {
        OpenMemberError::Log(log::OpenError::Corrupt { .. } | log::OpenError::MissingFiles { .. }) => {
            needs_peers(&why)
        }
        _ => Refusal::error(why),
    })
}

/// Whether the damage is in a checkpoint, and nowhere else.
fn is_of_checkpoints(line: &CommandLine, error: &OpenMemberError) -> bool {
    let checkpoints = offline::options(line).data_dir.join("member").join("checkpoint");
    let is_there = |path: &Path| path.starts_with(&checkpoints) && path.extension().is_some();
    match error {
        OpenMemberError::Checkpoint(_) => true,
        OpenMemberError::Log(
            log::OpenError::Corrupt { path, .. }
            | log::OpenError::TooShort { path, .. }
            | log::OpenError::BadMagic { path, .. }
            | log::OpenError::Io { path, .. },
        ) => is_there(path),
        _ => false,
    }
}

/// Opens the directory without changing it, with another manifest if one is given.
fn try_out(line: &CommandLine, shorter: Option<&ShorterManifest>) -> Result<OfflineState, OpenMemberError> {
    let shown = shorter.map(|shorter| (shorter.path().to_owned(), shorter.bytes()));
    let disk: Arc<dyn log::Disk> = Arc::new(ReadOnlyDisk { shown });
    open_offline(&disk, &offline::options(line), &Sequential)
}

/// The refusal of damage that this directory alone cannot undo.
fn needs_peers(what: &str) -> Refusal {
    Refusal::error(format!(
        "{what}: this cannot be repaired without peers, and nothing was changed. With peers, start the member: it \
         fetches damaged entries and values from them. If it does not start, remove it with `member remove` and add a \
         new one with an empty directory; without peers, restore a backup"
    ))
}

/// What is copied to where: the data directory, and a separate WAL directory below the same backup.
fn copied_parts(line: &CommandLine, backup: &Path) -> Result<Vec<(PathBuf, PathBuf)>, Refusal> {
    let options = offline::options(line);
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|error| system_error("open", path, &error));
    let (inside, data) = (absolute(backup)?, absolute(&options.data_dir)?);
    let is_used = fs::read_dir(backup).is_ok_and(|mut items| items.next().is_some());
    if is_used || backup.is_file() || inside.starts_with(&data) {
        return Err(Refusal::error(format!(
            "backup-dir {backup:?} must be new or empty, and not in the data directory"
        )));
    }
    let mut parts = vec![(options.data_dir.clone(), backup.join("data"))];
    if let Some(wal_dir) = options.wal_dir {
        if inside.starts_with(absolute(&wal_dir)?) {
            return Err(Refusal::error(format!("backup-dir {backup:?} is in the WAL directory")));
        }
        parts.push((wal_dir, backup.join("wal")));
    }
    Ok(parts)
}

/// Copies a directory with all that is in it, durably.
fn copy_directory(from: &Path, to: &Path, bar: &ProgressBar) -> CommandEnd {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(to).map_err(|error| system_error("create", to, &error))?;
    let items = fs::read_dir(from).map_err(|error| system_error("read", from, &error))?;
    for item in items {
        let item = item.map_err(|error| system_error("read", from, &error))?;
        let (source, target) = (item.path(), to.join(item.file_name()));
        let kind = item.file_type().map_err(|error| system_error("stat", &source, &error))?;
        if kind.is_dir() {
            copy_directory(&source, &target, bar)?;
        } else if kind.is_file() {
            copy_file(&source, &target, bar).map_err(|error| system_error("copy", &source, &error))?;
        }
    }
    let synced = fs::File::open(to).and_then(|directory| directory.sync_all());
    synced.map_err(|error| system_error("sync", to, &error))
}

/// Bytes of the files in a directory, for the bar alone: what cannot be read is refused when it is copied.
fn bytes_below(directory: &Path) -> u64 {
    let items = fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = |item: fs::DirEntry| match item.metadata() {
        Ok(known) if known.is_dir() => bytes_below(&item.path()),
        known => known.map_or(0, |known| known.len()),
    };
    items.map(bytes).sum()
}

/// Copies a file durably. Blocks of zeros, which segments are made of before they are used, take no space in the copy.
fn copy_file(from: &Path, to: &Path, bar: &ProgressBar) -> std::io::Result<()> {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let source = fs::File::open(from)?;
    let target = fs::File::options().write(true).create_new(true).mode(0o600).open(to)?;
    let (mut block, zeros) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    let mut offset = 0;
    loop {
        let count = source.read_at(&mut block, offset)?;
        if count == 0 {
            break;
        }
        if block[..count] != zeros[..count] {
            target.write_all_at(&block[..count], offset)?;
        }
        offset += count as u64;
        bar.inc(count as u64);
    }
    target.set_len(offset)?;
    target.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_bytes_and_no_zeros_on_disk() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().expect("a directory");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let mut bytes = vec![0; 40 * BLOCK_BYTES + 5];
        (bytes[3 * BLOCK_BYTES], bytes[40 * BLOCK_BYTES + 4]) = (7, 8);
        fs::write(&from, &bytes).expect("it is written");
        copy_file(&from, &to, &ProgressBar::hidden()).expect("it is copied");
        assert_eq!(fs::read(&to).expect("it is there"), bytes);
        let stored = fs::metadata(&to).expect("it is there").blocks() * 512;
        assert!(stored <= 4 * BLOCK_BYTES as u64, "{stored} bytes are stored");
        assert!(copy_file(&from, &to, &ProgressBar::hidden()).is_err(), "no file is replaced");
    }
}
