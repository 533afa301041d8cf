//! `import`: a data directory of Stele from the directory of a stopped etcd member.
//!
//! etcd applies an entry to its database in memory, and the database reaches the disk a little later; a clean stop
//! writes all of it, a kill does not. So the entries that the write-ahead log has behind the database are applied here,
//! as etcd does when it is started again:
//!
//! ```text
//! database   consistent index 1,207
//! WAL        … 1,207 put   1,208 (empty: a new leader's)   1,209 put   hard state: commit 1,209   1,210 put
//!                          \____ nothing ____/             \ applied  /                          \ applied as well
//! ```
//!
//! Whether the entries behind the commit index were committed cannot be seen here. A change that was acknowledged may
//! be among them, because the leader records the commit index after it has answered; and whether one that was not
//! acknowledged took effect, no client knows. So they are applied, as `export` does and as the only member of a
//! cluster does; `--committed-only` leaves them out, as etcd's `--force-new-cluster` does.
//!
//! The members stay, unless `--initial-cluster` begins a new cluster: those of the database, with their roles in Raft,
//! and what the same entries say of them. The cluster id is that of the log.

use std::path::Path;

use dbfile::records::SmallRecords;
use member::restore::StateReplay;

use super::data_dir::{self, DirectoryOwner};
use super::membership::EtcdMembers;
use super::raft_conf::RaftConf;
use super::request::{EntryRequest, request_of};
use super::wal::WalTail;
use crate::database::file::LockedFile;
use crate::directory::cluster::{DirectoryCluster, NewCluster, staying_member};
use crate::directory::restore;
use crate::line::{CommandEnd, CommandLine, Refusal};

/// Entries between two looks at the terminal.
const BAR_STEP_ENTRIES: u64 = 256;

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    if line.args.len() != 1 {
        return Err(Refusal::bad_args("import requires exactly one argument, the data directory of etcd"));
    }
    restore::check_bump(line)?;
    let source = line.path(0);
    if data_dir::is_steles(&source) {
        return Err(Refusal::error(format!(
            "{} is a data directory of Stele already: start a member with it, or export it",
            source.display()
        )));
    }
    let DirectoryOwner::Etcd(path) = data_dir::owner(&source)? else {
        return Err(Refusal::error(format!("{} is not etcd's", source.display())));
    };
    let requested = NewCluster::if_requested(line)?;
    let mut found = Source::open(line, &source, &path)?;
    let behind = found.behind(line.values.switch("committed-only"));
    let cluster = match requested {
        Some(cluster) => cluster.into(),
        None => found.cluster(line, &source, &behind)?,
    };
    let target = restore::target(line)?;
    let bar = line.count_bar("applying", "entries", behind.len() as u64);
    let log = &mut found.log;
    restore::make(line, &found.file, &cluster, target, &mut |restore| {
        for (at, index) in (0..).zip(&behind) {
            if at % BAR_STEP_ENTRIES == 0 {
                bar.set_position(at);
            }
            apply(log, *index, restore)?;
        }
        bar.finish_and_clear();
        Ok(())
    })?;
    if let Some(last) = behind.last() {
        line.complain(&format!(
            "applied {} entries of its log behind the database, up to {last}; its commit index is {}",
            behind.len(),
            found.log.committed()
        ));
    }
    Ok(())
}

/// What a directory of etcd holds.
struct Source {
    /// Its database; it cannot be started while this is open.
    _lock: Option<LockedFile>,
    /// The database to begin with.
    file: LockedFile,
    /// All records of that but versions.
    small: SmallRecords,
    conf: RaftConf,
    log: WalTail,
}

impl Source {
    /// Opens a directory.
    ///
    /// # Errors
    /// A running etcd uses it; its files are damaged, or do not fit together.
    fn open(line: &CommandLine, dir: &Path, database: &Path) -> Result<Source, Refusal> {
        let snapshots = dir.join("member").join("snap");
        let file = LockedFile::open(line, database)?;
        let (small, conf) = records(&file, &snapshots)?;
        let log = WalTail::read(&dir.join("member").join("wal"), conf.index)?;
        // A snapshot that a leader sent has its own name until etcd begins to use it.
        let received = snapshots.join(format!("{:016x}.snap.db", log.snapshot()));
        let source = if log.snapshot() > small.applied.index && received.exists() {
            let newer = LockedFile::open(line, &received)?;
            let (small, conf) = records(&newer, &snapshots)?;
            Source { file: newer, _lock: Some(file), small, conf, log }
        } else {
            Source { file, _lock: None, small, conf, log }
        };
        source.log.check_follows(source.applied()).map_err(|why| {
            Refusal::error(format!(
                "the database of {} ends with entry {}, and {why}: start that etcd once more, and restore a snapshot \
                 of it",
                dir.display(),
                source.applied()
            ))
        })?;
        Ok(source)
    }

    /// The last entry that the database has.
    fn applied(&self) -> u64 {
        self.small.applied.index
    }

    /// The entries to apply.
    fn behind(&self, committed_only: bool) -> Vec<u64> {
        let mut behind = self.log.behind(self.applied());
        if committed_only {
            behind.retain(|index| *index <= self.log.committed());
        }
        behind
    }

    /// The cluster of the directory `dir`, with the entries `behind` its database, and the member of `--name`.
    ///
    /// # Errors
    /// It is not known, or none that Stele can go on with.
    fn cluster(
        &mut self,
        line: &CommandLine,
        dir: &Path,
        behind: &[u64],
    ) -> Result<DirectoryCluster, Refusal> {
        let none = |why: String| {
            Refusal::error(format!(
                "the cluster of {}: {why}; begin a new one with --initial-cluster",
                dir.display()
            ))
        };
        let mut members = EtcdMembers::of(&self.small, &self.conf.state);
        for index in self.log.between(self.conf.index, self.applied()).map_err(none)? {
            let entry = self.log.entry(index)?;
            members.apply_role(&entry).map_err(|why| unknown_entry(index, &why))?;
        }
        for index in behind {
            let entry = self.log.entry(*index)?;
            members.apply(&entry).map_err(|why| unknown_entry(*index, &why))?;
        }
        let owner = self.log.metadata();
        let id = staying_member(line.values.text("name"), owner.member_id, &members.names())?;
        let imported = members.into_imported().map_err(none)?;
        Ok(DirectoryCluster::new(owner.cluster_id, id, imported))
    }
}

/// All records of a database but versions, and Raft's configuration.
fn records(file: &LockedFile, snapshots: &Path) -> Result<(SmallRecords, RaftConf), Refusal> {
    let small = SmallRecords::read(&file.database()?).map_err(|error| file.refuse(&error))?;
    let conf = RaftConf::of(&small, snapshots)?;
    Ok((small, conf))
}

/// An entry that cannot be applied here.
fn unknown_entry(index: u64, why: &str) -> Refusal {
    Refusal::error(format!(
        "entry {index} of the log {why}: start that etcd once more, and restore a snapshot of it"
    ))
}

/// Applies an entry. One that etcd refuses is refused here too, and changes nothing.
fn apply(log: &mut WalTail, index: u64, restore: &mut StateReplay) -> CommandEnd {
    let entry = log.entry(index)?;
    let request = request_of(&entry).map_err(|why| unknown_entry(index, &why))?;
    let Some(EntryRequest { caller, command }) = request else { return Ok(()) };
    match restore.apply_request(caller, command, &entry.data) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::error(error.to_string())),
    }
}
