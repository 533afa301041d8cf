//! `snapshot restore`: a data directory of Stele from a snapshot of etcd or Stele.

use std::path::PathBuf;

use dbfile::records::SmallRecords;
use member::OpenMemberError;
use member::restore::{StateReplay, StateRestore};
use store::ImportTotals;

use super::cluster::{DirectoryCluster, NewCluster};
use super::staging::StagedDirectory;
use crate::database::file::LockedFile;
use crate::database::state;
use crate::line::{CommandEnd, CommandLine, Refusal};

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    if line.args.len() != 1 {
        return Err(Refusal::bad_args("snapshot restore requires exactly one argument"));
    }
    check_bump(line)?;
    let file = LockedFile::open(line, &line.path(0))?;
    let cluster = NewCluster::of_flags(line)?.into();
    let target = target(line)?;
    if !line.values.switch("skip-hash-check") {
        let bar = line.bytes_bar("checking", file.database()?.bytes());
        file.check_sum(&bar)?;
        bar.finish_and_clear();
    }
    make(line, &file, &cluster, target, &mut |_| Ok(()))
}

/// Checks `--bump-revision` and `--mark-compacted` against each other.
///
/// # Errors
/// One is given without the other.
pub(crate) fn check_bump(line: &CommandLine) -> CommandEnd {
    let (bump, marks) = (line.values.uint("bump-revision"), line.values.switch("mark-compacted"));
    if (bump > 0) == marks {
        return Ok(());
    }
    Err(Refusal::bad_args("--mark-compacted required if --revision-bump > 0"))
}

/// The directory that `--data-dir` and `--wal-dir` name.
///
/// # Errors
/// Something is in the way.
pub(crate) fn target(line: &CommandLine) -> Result<StagedDirectory, Refusal> {
    let values = &line.values;
    let data_dir = match values.text("data-dir") {
        "" => format!("{}.etcd", values.text("name")),
        given => given.to_owned(),
    };
    let wal_dir = Some(values.text("wal-dir")).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    StagedDirectory::begin(&PathBuf::from(data_dir), wal_dir.as_deref())
}

/// Applies what follows a database to what is made of it.
pub(crate) type ApplyRequests<'a> = &'a mut dyn FnMut(&mut StateReplay) -> CommandEnd;

/// Makes a data directory from a database and the requests that follow it, and says what is in it.
///
/// # Errors
/// The database is damaged or foreign, or the directory cannot be written; those of `requests`. Nothing is left of it
/// then.
pub(crate) fn make(
    line: &mut CommandLine,
    file: &LockedFile,
    cluster: &DirectoryCluster,
    target: StagedDirectory,
    requests: ApplyRequests<'_>,
) -> CommandEnd {
    let database = file.database()?;
    let named = |why: &dyn std::fmt::Display| Refusal::error(format!("{}: {why}", file.path().display()));
    let failed = |failure: state::StateFailure| match failure {
        state::StateFailure::Directory(error) => Refusal::error(error.to_string()),
        failure => named(&failure),
    };
    let unmade = |error: OpenMemberError| failed(error.into());
    let small = SmallRecords::read(&database).map_err(|error| named(&error))?;
    let compacted = state::compact_revision(&small);
    let mut restore =
        StateRestore::begin(&target.disk(), &target.options(), cluster.identity, &cluster.members, compacted)
            .map_err(unmade)?;
    let bar = line.bytes_bar("restoring", database.bytes());
    let filled = state::fill(&database, &small, &mut restore, &bar);
    bar.finish_and_clear();
    filled.map_err(failed)?;
    let mut restore = restore.into_replay().map_err(unmade)?;
    requests(&mut restore)?;
    let bump = line.values.uint("bump-revision");
    if bump > 0 {
        restore.raise_revision(bump).map_err(unmade)?;
    }
    let totals = restore.finish(None).map_err(unmade)?;
    target.commit()?;
    say(line, cluster, &totals);
    Ok(())
}

fn say(line: &mut CommandLine, cluster: &DirectoryCluster, totals: &ImportTotals) {
    if totals.missing_leases > 0 {
        line.complain(&format!(
            "Warning: keys name {} leases that do not exist; they were granted, so that the keys stay as in etcd",
            totals.missing_leases
        ));
    }
    let compacted = match totals.compacted {
        revision if revision > 0 => format!(", compacted at {revision}"),
        _ => String::new(),
    };
    line.complain(&format!(
        "restored {} keys at revision {}{compacted}, for member {:x} of cluster {:x}",
        totals.keys, totals.revision, cluster.identity.member_id, cluster.identity.cluster_id
    ));
}
