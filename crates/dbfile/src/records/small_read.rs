//! Reading all records but versions.

use api::authpb::{Role, User};
use api::etcdserverpb::AlarmMember;
use prost::Message;
use serde::de::DeserializeOwned;

use super::small::{LeaseRecord, SmallRecords, id_key};
use super::version::RevisionKey;
use super::{BUCKETS, KEY_BUCKET};
use crate::error::ReadError;
use crate::read::{DbFile, ReadAt};

impl SmallRecords {
    /// Reads all buckets but `key`. A bucket that the file lacks counts as empty; records of another name are ignored,
    /// as by etcd.
    ///
    /// # Errors
    /// All but [`ReadError::NoMeta`] and [`ReadError::Short`].
    pub fn read(file: &DbFile<impl ReadAt>) -> Result<SmallRecords, ReadError> {
        let mut records = SmallRecords::default();
        for bucket in BUCKETS.into_iter().filter(|bucket| *bucket != KEY_BUCKET) {
            let Some(mut walk) = file.bucket(bucket)? else { continue };
            while let Some((key, value)) = walk.next_pair()? {
                let not_etcds = |problem| ReadError::Record { bucket: bucket.to_owned(), problem };
                records.take(bucket, key, value).map_err(not_etcds)?;
            }
        }
        Ok(records)
    }

    fn take(&mut self, bucket: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
        match bucket {
            "alarm" => self.alarms.push(message::<AlarmMember>(key)?),
            "authRoles" => self.roles.push(named(message::<Role>(value)?, key, |role| &role.name[..])?),
            "authUsers" => self.users.push(named(message::<User>(value)?, key, |user| &user.name[..])?),
            "lease" => self.take_lease(key, value)?,
            "members" => {
                let member: super::MemberRecord = json(value)?;
                let id = id_of(key)?;
                if member.id != id {
                    return Err(format!("the record of member {id:x} is that of {:x}", member.id));
                }
                self.members.push(member);
            }
            "members_removed" => self.removed_members.push(id_of(key)?),
            _ => self.take_named(bucket, key, value)?,
        }
        Ok(())
    }

    fn take_lease(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let lease = message::<LeaseRecord>(value)?;
        if key != lease.id.to_be_bytes() {
            return Err(format!("the record of lease {:x} has the key of another", lease.id));
        }
        self.leases.push(lease);
        Ok(())
    }

    /// Takes a record of a bucket whose records have names.
    fn take_named(&mut self, bucket: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
        match (bucket, key) {
            ("auth", b"authEnabled") => self.is_auth_enabled = Some(value == [1]),
            ("auth", b"authRevision") => self.auth_revision = Some(number(value)?),
            ("cluster", b"clusterVersion") => self.cluster_version = Some(text(value)?),
            ("cluster", b"downgrade") => self.downgrade = Some(json(value)?),
            ("meta", b"confState") => self.conf_state = Some(json(value)?),
            ("meta", b"consistent_index") => self.applied.index = number(value)?,
            ("meta", b"term") => self.applied.term = number(value)?,
            ("meta", b"finishedCompactRev") => self.finished_compaction = Some(compaction(value)?),
            ("meta", b"scheduledCompactRev") => self.scheduled_compaction = Some(compaction(value)?),
            ("meta", b"storageVersion") => self.storage_version = Some(text(value)?),
            _ => {}
        }
        Ok(())
    }
}

fn message<M: Message + Default>(bytes: &[u8]) -> Result<M, String> {
    M::decode(bytes).map_err(|error| error.to_string())
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())
}

fn number(bytes: &[u8]) -> Result<u64, String> {
    let bytes = bytes.try_into().map_err(|_| format!("a number has {} bytes instead of 8", bytes.len()))?;
    Ok(u64::from_be_bytes(bytes))
}

fn compaction(bytes: &[u8]) -> Result<i64, String> {
    let revision = RevisionKey::decode(bytes).ok_or("the compaction record holds no valid revision")?;
    Ok(revision.main)
}

/// The id in a key, which must be written as etcd writes it.
fn id_of(key: &[u8]) -> Result<u64, String> {
    let id = std::str::from_utf8(key).ok().and_then(|key| u64::from_str_radix(key, 16).ok());
    let id = id.filter(|id| id_key(*id).as_bytes() == key);
    id.ok_or_else(|| format!("the id of a member is {:?}", String::from_utf8_lossy(key)))
}

/// A user or role, whose record must have its name.
fn named<T>(value: T, key: &[u8], name: impl Fn(&T) -> &[u8]) -> Result<T, String> {
    if name(&value) == key {
        return Ok(value);
    }
    Err(format!("the record of {:?} is that of another name", String::from_utf8_lossy(key)))
}
