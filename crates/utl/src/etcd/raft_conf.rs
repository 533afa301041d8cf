//! Raft's configuration: who votes in a cluster of etcd, and who learns. It decides; the records of members may be
//! wrong: those of etcd 3.5.1 to 3.5.19 still have a learner that was promoted, and forget one whose URLs were changed.
//!
//! ```text
//! database, entry 1,207   members a, b, c   ConfState a, b; learner c          its own: that of entry 1,207
//! of etcd 3.4             members a, b, c   none                               newest .snap file: that of entry 1,000,
//! restored with etcdutl   members a, b, c   that of the cluster before: x, y   and the log's conf changes behind it
//! ```
//!
//! The second way is that of etcd itself, up to 3.6. A cluster without a `.snap` file has all of them in its log.

use std::fs;
use std::path::Path;

use dbfile::records::SmallRecords;

use super::snap_file;
use super::wal::messages::WalConfState;
use crate::line::{Refusal, system_error};

/// Who votes after an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RaftConf {
    /// The entry: conf changes behind it are not in it.
    pub(super) index: u64,
    pub(super) state: WalConfState,
}

impl RaftConf {
    /// The newest that is known without the log, for a database with a directory of snapshots. It is not newer than
    /// the database.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(super) fn of(small: &SmallRecords, snapshots: &Path) -> Result<RaftConf, Refusal> {
        let own = small.conf_state.as_ref().map(WalConfState::from);
        match own.filter(|own| has_members(own, small)) {
            Some(state) => Ok(RaftConf { index: small.applied.index, state }),
            None => newest_snapshot(snapshots, small.applied.index),
        }
    }
}

/// Whether a configuration has the members that a database has.
fn has_members(conf: &WalConfState, small: &SmallRecords) -> bool {
    let mut ids: Vec<u64> = conf.voters.iter().chain(&conf.learners).copied().collect();
    let mut members: Vec<u64> = small.members.iter().map(|member| member.id).collect();
    ids.sort_unstable();
    members.sort_unstable();
    ids == members
}

/// That of the newest whole `.snap` file up to an entry; the one before all entries without such a file.
fn newest_snapshot(dir: &Path, up_to: u64) -> Result<RaftConf, Refusal> {
    let listed = fs::read_dir(dir).map_err(|error| system_error("open", dir, &error))?;
    let mut found: Vec<_> = listed
        .filter_map(|item| {
            let path = item.ok()?.path();
            let index = snap_file::index_of(path.file_name()?.to_str()?)?;
            (index <= up_to).then_some((index, path))
        })
        .collect();
    found.sort_unstable();
    // As in etcd, one that is broken is skipped.
    let confs = found.into_iter().rev().filter_map(|(index, path)| {
        let state = snap_file::conf_state(&fs::read(path).ok()?, index)?;
        Some(RaftConf { index, state })
    });
    Ok({ confs }.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::wal::messages::WalSnapshot;
    use dbfile::records::{AppliedEntry, ConfStateRecord, MemberRecord};

    fn database(conf_state: Option<ConfStateRecord>) -> SmallRecords {
        let member = |id| MemberRecord { id, ..MemberRecord::default() };
        let applied = AppliedEntry { index: 9, term: 2 };
        SmallRecords { members: vec![member(1), member(2)], applied, conf_state, ..SmallRecords::default() }
    }

    fn state(voters: &[u64], learners: &[u64]) -> WalConfState {
        WalConfState { voters: voters.to_vec(), learners: learners.to_vec(), auto_leave: false }
    }

    #[test]
    fn it_is_that_of_the_database_or_of_the_newest_snapshot_that_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |index, conf: WalConfState| {
            let snapshot = WalSnapshot { index, term: 2, conf_state: Some(conf) };
            let path = dir.path().join(snap_file::name(&snapshot));
            fs::write(&path, snap_file::bytes(&snapshot, &SmallRecords::default())).expect("it is written");
            path
        };
        let found = |conf_state| RaftConf::of(&database(conf_state), dir.path()).expect("it can be read");
        let record = |voters: &[u64]| {
            Some(ConfStateRecord { voters: voters.to_vec(), learners: vec![1], ..ConfStateRecord::default() })
        };
        assert_eq!(found(None), RaftConf::default(), "the log has all conf changes");
        write(4, state(&[1], &[]));
        let newest = write(9, state(&[1], &[2]));
        write(10, state(&[1, 2, 3], &[]));
        fs::write(dir.path().join("0000000000000009.snap.db"), b"").expect("it is written");
        assert_eq!(found(record(&[2])), RaftConf { index: 9, state: state(&[2], &[1]) }, "its own");
        assert_eq!(found(None), RaftConf { index: 9, state: state(&[1], &[2]) }, "etcd 3.4");
        assert_eq!(found(record(&[7])).state, state(&[1], &[2]), "that of the cluster before a restore");
        let mut broken = fs::read(&newest).expect("it is there");
        *broken.last_mut().expect("it has bytes") ^= 1;
        fs::write(newest, broken).expect("it is written");
        assert_eq!(found(None), RaftConf { index: 4, state: state(&[1], &[]) }, "one is broken");
    }
}
