//! The file beside etcd's database that belongs to a snapshot of its log.
//!
//! ```text
//! member/snap/0000000000000005-00000000000004b7.snap: term, index
//! protobuf     1 CRC-32C of 2; 2 a `raftpb.Snapshot`: 1 data, 2 metadata (1 who votes, 2 index, 3 term)
//! data         JSON, the store of etcd's API of version 2: the members, ids of former ones, the cluster version
//! ```
//!
//! etcd 3.7 reads all of it from the database and the log. Releases up to 3.6 want the file, and those up to 3.5 read
//! the members from it.

use std::collections::BTreeMap;

use dbfile::records::{MemberRecord, SmallRecords};
use prost::Message;
use serde::Serialize;

use super::wal::messages::{WalConfState, WalSnapshot};

/// The file: `snappb.snapshot`.
#[derive(Clone, PartialEq, Message)]
struct SnapFile {
    #[prost(uint32, required, tag = "1")]
    checksum: u32,
    #[prost(bytes = "vec", required, tag = "2")]
    snapshot: Vec<u8>,
}

/// `raftpb.Snapshot`.
#[derive(Clone, PartialEq, Message)]
struct RaftSnapshot {
    #[prost(bytes = "vec", required, tag = "1")]
    data: Vec<u8>,
    #[prost(message, required, tag = "2")]
    metadata: SnapshotMetadata,
}

/// `raftpb.SnapshotMetadata`.
#[derive(Clone, PartialEq, Message)]
struct SnapshotMetadata {
    #[prost(message, optional, tag = "1")]
    conf_state: Option<WalConfState>,
    #[prost(uint64, required, tag = "2")]
    index: u64,
    #[prost(uint64, required, tag = "3")]
    term: u64,
}

/// The store of version 2.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct V2Store {
    root: V2Node,
    current_index: u64,
    current_version: u64,
}

/// A directory of it, which has children, or a file.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct V2Node {
    path: String,
    created_index: u64,
    modified_index: u64,
    expire_time: &'static str,
    value: String,
    children: Option<BTreeMap<String, V2Node>>,
}

/// Never.
const NO_EXPIRY: &str = "0001-01-01T00:00:00Z";

/// The version of the store of version 2.
const V2_VERSION: u64 = 2;

#[derive(Serialize)]
struct RaftAttributes<'a> {
    #[serde(rename = "peerURLs")]
    peer_urls: &'a [String],
    #[serde(rename = "isLearner", skip_serializing_if = "std::ops::Not::not")]
    is_learner: bool,
}

#[derive(Serialize)]
struct Attributes<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(rename = "clientURLs", skip_serializing_if = "<[String]>::is_empty")]
    client_urls: &'a [String],
}

/// The name of the file.
pub(super) fn name(snapshot: &WalSnapshot) -> String {
    format!("{:016x}-{:016x}.snap", snapshot.term, snapshot.index)
}

/// The file of a snapshot, with the members of a database.
pub(super) fn bytes(snapshot: &WalSnapshot, small: &SmallRecords) -> Vec<u8> {
    let WalSnapshot { index, term, conf_state } = snapshot.clone();
    let metadata = SnapshotMetadata { conf_state, index, term };
    let snapshot = RaftSnapshot { data: json(&v2_store(small)).into_bytes(), metadata }.encode_to_vec();
    SnapFile { checksum: crc32c::crc32c(&snapshot), snapshot }.encode_to_vec()
}

/// The index in the name of such a file; `None` for another file.
pub(super) fn index_of(name: &str) -> Option<u64> {
    let (term, index) = name.strip_suffix(".snap")?.split_once('-')?;
    u64::from_str_radix(term, 16).ok()?;
    u64::from_str_radix(index, 16).ok()
}

/// Who votes, as the file of a snapshot of entry `index` says; `None` if it is damaged, or not that of this entry.
pub(super) fn conf_state(file: &[u8], index: u64) -> Option<WalConfState> {
    let file = SnapFile::decode(file).ok().filter(|file| crc32c::crc32c(&file.snapshot) == file.checksum)?;
    let metadata = RaftSnapshot::decode(&file.snapshot[..]).ok()?.metadata;
    metadata.conf_state.filter(|_| metadata.index == index)
}

