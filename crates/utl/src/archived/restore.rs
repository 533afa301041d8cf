//! `restore`: a data directory with a state of an archive.
//!
//! ```text
//! base      the newest one before the requested state -> data segments, index in memory
//! entries   applied as the cluster applied them, up to the requested state
//! points    wherever the archive says what the state was, its hash is compared
//! ```
//!
//! From a base before it the same state is made, with more entries: so if one is damaged, the next older one is taken.
//! The newest state is then the one of the damaged base at least: without the entries up to it, it is not restored.
//! Until all of it is right, the directory has no member in it.

use std::io;

use api::stelepb::{BackupEntry, BackupPoint};
use archive::{ArchiveError, ArchiveReader, BaseName, BaseReader, LogObject};
use dbfile::records::SmallRecords;
use dbfile::{DbFile, ReadAt};
use member::OpenMemberError;
use member::restore::{StateReplay, StateRestore, entry_clock_ms};
use sha2::{Digest, Sha256};

use super::target::RestoreTarget;
use super::{open, shown_time};
use crate::database::state::{self, StateFailure};
use crate::directory::cluster::{DirectoryCluster, NewCluster};
use crate::directory::restore::{check_bump, target as target_directory};
use crate::directory::staging::StagedDirectory;
use crate::line::{CommandEnd, CommandLine, Refusal};

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    let target = RestoreTarget::of_flags(line)?;
    check_bump(line)?;
    let cluster = NewCluster::of_flags(line)?.into();
    let reader = open(line)?;
    let (mut restore, directory) = begin(line, &reader, target, &cluster)?;
    restore.apply_all(line, &reader)?;
    restore.check_end(&reader)?;
    let restored_revision = restore.replay.data().revision;
    let bump = line.values.uint("bump-revision");
    if bump > 0 {
        restore.replay.raise_revision(bump).map_err(failed)?;
    }
    let lineage = restore.lineage(reader.owner());
    let ArchiveRestore { replay, next, checked, .. } = restore;
    let totals = replay.finish(Some(lineage)).map_err(failed)?;
    directory.commit()?;
    let raised = match bump {
        0 => String::new(),
        _ => format!(", raised to {} and compacted there", totals.revision),
    };
    line.complain(&format!(
        "restored {} keys at revision {restored_revision}{raised}, the state of cluster {:x} after entry {}, for \
         member {:x} of cluster {:x}; {checked} state hashes were compared",
        totals.keys,
        reader.owner().cluster_id,
        next - 1,
        cluster.identity.member_id,
        cluster.identity.cluster_id
    ));
    Ok(())
}

/// Makes the state of the newest base that is whole, in a new directory.
///
/// # Errors
/// All bases before the state are damaged: the newest one's damage. The store failed, or something is in the way.
fn begin(
    line: &mut CommandLine,
    reader: &ArchiveReader,
    target: RestoreTarget,
    cluster: &DirectoryCluster,
) -> Result<(ArchiveRestore, StagedDirectory), Refusal> {
    let mut names = target.bases(&reader.bases()?)?.into_iter().peekable();
    let (mut newest_damage, mut least_index) = (None, 0);
    while let Some(name) = names.next() {
        let directory = target_directory(line)?;
        let why = match import_base(line, reader, &name, cluster, &directory)? {
            ImportedBase::Whole(point, path, replay) => {
                let (next, covered_ms) = (name.index + 1, name.time_ms);
                let mut restore =
                    ArchiveRestore { target, replay: *replay, next, least_index, covered_ms, checked: 0 };
                restore.compare(&point, &path)?;
                return Ok((restore, directory));
            }
            ImportedBase::Damaged(why) => why,
        };
        if let Some(older) = names.peek() {
            line.complain(&format!(
                "warning: {}; restoring from the copy of the state at revision {} instead",
                why.message, older.revision
            ));
        }
        newest_damage.get_or_insert(why);
        least_index = least_index.max(name.index);
    }
    // There is at least one base.
    Err(newest_damage.unwrap_or_else(|| Refusal::error("the archive holds no copy of a state")))
}

/// What became of a base.
enum ImportedBase {
    /// The state, with what the archive says of it and the name of the object.
    Whole(BackupPoint, String, Box<StateReplay>),
    Damaged(Refusal),
}

fn import_base(
    line: &CommandLine,
    reader: &ArchiveReader,
    name: &BaseName,
    cluster: &DirectoryCluster,
    directory: &StagedDirectory,
) -> Result<ImportedBase, Refusal> {
    let base = match reader.base(name) {
        Err(error @ ArchiveError::Damaged { .. }) => return Ok(ImportedBase::Damaged(error.into())),
        base => base?,
    };
    match import(line, &base, cluster, directory) {
        Ok(replay) => Ok(ImportedBase::Whole(*base.point(), base.path().to_owned(), Box::new(replay))),
        Err(refusal) if base.is_damaged() => Ok(ImportedBase::Damaged(refusal)),
        Err(refusal) => Err(refusal),
    }
}

fn failed(error: OpenMemberError) -> Refusal {
    Refusal::error(error.to_string())
}

/// The database file in a base.
struct BaseSource<'a>(&'a BaseReader<'a>);

impl ReadAt for BaseSource<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.bytes())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, into)
    }
}

