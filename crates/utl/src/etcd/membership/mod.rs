//! The members of an etcd cluster: those of a database, their roles in Raft's configuration, and what the entries
//! behind both say of them.
//!
//! ```text
//! database, Raft  a, b, c; c learns     entries  conf change: c votes   put   c: name, client URLs   conf change: no b
//! members         a, c voters; b is never used again
//! ```
//!
//! What concerns members is independent of keys, so it is known before the state is made. As in etcd, a change that is
//! not possible has no effect; so a database that has a change already, but not its entry, is no obstacle.

use std::collections::{BTreeMap, BTreeSet};

use api::etcdserverpb as pb;
use api::version::ClusterVersion;
use bytes::Bytes;
use dbfile::records::{MemberRecord, SmallRecords};
use member::identity::url::Url;
use prost::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::{ClusterMember, ImportedMembers};

use super::request::{V2_FIELD, fields};
use super::wal::messages::{WalConfState, WalEntry};

/// Fields of `InternalRaftRequest` that say something about members: the cluster's version, a member's name and client
/// URLs, a downgrade.
const MEMBERSHIP_FIELDS: std::ops::RangeInclusive<u32> = 1300..=1302;

/// Kinds of entries.
const REQUEST: i32 = 0;
const CONF_CHANGE: i32 = 1;

/// Kinds of conf changes.
const ADD_VOTER: i32 = 0;
const REMOVE: i32 = 1;
const UPDATE: i32 = 2;
const ADD_LEARNER: i32 = 3;

/// A change of one member: `raftpb.EtcdConfChange`.
#[derive(Clone, PartialEq, Message)]
struct EtcdConfChange {
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(uint64, tag = "3")]
    member_id: u64,
    /// A [`ConfChangeContext`] in JSON.
    #[prost(bytes = "bytes", tag = "4")]
    context: Bytes,
}

/// What a conf change says of its member.
#[derive(Deserialize)]
struct ConfChangeContext {
    #[serde(flatten)]
    member: MemberRecord,
    #[serde(rename = "isPromote", default)]
    is_promotion: bool,
}

/// A request of etcd's API of version 2, with which releases up to 3.5 set a member's name and the cluster's version.
/// Other requests of it have keys and values of clients, which may be any bytes.
#[derive(Clone, PartialEq, Message)]
struct V2Request {
    #[prost(bytes = "bytes", tag = "2")]
    method: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    path: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    value: Bytes,
}

/// A request that has one of version 2.
#[derive(Clone, PartialEq, Message)]
struct V2Envelope {
    #[prost(message, optional, tag = "2")]
    request: Option<V2Request>,
}

/// A member's name and client URLs, in JSON.
#[derive(Deserialize)]
struct V2Attributes {
    #[serde(default)]
    name: String,
    #[serde(rename = "clientURLs", default)]
    client_urls: Option<Vec<String>>,
}

/// What a member is in Raft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RaftRole {
    Voter,
    Learner,
}

/// The members of a cluster.
#[derive(Debug, Default)]
pub(super) struct EtcdMembers {
    /// Those that the database has; Raft decides who is a learner.
    members: BTreeMap<u64, MemberRecord>,
    /// Those that Raft has, and their roles.
    roles: BTreeMap<u64, RaftRole>,
    removed: BTreeSet<u64>,
    cluster_version: Option<String>,
    downgrade_target: Option<String>,
}

impl EtcdMembers {
    /// Those of a database, with the roles of Raft's configuration.
    pub(super) fn of(small: &SmallRecords, conf: &WalConfState) -> EtcdMembers {
        let voters = conf.voters.iter().map(|id| (*id, RaftRole::Voter));
        let learners = conf.learners.iter().map(|id| (*id, RaftRole::Learner));
        let downgrade = small.downgrade.as_ref().filter(|downgrade| downgrade.enabled);
        EtcdMembers {
            members: small.members.iter().map(|member| (member.id, member.clone())).collect(),
            roles: voters.chain(learners).collect(),
            removed: small.removed_members.iter().copied().collect(),
            cluster_version: small.cluster_version.clone(),
            downgrade_target: downgrade.map(|downgrade| downgrade.target_version.clone()),
        }
    }

    /// Ids and names.
    pub(super) fn names(&self) -> Vec<(u64, &str)> {
        self.members.values().map(|member| (member.id, &member.name[..])).collect()
    }

    /// Applies an entry that the database has, and Raft's configuration has not. Whether etcd refused it is not known:
    /// a member that was not added is one too many then, and the import is refused.
    ///
    /// # Errors
    /// Why it is not known what that does.
    pub(super) fn apply_role(&mut self, entry: &WalEntry) -> Result<(), String> {
        match entry.kind {
            REQUEST => Ok(()),
            _ => self.change_role(&conf_change(entry)?),
        }
    }

    /// Applies an entry that neither has.
    ///
    /// # Errors
    /// Why it is not known what that does.
    pub(super) fn apply(&mut self, entry: &WalEntry) -> Result<(), String> {
        if entry.kind == REQUEST {
            return self.apply_request(&entry.data);
        }
        let change = conf_change(entry)?;
        self.change_member(&change)?;
        // Raft is not told of what etcd refuses.
        match change.kind == REMOVE || self.members.contains_key(&change.member_id) {
            true => self.change_role(&change),
            false => Ok(()),
        }
    }