fn v2_store(small: &SmallRecords) -> V2Store {
    let members = small.members.iter().map(|member| (hex(member.id), member_node(member)));
    let removed = small.removed_members.iter().map(|id| {
        let path = format!("/0/removed_members/{}", hex(*id));
        (hex(*id), V2Node::file(path, String::new()))
    });
    let mut cluster = BTreeMap::from([("members".to_owned(), V2Node::directory("/0/members", members))]);
    if !small.removed_members.is_empty() {
        cluster.insert("removed_members".to_owned(), V2Node::directory("/0/removed_members", removed));
    }
    if let Some(version) = &small.cluster_version {
        cluster.insert("version".to_owned(), V2Node::file("/0/version".to_owned(), version.clone()));
    }
    let root = [
        ("0".to_owned(), V2Node::directory("/0", cluster)),
        ("1".to_owned(), V2Node::directory("/1", BTreeMap::new())),
    ];
    V2Store { root: V2Node::directory("/", root), current_index: 0, current_version: V2_VERSION }
}

fn member_node(member: &MemberRecord) -> V2Node {
    let path = format!("/0/members/{}", hex(member.id));
    let raft = RaftAttributes { peer_urls: &member.peer_urls, is_learner: member.is_learner };
    let own = Attributes { name: &member.name, client_urls: &member.client_urls };
    let file = |name: &str, value: String| (name.to_owned(), V2Node::file(format!("{path}/{name}"), value));
    let files = [file("attributes", json(&own)), file("raftAttributes", json(&raft))];
    V2Node::directory(&path, files)
}

impl V2Node {
    fn directory(path: &str, children: impl IntoIterator<Item = (String, V2Node)>) -> V2Node {
        V2Node {
            children: Some(children.into_iter().collect()),
            ..V2Node::file(path.to_owned(), String::new())
        }
    }

    fn file(path: String, value: String) -> V2Node {
        V2Node { path, created_index: 0, modified_index: 0, expire_time: NO_EXPIRY, value, children: None }
    }
}

fn hex(id: u64) -> String {
    format!("{id:x}")
}

fn json(value: &impl Serialize) -> String {
    // Writing JSON fails for maps whose keys are no texts, and for errors of what is written to: there is neither.
    serde_json::to_string(value).expect("structures of texts, numbers and lists are JSON")
}

#[cfg(test)]
mod tests {
    //! What the file says. `tests/go/utl` starts etcd from it.

    use super::*;

    #[test]
    fn it_names_the_members_twice_over() {
        let conf_state = WalConfState { voters: vec![0x1a], learners: vec![0x2b], auto_leave: false };
        let snapshot = WalSnapshot { index: 1_207, term: 5, conf_state: Some(conf_state.clone()) };
        let voter = MemberRecord {
            id: 0x1a,
            peer_urls: vec!["http://h:1".into()],
            name: "a".into(),
            client_urls: vec!["http://h:2".into()],
            is_learner: false,
        };
        let learner = MemberRecord { id: 0x2b, is_learner: true, ..MemberRecord::default() };
        let small = SmallRecords {
            members: vec![voter, learner],
            removed_members: vec![0x3c],
            cluster_version: Some("3.7.0".into()),
            ..SmallRecords::default()
        };
        assert_eq!(name(&snapshot), "0000000000000005-00000000000004b7.snap");
        let file = SnapFile::decode(&bytes(&snapshot, &small)[..]).expect("it is a message");
        assert_eq!(file.checksum, crc32c::crc32c(&file.snapshot));
        let read = RaftSnapshot::decode(&file.snapshot[..]).expect("it is a message");
        assert_eq!(index_of(&name(&snapshot)), Some(1_207));
        assert_eq!(super::conf_state(&bytes(&snapshot, &small), 1_207), Some(conf_state.clone()));
        assert_eq!(super::conf_state(&bytes(&snapshot, &small), 1_208), None, "it has another name");
        assert_eq!(read.metadata, SnapshotMetadata { conf_state: Some(conf_state), index: 1_207, term: 5 });
        let store: serde_json::Value = serde_json::from_slice(&read.data).expect("it is JSON");
        let at = |path: &str| store.pointer(path).unwrap_or_else(|| panic!("{path}: {store}")).clone();
        let cluster = "/Root/Children/0/Children";
        assert_eq!(
            at(&format!("{cluster}/members/Children/1a/Children/attributes/Value")),
            r#"{"name":"a","clientURLs":["http://h:2"]}"#
        );
        assert_eq!(
            at(&format!("{cluster}/members/Children/2b/Children/raftAttributes/Value")),
            r#"{"peerURLs":[],"isLearner":true}"#
        );
        assert_eq!(at(&format!("{cluster}/removed_members/Children/3c/Path")), "/0/removed_members/3c");
        assert_eq!(at(&format!("{cluster}/version/Value")), "3.7.0");
        assert_eq!(at("/Root/Children/1/Children"), serde_json::json!({}));
    }
}
