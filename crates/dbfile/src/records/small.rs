//! All records but versions: what a cluster has a handful of, and leases.

use api::authpb::{Role, User};
use api::etcdserverpb::AlarmMember;
use prost::Message;

use super::cluster_json::{ConfStateRecord, DowngradeRecord, MemberRecord};
use super::version::RevisionKey;

/// Index and term of the last entry whose effects a file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedEntry {
    /// The index; etcd's consistent index.
    pub index: u64,
    /// The term.
    pub term: u64,
}

/// A lease: an encoded `leasepb.Lease`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseRecord {
    /// Its id.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// The granted seconds.
    #[prost(int64, tag = "2")]
    pub ttl: i64,
    /// The remaining seconds, if recorded; else 0.
    #[prost(int64, tag = "3")]
    pub remaining_ttl: i64,
}

/// The contents of all buckets but `key`. A record that a file may lack is an `Option`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SmallRecords {
    /// The last applied entry.
    pub applied: AppliedEntry,
    /// The configuration of Raft.
    pub conf_state: Option<ConfStateRecord>,
    /// The version of the format, as in `3.7.0`; since etcd 3.6.
    pub storage_version: Option<String>,
    /// The revision of the last compaction.
    pub scheduled_compaction: Option<i64>,
    /// The revision of the last compaction that was carried out.
    pub finished_compaction: Option<i64>,
    /// The version that all members can speak, as in `3.7.0`.
    pub cluster_version: Option<String>,
    /// The downgrade in progress.
    pub downgrade: Option<DowngradeRecord>,
    /// The members.
    pub members: Vec<MemberRecord>,
    /// Ids of former members.
    pub removed_members: Vec<u64>,
    /// Raised alarms.
    pub alarms: Vec<AlarmMember>,
    /// All leases.
    pub leases: Vec<LeaseRecord>,
    /// Whether users must authenticate.
    pub is_auth_enabled: Option<bool>,
    /// The revision of users and roles.
    pub auth_revision: Option<u64>,
    /// Users, each in the record of its name.
    pub users: Vec<User>,
    /// Roles, each in the record of its name.
    pub roles: Vec<Role>,
}

/// Takes the key and the value of a record.
type Put<'a, E> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), E>;

impl SmallRecords {
    /// Puts all lists into the order in which a file has them.
    pub fn sort(&mut self) {
        self.members.sort_unstable_by_key(|member| id_key(member.id));
        self.removed_members.sort_unstable_by_key(|id| id_key(*id));
        self.alarms.sort_unstable_by_key(Message::encode_to_vec);
        self.leases.sort_unstable_by_key(|lease| lease.id as u64);
        self.users.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.roles.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    }

    /// Hands the records of a bucket to `put`, in order if the lists are [sorted](Self::sort). A bucket of another name
    /// has none.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn visit<E>(&self, bucket: &str, put: Put<'_, E>) -> Result<(), E> {
        match bucket {
            "alarm" => self.alarms.iter().try_for_each(|alarm| put(&alarm.encode_to_vec(), b"")),
            "auth" => self.visit_auth(put),
            "authRoles" => self.roles.iter().try_for_each(|role| put(&role.name, &role.encode_to_vec())),
            "authUsers" => self.users.iter().try_for_each(|user| put(&user.name, &user.encode_to_vec())),
            "cluster" => self.visit_cluster(put),
            "lease" => {
                self.leases.iter().try_for_each(|lease| put(&lease.id.to_be_bytes(), &lease.encode_to_vec()))
            }
            "members" => self.members.iter().try_for_each(|one| put(id_key(one.id).as_bytes(), &json(one))),
            "members_removed" => {
                self.removed_members.iter().try_for_each(|id| put(id_key(*id).as_bytes(), b"removed"))
            }
            "meta" => self.visit_meta(put),
            _ => Ok(()),
        }
    }

    fn visit_auth<E>(&self, put: Put<'_, E>) -> Result<(), E> {
        if let Some(is_enabled) = self.is_auth_enabled {
            put(b"authEnabled", &[u8::from(is_enabled)])?;
        }
        self.auth_revision.map_or(Ok(()), |revision| put(b"authRevision", &revision.to_be_bytes()))
    }

    fn visit_cluster<E>(&self, put: Put<'_, E>) -> Result<(), E> {
        if let Some(version) = &self.cluster_version {
            put(b"clusterVersion", version.as_bytes())?;
        }
        self.downgrade.as_ref().map_or(Ok(()), |downgrade| put(b"downgrade", &json(downgrade)))
    }

    fn visit_meta<E>(&self, put: Put<'_, E>) -> Result<(), E> {
        if let Some(conf) = &self.conf_state {
            put(b"confState", &json(conf))?;
        }
        // etcd has no record of index 0.
        if self.applied.index > 0 {
            put(b"consistent_index", &self.applied.index.to_be_bytes())?;
        }
        let compactions = [
            (&b"finishedCompactRev"[..], self.finished_compaction),
            (b"scheduledCompactRev", self.scheduled_compaction),
        ];
        for (key, revision) in compactions {
            revision.map_or(Ok(()), |main| put(key, &compaction(main)))?;
        }
        if let Some(version) = &self.storage_version {
            put(b"storageVersion", version.as_bytes())?;
        }
        if self.applied.term > 0 { put(b"term", &self.applied.term.to_be_bytes()) } else { Ok(()) }
    }
}

/// The key of a member: its id in hexadecimal, as short as possible.
pub(super) fn id_key(id: u64) -> String {
    format!("{id:x}")
}

fn compaction(main: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    RevisionKey { main, sub: 0, is_tombstone: false }.encode(&mut bytes);
    bytes
}

fn json(record: &impl serde::Serialize) -> Vec<u8> {
    // Writing JSON fails for maps whose keys are no texts, and for errors of what is written to: there is neither.
    serde_json::to_vec(record).expect("structures of texts, numbers and lists are JSON")
}
