//! From the records of a database into a data directory that is being made.
//!
//! What comes along here: all versions that a compaction left, tombstones, leases with their times, alarms, users and
//! roles, the newest and the compact revision. What does not: members, the cluster version, a downgrade. The directory
//! was begun with these: those of a new cluster, or, in an import whose members stay, those of the old one.

use dbfile::records::{SmallRecords, Versions};
use dbfile::{DbFile, ReadAt};
use indicatif::ProgressBar;
use member::OpenMemberError;
use member::restore::StateRestore;
use store::{AuthRole, AuthUser, KvRef, LeaseInfo, RangePermission, RestoreError, Revision, ValueRef};

/// Why a state was not made.
#[derive(Debug)]
pub(crate) enum StateFailure {
    /// The database cannot be read.
    Database(dbfile::ReadError),
    /// Its records are none that a store has.
    Records(String),
    /// The directory cannot be written.
    Directory(OpenMemberError),
}

impl std::fmt::Display for StateFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StateFailure::Database(error) => error.fmt(f),
            StateFailure::Records(why) => write!(f, "the database has records that are not etcd's: {why}"),
            StateFailure::Directory(error) => error.fmt(f),
        }
    }
}

impl From<dbfile::ReadError> for StateFailure {
    fn from(error: dbfile::ReadError) -> StateFailure {
        StateFailure::Database(error)
    }
}

impl From<OpenMemberError> for StateFailure {
    fn from(error: OpenMemberError) -> StateFailure {
        match error {
            OpenMemberError::State(error) => error.into(),
            error => StateFailure::Directory(error),
        }
    }
}

impl From<RestoreError> for StateFailure {
    fn from(error: RestoreError) -> StateFailure {
        match error {
            RestoreError::Malformed(why) => StateFailure::Records(why.to_owned()),
            error => StateFailure::Records(error.to_string()),
        }
    }
}

/// The compact revision of a database: a compaction that was not carried out counts.
pub(crate) fn compact_revision(small: &SmallRecords) -> Option<i64> {
    small.scheduled_compaction.max(small.finished_compaction).filter(|revision| *revision > 0)
}

/// Gives all records of a database to `restore`, whose end is left to the caller. The bar shows the bytes of versions.
///
/// # Errors
/// See [`StateFailure`].
pub(crate) fn fill<R: ReadAt>(
    database: &DbFile<R>,
    small: &SmallRecords,
    restore: &mut StateRestore,
    bar: &ProgressBar,
) -> Result<(), StateFailure> {
    let state = restore.state();
    for lease in &small.leases {
        state.lease(LeaseInfo { id: lease.id, ttl: lease.ttl, remaining: lease.remaining_ttl });
    }
    small.alarms.iter().for_each(|alarm| state.alarm(alarm));
    let users = small.users.iter().map(user).collect::<Result<Vec<_>, _>>()?;
    let roles = small.roles.iter().map(role).collect::<Result<Vec<_>, _>>()?;
    state.auth(small.is_auth_enabled.unwrap_or(false), small.auth_revision.unwrap_or(0), users, roles);
    let mut versions = Versions::of(database)?;
    while let Some((at, kv)) = versions.next_version()? {
        bar.inc((kv.key.len() + kv.value.len()) as u64);
        // A restore of etcd that raised the revision leaves a record without a key.
        if kv.key.is_empty() {
            restore.state().unknown_revision(at.main)?;
            continue;
        }
        let sub = u32::try_from(at.sub)
            .map_err(|_| StateFailure::Records(format!("revision {} has too many changes", at.main)))?;
        let version = KvRef {
            key: kv.key,
            create_revision: kv.create_revision,
            mod_revision: Revision { main: at.main, sub },
            version: kv.version,
            lease: kv.lease,
            value: ValueRef::default(),
        };
        restore.version(version, &kv.value, at.is_tombstone)?;
    }
    Ok(())
}

fn user(user: &api::authpb::User) -> Result<AuthUser, StateFailure> {
    Ok(AuthUser {
        name: name(&user.name)?,
        password: user.password.clone(),
        no_password: user.options.as_ref().is_some_and(|options| options.no_password),
        roles: user.roles.clone(),
    })
}

fn role(role: &api::authpb::Role) -> Result<AuthRole, StateFailure> {
    let mut permissions: Vec<RangePermission> = role
        .key_permission
        .iter()
        .map(|own| RangePermission {
            start: own.key.clone(),
            end: own.range_end.clone(),
            kind: own.perm_type,
        })
        .collect();
    permissions.sort_by(|one, other| one.start.cmp(&other.start));
    Ok(AuthRole { name: name(&role.name)?, permissions })
}

fn name(bytes: &[u8]) -> Result<String, StateFailure> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| StateFailure::Records("the name of a user or role is not UTF-8".to_owned()))
}
