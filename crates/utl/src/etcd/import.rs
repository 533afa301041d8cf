//! `import`: a data directory of Stele from the directory of an etcd member that was stopped.
//!
//! etcd applies an entry to its database in memory, and the database reaches the disk a little later; a clean stop
//! writes all of it. So the write-ahead log is looked at for entries that the database does not have:
//!
//! ```text
//! database   consistent index 1,207
//! WAL        … 1,206 put   1,207 put   1,208 (empty: a new leader's)   1,209 member attributes
//!                                      \____ nothing of the keys, leases or users: passed over ____/
//! WAL        … 1,207 put   1,208 put    -> refused: start that etcd once more and stop it cleanly
//! ```
//!
//! Whether an entry behind the consistent index was committed cannot be seen, so it is not applied here: etcd does it.

use api::etcdserverpb as pb;
use prost::Message;

use super::data_dir::{self, DirectoryOwner};
use super::wal::{WalEntry, WalTail};
use crate::database::file::LockedFile;
use crate::directory::cluster::NewCluster;
use crate::directory::restore;
use crate::line::{CommandEnd, CommandLine, Refusal};

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
    let cluster = NewCluster::of_flags(line)?;
    let file = LockedFile::open(line, &path)?;
    let small =
        dbfile::records::SmallRecords::read(&file.database()?).map_err(|error| file.refuse(&error))?;
    let applied = small.applied.index;
    let tail = WalTail::read(&source.join("member").join("wal"), applied)?;
    let changed = tail.entries.iter().find(|entry| changes_state(entry));
    let fits = tail.check_follows(applied).and_then(|()| match changed {
        Some(entry) => Err(format!("its log has entry {} which changes more", entry.index)),
        None => Ok(()),
    });
    fits.map_err(|why| {
        Refusal::error(format!(
            "the database of {} ends with entry {applied}, and {why}: start that etcd once more, and restore a \
             snapshot of it; from 3.5 on, stopping it with SIGTERM and another import do as well",
            source.display()
        ))
    })?;
    let target = restore::target(line)?;
    restore::make(line, &file, &cluster, target)
}

/// Whether an entry changes what is imported. What cannot be read counts, and what has a field that is not known here.
fn changes_state(entry: &WalEntry) -> bool {
    if entry.kind != 0 || entry.data.is_empty() {
        return false;
    }
    let Ok(request) = pb::InternalRaftRequest::decode(entry.data.as_slice()) else { return true };
    let without_effect = pb::InternalRaftRequest {
        header: request.header.clone(),
        id: request.id,
        cluster_version_set: request.cluster_version_set.clone(),
        cluster_member_attr_set: request.cluster_member_attr_set.clone(),
        downgrade_info_set: request.downgrade_info_set.clone(),
        // A token, which ends with the process.
        authenticate: request.authenticate.clone(),
        ..Default::default()
    };
    let has_one = without_effect.cluster_version_set.is_some()
        || without_effect.cluster_member_attr_set.is_some()
        || without_effect.downgrade_info_set.is_some()
        || without_effect.authenticate.is_some();
    // Fields that are not known here are dropped while it is read.
    !has_one || request != without_effect || without_effect.encoded_len() != entry.data.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::membershippb::ClusterVersionSetRequest;

    fn changes(data: Vec<u8>) -> bool {
        changes_state(&WalEntry { kind: 0, term: 1, index: 1, data })
    }

    #[test]
    fn only_what_is_known_to_be_harmless_is_passed_over() {
        let version = Some(ClusterVersionSetRequest { ver: "3.6.0".to_owned() });
        let header = Some(pb::RequestHeader { id: 5, ..Default::default() });
        let harmless = pb::InternalRaftRequest { header, cluster_version_set: version, ..Default::default() };
        let put = pb::InternalRaftRequest { put: Some(pb::PutRequest::default()), ..harmless.clone() };
        let harmless = harmless.encode_to_vec();
        assert!(!changes(Vec::new()) && !changes(harmless.clone()));
        assert!(changes(put.encode_to_vec()));
        // A request of a newer etcd: field 2,000 with a message, alone or beside one that is known.
        let newer = [0x82, 0x7d, 2, 8, 1];
        assert!(changes(newer.to_vec()) && changes([harmless, newer.to_vec()].concat()));
    }
}
