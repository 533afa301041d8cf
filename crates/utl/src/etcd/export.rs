//! `export --as-directory`: a data directory of etcd from the state of a member of Stele that was stopped.
//!
//! ```text
//! D/unfinished-export/member/snap/db                              the state, with its members
//!                            snap/0000000000000005-….snap         term and index of the last entry, and the members
//!                            wal/0000000000000000-….wal           member, cluster; the same entry as a snapshot
//! commit: rename to D/member
//! ```
//!
//! It is what etcd has when it has received a snapshot from its leader, and begun to use it: no entry follows. So any
//! number of members can begin with it, if all are made from the same state. The members stay, with their ids and the
//! id of their cluster, or `--initial-cluster` begins a new cluster, whose version its members decide.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use dbfile::records::{ConfStateRecord, MemberRecord, SmallRecords};
use log::Identity;
use member::InitialMember;
use store::AppliedId;

use super::snap_file;
use super::wal::messages::{WalConfState, WalMetadata, WalSnapshot};
use super::wal::writer::{FIRST_FILE, log_of_snapshot};
use crate::directory::cluster::{NewCluster, staying_member};
use crate::directory::database_file::{DatabaseExport, SumBehind};
use crate::directory::offline;
use crate::directory::staging::StagedDirectory;
use crate::line::{CommandEnd, CommandLine, Refusal, system_error};

/// Permission bits: what they hold is for the member alone, as by etcd.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    if line.args.len() != 1 {
        return Err(Refusal::bad_args("export requires exactly one argument, the directory to write"));
    }
    let requested = NewCluster::if_requested(line)?;
    let state = offline::open_whole(line)?;
    let mut export = DatabaseExport::of(&state)?;
    if export.small.applied.index == 0 {
        return Err(Refusal::error(
            "the member has joined a cluster and received no state yet: take another member's directory",
        ));
    }
    let owner = match requested {
        Some(cluster) => begin_cluster(&mut export.small, cluster),
        None => staying(line, state.identity, &export.small)?,
    };
    let target = StagedDirectory::begin_export(&line.path(0))?;
    let bytes = write(line, export, &owner, &target.unfinished_member())?;
    target.commit()?;
    let (keys, revision) = (state.reader.counts().keys, state.reader.current_revision());
    line.complain(&format!(
        "exported {keys} keys at revision {revision}, {bytes} bytes, for member {:x} of cluster {:x}; {}",
        owner.member_id,
        owner.cluster_id,
        shown(state.reader.state_hash())
    ));
    Ok(())
}

/// Which state it is. Nothing in etcd's format tells states of one cluster apart, so its members would not notice.
fn shown((applied, hash): (AppliedId, u64)) -> String {
    format!(
        "it is the state after entry {} of term {}, with hash {hash:016x}: export the directories of all members from \
         this same state",
        applied.index, applied.term
    )
}

/// The member that goes on, in its cluster.
fn staying(line: &CommandLine, identity: Identity, small: &SmallRecords) -> Result<WalMetadata, Refusal> {
    let names: Vec<(u64, &str)> = small.members.iter().map(|member| (member.id, &member.name[..])).collect();
    let member_id = staying_member(line.values.text("name"), identity.member_id, &names)?;
    Ok(WalMetadata { member_id, cluster_id: identity.cluster_id })
}

/// Puts a new cluster into the place of the old one. Without a version of cluster and storage, each release from 3.5
/// on takes the database for one of its own.
fn begin_cluster(small: &mut SmallRecords, cluster: NewCluster) -> WalMetadata {
    let member = |member: InitialMember| MemberRecord {
        id: member.id,
        peer_urls: member.peer_urls,
        name: member.name,
        ..MemberRecord::default()
    };
    small.members = cluster.members.into_iter().map(member).collect();
    small.removed_members.clear();
    (small.cluster_version, small.downgrade, small.storage_version) = (None, None, None);
    small.sort();
    let voters = small.members.iter().map(|member| member.id).collect();
    small.conf_state = Some(ConfStateRecord { voters, ..ConfStateRecord::default() });
    WalMetadata { member_id: cluster.member_id, cluster_id: cluster.cluster_id }
}

/// Writes all files below `member`, and returns the bytes of the database.
fn write(
    line: &CommandLine,
    export: DatabaseExport<'_>,
    owner: &WalMetadata,
    member: &Path,
) -> Result<u64, Refusal> {
    let (snap, wal) = (member.join("snap"), member.join("wal"));
    for dir in [&snap, &wal] {
        let made = fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(dir);
        made.map_err(|error| system_error("create", dir, &error))?;
    }
    let snapshot = snapshot_of(&export.small);
    write_file(&snap.join(snap_file::name(&snapshot)), &snap_file::bytes(&snapshot, &export.small))?;
    write_file(&wal.join(FIRST_FILE), &log_of_snapshot(owner, &snapshot))?;
    let database = snap.join("db");
    let bytes = export.write(line, (&database, create(&database)?), SumBehind::No)?;
    for dir in [&snap, &wal, member] {
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|error| system_error("sync", dir, &error))?;
    }
    Ok(bytes)
}

/// The last entry whose effects a database has.
fn snapshot_of(small: &SmallRecords) -> WalSnapshot {
    let conf_state = small.conf_state.as_ref().map(WalConfState::from).unwrap_or_default();
    WalSnapshot { index: small.applied.index, term: small.applied.term, conf_state: Some(conf_state) }
}

fn create(path: &Path) -> Result<File, Refusal> {
    let created = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    created.map_err(|error| system_error("create", path, &error))
}

fn write_file(path: &Path, bytes: &[u8]) -> CommandEnd {
    let mut file = create(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|error| system_error("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_different_members_are_told_apart() {
        let line = shown((AppliedId { index: 100, term: 3 }, 0xab));
        assert_eq!(
            line,
            "it is the state after entry 100 of term 3, with hash 00000000000000ab: export the directories of all \
             members from this same state"
        );
    }
}