/// Makes the state of a base.
fn import(
    line: &CommandLine,
    base: &BaseReader<'_>,
    cluster: &DirectoryCluster,
    directory: &StagedDirectory,
) -> Result<StateReplay, Refusal> {
    let named = |why: &dyn std::fmt::Display| Refusal::error(format!("{}: {why}", base.path()));
    let database = DbFile::open(BaseSource(base)).map_err(|error| named(&error))?;
    let small = SmallRecords::read(&database).map_err(|error| named(&error))?;
    let compacted = state::compact_revision(&small);
    let begun = StateRestore::begin(
        &directory.disk(),
        &directory.options(),
        cluster.identity,
        &cluster.members,
        compacted,
    );
    let bar = line.bytes_bar("restoring", database.bytes());
    let filled = begun
        .map_err(StateFailure::from)
        .and_then(|mut restore| state::fill(&database, &small, &mut restore, &bar).map(|()| restore))
        .and_then(|restore| Ok(restore.into_replay()?));
    bar.finish_and_clear();
    filled.map_err(|failure| match failure {
        StateFailure::Directory(error) => Refusal::error(error.to_string()),
        failure => named(&failure),
    })
}

/// A restore in progress.
struct ArchiveRestore {
    target: RestoreTarget,
    replay: StateReplay,
    /// The next entry.
    next: u64,
    /// The newest state has this entry at least: a damaged base has it.
    least_index: u64,
    /// Until when the state is known to be the newest one, in milliseconds since 1970.
    covered_ms: u64,
    /// States that were compared.
    checked: u64,
}

impl ArchiveRestore {
    /// Applies entries until the requested state, or the last entry.
    fn apply_all(&mut self, line: &CommandLine, reader: &ArchiveReader) -> CommandEnd {
        if self.is_reached() {
            return Ok(());
        }
        let logs = reader.logs_from(self.next)?;
        let bar = line.count_bar("applying", "objects", logs.len() as u64);
        for (first, log) in reader.logs(logs) {
            if first > self.next || self.apply_log(&log?)? {
                break;
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Applies the entries of a log object that were not applied yet. Returns whether the state is reached.
    fn apply_log(&mut self, log: &LogObject) -> Result<bool, Refusal> {
        for answer in &log.answers {
            let begin = self.next;
            for entry in answer.entries.iter().filter(|entry| entry.index >= begin) {
                let entry = to_log(entry);
                if entry_clock_ms(&entry).is_some_and(|clock_ms| self.target.is_before(clock_ms)) {
                    self.covered_ms = u64::MAX;
                    return Ok(true);
                }
                let applied = self.replay.apply_entry(&entry, self.target.revision());
                self.next = entry.index + 1;
                if applied.map_err(failed)? {
                    return Ok(true);
                }
            }
            if let Some(point) = answer.point.as_ref().filter(|point| point.index + 1 == self.next) {
                self.compare(point, "the log")?;
            }
        }
        Ok(false)
    }

    /// Compares the state with what the cluster's was.
    fn compare(&mut self, point: &BackupPoint, whose: &str) -> CommandEnd {
        let data = self.replay.data();
        if (data.hash, data.revision) != (point.data_hash, point.revision) {
            return Err(Refusal::error(format!(
                "{whose}: the state after entry {} is revision {} with hash {:016x}, but the cluster had revision {} \
                 with hash {:016x}: the archive is damaged, or this release applies entries in another way; nothing \
                 was restored",
                point.index, data.revision, data.hash, point.revision, point.data_hash
            )));
        }
        self.covered_ms = self.covered_ms.max(point.time_ms);
        self.checked += 1;
        Ok(())
    }

    fn is_reached(&self) -> bool {
        self.target.revision() == Some(self.replay.data().revision)
    }

    /// Checks that the state is the requested one.
    fn check_end(&mut self, reader: &ArchiveReader) -> CommandEnd {
        if let Some(progress) = reader.progress()?.filter(|progress| progress.index + 1 == self.next) {
            self.covered_ms = self.covered_ms.max(progress.time_ms);
        }
        let is_reached = match self.target {
            RestoreTarget::Newest => self.next > self.least_index,
            RestoreTarget::Revision(_) => self.is_reached(),
            RestoreTarget::Time(time_ms) => time_ms <= self.covered_ms,
        };
        // What follows the end of consecutive entries begins with a later base.
        let later = reader.logs_from(self.next)?.into_iter().find(|first| *first > self.next);
        let missing = |last: u64| {
            Refusal::error(format!(
                "the entries {} to {last} are missing in the archive: it cannot restore {}; before them, it ends at \
                 revision {}, {}",
                self.next,
                self.target.shown(),
                self.replay.data().revision,
                shown_time(self.covered_ms)
            ))
        };
        match later {
            _ if is_reached && self.target != RestoreTarget::Newest => Ok(()),
            None if is_reached => Ok(()),
            None if self.target == RestoreTarget::Newest => Err(missing(self.least_index)),
            None => Err(Refusal::error(format!(
                "the archive ends at revision {}, {}: it cannot restore {}; leave the flag out for the newest state",
                self.replay.data().revision,
                shown_time(self.covered_ms),
                self.target.shown()
            ))),
            Some(first) => Err(missing(first - 1)),
        }
    }

    /// The number that tells the cluster with this state from others: members of it are restored to equal states.
    fn lineage(&self, owner: &BackupPoint) -> u64 {
        let data = self.replay.data();
        let mut sum = Sha256::new();
        // The hash is one of the revision too, so a raised one counts.
        for number in [owner.cluster_id, owner.lineage, self.next, self.replay.part(), data.hash] {
            sum.update(number.to_le_bytes());
        }
        sum.update(data.compacted.to_le_bytes());
        let sum = sum.finalize();
        u64::from_le_bytes(sum.first_chunk().copied().unwrap_or_default())
    }
}

fn to_log(entry: &BackupEntry) -> log::Entry {
    // A kind that is not known is refused when it is applied.
    let kind = u8::try_from(entry.kind).unwrap_or(u8::MAX);
    log::Entry { term: entry.term, index: entry.index, kind, payload: entry.payload.clone() }
}