    fn change_member(&mut self, change: &EtcdConfChange) -> Result<(), String> {
        let id = change.member_id;
        if self.removed.contains(&id) {
            return Ok(());
        }
        if change.kind == REMOVE {
            if self.members.remove(&id).is_some() {
                self.removed.insert(id);
            }
            return Ok(());
        }
        let ConfChangeContext { member: told, is_promotion } = from_json(&change.context)?;
        let is_free = !self.members.values().any(|other| other.id != id && shares_url(other, &told));
        match (change.kind, self.members.get_mut(&id)) {
            (UPDATE, Some(member)) if is_free => member.peer_urls = told.peer_urls,
            (ADD_VOTER | ADD_LEARNER, None) if is_free && !is_promotion => {
                self.members.insert(id, MemberRecord { id, ..told });
            }
            _ => {}
        }
        Ok(())
    }

    fn change_role(&mut self, change: &EtcdConfChange) -> Result<(), String> {
        let id = change.member_id;
        let role = match change.kind {
            REMOVE => {
                self.roles.remove(&id);
                return Ok(());
            }
            ADD_VOTER => RaftRole::Voter,
            ADD_LEARNER => RaftRole::Learner,
            UPDATE => return Ok(()),
            other => return Err(format!("is a conf change of kind {other}, which is not known here")),
        };
        let is_promotion = from_json::<ConfChangeContext>(&change.context)?.is_promotion;
        match self.roles.get_mut(&id) {
            Some(own) if is_promotion => *own = role,
            None if !is_promotion => {
                self.roles.insert(id, role);
            }
            _ => {}
        }
        Ok(())
    }

    fn apply_request(&mut self, data: &Bytes) -> Result<(), String> {
        let fields = fields(data)?;
        if fields.contains(&V2_FIELD) {
            return self.apply_v2(data);
        }
        if !fields.iter().any(|field| MEMBERSHIP_FIELDS.contains(field)) {
            return Ok(());
        }
        let request = pb::InternalRaftRequest::decode(data.clone()).map_err(|error| error.to_string())?;
        if let Some(set) = request.cluster_version_set {
            self.cluster_version = Some(set.ver);
        }
        if let Some(set) = request.cluster_member_attr_set {
            let told = set.member_attributes.unwrap_or_default();
            self.publish(set.member_id, told.name, told.client_urls);
        }
        if let Some(set) = request.downgrade_info_set {
            self.downgrade_target = set.enabled.then_some(set.ver);
        }
        Ok(())
    }

    fn apply_v2(&mut self, data: &Bytes) -> Result<(), String> {
        // Bare or within another one; as in etcd, what cannot be the second is the first.
        let within = V2Envelope::decode(data.clone()).ok().and_then(|envelope| envelope.request);
        let request = within.map_or_else(|| V2Request::decode(data.clone()), Ok);
        let V2Request { method, path, value } = request.map_err(|error| error.to_string())?;
        let path = std::str::from_utf8(&path).unwrap_or_default();
        if method != "PUT" {
            return Ok(());
        }
        if path == "/0/version" {
            let version = String::from_utf8(value.to_vec()).map_err(|error| error.to_string())?;
            self.cluster_version = Some(version);
            return Ok(());
        }
        let id = path.strip_prefix("/0/members/").and_then(|rest| rest.strip_suffix("/attributes"));
        if let Some(id) = id.and_then(|id| u64::from_str_radix(id, 16).ok()) {
            let V2Attributes { name, client_urls } = from_json(&value)?;
            self.publish(id, name, client_urls.unwrap_or_default());
        }
        Ok(())
    }

    fn publish(&mut self, id: u64, name: String, client_urls: Vec<String>) {
        if let Some(member) = self.members.get_mut(&id) {
            (member.name, member.client_urls) = (name, client_urls);
        }
    }

    /// As Stele has them.
    ///
    /// # Errors
    /// Why Stele cannot go on with them.
    pub(super) fn into_imported(self) -> Result<ImportedMembers, String> {
        if !self.roles.keys().eq(self.members.keys()) {
            return Err(format!(
                "its database has the members {}, but Raft's configuration has {}",
                shown(self.members.keys()),
                shown(self.roles.keys())
            ));
        }
        if !self.roles.values().any(|role| *role == RaftRole::Voter) {
            return Err("it has no member that votes".to_owned());
        }
        for member in self.members.values() {
            if let Some(why) = member.peer_urls.iter().find_map(|url| Url::parse(url).err()) {
                return Err(format!("member {:x}: {why}", member.id));
            }
        }
        let mut versions = self.cluster_version.iter().chain(&self.downgrade_target);
        if let Some(other) = versions.find(|version| ClusterVersion::parse(version).is_none()) {
            return Err(format!("{other:?} is no version of a cluster"));
        }
        let member = |member: MemberRecord| ClusterMember {
            id: member.id,
            name: member.name,
            peer_urls: member.peer_urls,
            client_urls: member.client_urls,
            learner: self.roles[&member.id] == RaftRole::Learner,
            incarnation: 0,
        };
        Ok(ImportedMembers {
            members: self.members.into_values().map(member).collect(),
            removed: self.removed.into_iter().collect(),
            cluster_version: self.cluster_version,
            downgrade_target: self.downgrade_target,
        })
    }
}

fn shown<'a>(ids: impl Iterator<Item = &'a u64>) -> String {
    let shown: Vec<String> = ids.map(|id| format!("{id:x}")).collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

fn conf_change(entry: &WalEntry) -> Result<EtcdConfChange, String> {
    if entry.kind != CONF_CHANGE {
        return Err(format!("is of kind {}, which etcd does not use", entry.kind));
    }
    EtcdConfChange::decode(entry.data.clone()).map_err(|error| error.to_string())
}

fn shares_url(one: &MemberRecord, other: &MemberRecord) -> bool {
    one.peer_urls.iter().any(|url| other.peer_urls.contains(url))
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes)
        .map_err(|error| format!("says something of a member that is not etcd's: {error}"))
}

#[cfg(test)]
mod tests;
