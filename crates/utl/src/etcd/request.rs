//! What an entry of etcd's log asks for: etcd's request as a command of the store, with its caller.
//!
//! ```text
//! header: user ann, auth revision 5 | put: k    ->  Put k, by ann with revision 5
//! header: user ann, auth revision 5 | compaction ->  Compaction, unchecked: etcd has checked it before it was logged
//! cluster_version_set                            ->  nothing: `membership` knows what it does
//! ```
//!
//! A request that cannot be read, or has a field that is not known here, is an error: what it does to the state is not
//! known. What only reads does nothing, and so do requests of etcd's API of version 2: what those say of members is
//! for `membership`.

use api::etcdserverpb as pb;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use sha2::{Digest, Sha256};
use store::{AuthCommand, Caller, Command};

use super::wal::messages::WalEntry;

/// The least time to live of a lease, in seconds, with etcd's usual election timeout: it raises shorter ones.
const MIN_LEASE_TTL: i64 = 2;

/// The cost of a hash of a password, as etcd has it unless a flag says otherwise.
const BCRYPT_COST: u32 = 10;

/// A request of version 2 in another one; in a bare request of that version, its method.
pub(super) const V2_FIELD: u32 = 2;

/// Fields of `InternalRaftRequest` up to etcd 3.7.
const KNOWN_FIELDS: [std::ops::RangeInclusive<u32>; 8] =
    [1..=11, 100..=100, 1000..=1000, 1011..=1013, 1100..=1107, 1200..=1204, 1300..=1302, 9900..=9900];

/// What an entry asks for.
#[derive(Debug)]
pub(super) struct EntryRequest {
    pub(super) caller: Caller,
    pub(super) command: Command,
}

/// What an entry asks for; `None` if nothing of what is imported.
///
/// # Errors
/// Why that is not known.
pub(super) fn request_of(entry: &WalEntry) -> Result<Option<EntryRequest>, String> {
    if entry.kind != 0 || entry.data.is_empty() {
        return Ok(None);
    }
    let fields = fields(&entry.data)?;
    if fields.contains(&V2_FIELD) {
        return Ok(None);
    }
    if let Some(field) = fields.iter().find(|field| !KNOWN_FIELDS.iter().any(|known| known.contains(field))) {
        return Err(format!("has field {field}, which is not known here"));
    }
    let request = pb::InternalRaftRequest::decode(entry.data.clone()).map_err(|error| error.to_string())?;
    let caller = caller_of(request.header.as_ref());
    command_of(request, caller, entry)
}

/// The numbers of the fields of a message, up to a request of version 2: a bare one is another message.
pub(super) fn fields(data: &Bytes) -> Result<Vec<u32>, String> {
    let (mut rest, mut numbers) = (data.clone(), Vec::new());
    while !rest.is_empty() && !numbers.contains(&V2_FIELD) {
        let (number, wire) = decode_key(&mut rest).map_err(|error| error.to_string())?;
        numbers.push(number);
        let skipped = skip_field(wire, number, &mut rest, DecodeContext::default());
        skipped.map_err(|error| error.to_string())?;
    }
    Ok(numbers)
}

/// Who asks, as etcd's header says.
fn caller_of(header: Option<&pb::RequestHeader>) -> Caller {
    match header {
        Some(header) if !header.username.is_empty() => {
            Caller::User { name: header.username.as_str().into(), revision: header.auth_revision }
        }
        _ => Caller::Anonymous,
    }
}

fn command_of(
    request: pb::InternalRaftRequest,
    caller: Caller,
    entry: &WalEntry,
) -> Result<Option<EntryRequest>, String> {
    let by = |caller, command| Ok(Some(EntryRequest { caller, command }));
    // etcd checks who asks for these before they are logged, and not again.
    let unchecked = |command| by(Caller::Internal, command);
    // As in etcd, the first one counts.
    if let Some(put) = request.put {
        return by(caller, Command::Put(put));
    }
    if let Some(delete) = request.delete_range {
        return by(caller, Command::DeleteRange(delete));
    }
    if let Some(txn) = request.txn {
        return by(caller, Command::Txn(txn));
    }
    if let Some(compaction) = request.compaction {
        return unchecked(Command::Compaction(compaction));
    }
    if let Some(grant) = request.lease_grant {
        let ttl = grant.ttl.max(MIN_LEASE_TTL);
        return unchecked(Command::LeaseGrant(pb::LeaseGrantRequest { ttl, ..grant }));
    }
    if let Some(request) = request.lease_revoke {
        return by(caller, Command::LeaseRevoke { request, expiry_term: None });
    }
    if let Some(checkpoint) = request.lease_checkpoint {
        return unchecked(Command::LeaseCheckpoint(checkpoint));
    }
    if let Some(alarm) = request.alarm {
        return unchecked(Command::Alarm(alarm));
    }
    match auth_command_of(request, entry)? {
        Some(command) => by(caller, Command::Auth(command)),
        None => Ok(None),
    }
}

/// A change of users and roles; `None` for requests that change nothing of what is imported.
fn auth_command_of(
    request: pb::InternalRaftRequest,
    entry: &WalEntry,
) -> Result<Option<AuthCommand>, String> {
    let pb::InternalRaftRequest {
        auth_enable,
        auth_disable,
        auth_user_add,
        auth_user_delete,
        auth_user_change_password,
        auth_user_grant_role,
        auth_user_revoke_role,
        auth_role_add,
        auth_role_delete,
        auth_role_grant_permission,
        auth_role_revoke_permission,
        ..
    } = request;
    let enable = auth_enable.map(|_| AuthCommand::Enable);
    let disable = auth_disable.map(|_| AuthCommand::Disable);
    let add = auth_user_add.map(|add| add_user(add, entry)).transpose()?;
    let change = auth_user_change_password.map(|change| change_password(change, entry)).transpose()?;
    Ok(enable
        .or(disable)
        .or(add)
        .or(change)
        .or(auth_user_delete.map(AuthCommand::UserDelete))
        .or(auth_user_grant_role.map(AuthCommand::UserGrantRole))
        .or(auth_user_revoke_role.map(AuthCommand::UserRevokeRole))
        .or(auth_role_add.map(AuthCommand::RoleAdd))
        .or(auth_role_delete.map(AuthCommand::RoleDelete))
        .or(auth_role_grant_permission.map(AuthCommand::RoleGrantPermission))
        .or(auth_role_revoke_permission.map(AuthCommand::RoleRevokePermission)))
}

fn add_user(add: pb::AuthUserAddRequest, entry: &WalEntry) -> Result<AuthCommand, String> {
    let has_none = add.options.as_ref().is_some_and(|options| options.no_password);
    let hashed_password = match has_none {
        true => String::new(),
        false => hash_of(&add.password, &add.hashed_password, &add.name, entry)?,
    };
    Ok(AuthCommand::UserAdd(pb::AuthUserAddRequest { hashed_password, password: String::new(), ..add }))
}

fn change_password(
    change: pb::AuthUserChangePasswordRequest,
    entry: &WalEntry,
) -> Result<AuthCommand, String> {
    let hashed_password = hash_of(&change.password, &change.hashed_password, &change.name, entry)?;
    let password = String::new();
    let change = pb::AuthUserChangePasswordRequest { hashed_password, password, ..change };
    Ok(AuthCommand::UserChangePassword(change))
}

/// The bcrypt hash of a password, which etcd logs in base64 from 3.5 on. etcd 3.4 logs the password itself, and hashes
/// it when it is applied. Its salt is drawn from what names the entry, so that members that are imported one by one
/// from the same directory have the same hash; it tells nothing of the password.
fn hash_of(password: &str, hashed: &str, user: &str, entry: &WalEntry) -> Result<String, String> {
    if password.is_empty() || !hashed.is_empty() {
        let decoded =
            BASE64_STANDARD.decode(hashed).map_err(|error| format!("has a password hash: {error}"))?;
        return String::from_utf8(decoded).map_err(|_| "has a password hash that is not text".to_owned());
    }
    let named = Sha256::new().chain_update(entry.term.to_le_bytes()).chain_update(entry.index.to_le_bytes());
    let digest = named.chain_update(user.as_bytes()).finalize();
    let mut salt = [0; 16];
    salt.copy_from_slice(&digest[..16]);
    let hash = bcrypt::hash_with_salt(password, BCRYPT_COST, salt).map_err(|error| error.to_string())?;
    // Go writes this version of the format.
    Ok(hash.format_for_version(bcrypt::Version::TwoA))
}

#[cfg(test)]
mod tests {
    //! Requests as etcd logs them. `tests/go/utl` compares what becomes of them with what etcd makes of them.

    use super::*;
    use api::membershippb::ClusterVersionSetRequest;

    fn entry(data: Vec<u8>) -> WalEntry {
        WalEntry { kind: 0, term: 2, index: 7, data: data.into() }
    }

    fn read(request: pb::InternalRaftRequest) -> Option<EntryRequest> {
        request_of(&entry(request.encode_to_vec())).expect("it is known")
    }

    fn by_ann() -> pb::InternalRaftRequest {
        let header = pb::RequestHeader { id: 5, username: "ann".into(), auth_revision: 9 };
        pb::InternalRaftRequest { header: Some(header), ..Default::default() }
    }

    #[test]
    fn a_request_keeps_its_caller() {
        let put = pb::PutRequest { key: "k".into(), value: "v".into(), ..Default::default() };
        let found = read(pb::InternalRaftRequest { put: Some(put.clone()), ..by_ann() }).expect("a put");
        assert_eq!(found.caller, Caller::User { name: "ann".into(), revision: 9 });
        assert!(matches!(found.command, Command::Put(found) if found == put));
        let compaction = pb::CompactionRequest { revision: 4, physical: true };
        let found = read(pb::InternalRaftRequest { compaction: Some(compaction), ..by_ann() });
        assert_eq!(found.expect("a compaction").caller, Caller::Internal);
        let put = pb::InternalRaftRequest { put: Some(put), ..Default::default() };
        assert_eq!(read(put).expect("a put").caller, Caller::Anonymous);
    }

    #[test]
    fn what_concerns_the_cluster_and_version_2_changes_nothing() {
        let version = Some(ClusterVersionSetRequest { ver: "3.6.0".to_owned() });
        assert!(read(pb::InternalRaftRequest { cluster_version_set: version, ..by_ann() }).is_none());
        assert!(read(pb::InternalRaftRequest { range: Some(Default::default()), ..by_ann() }).is_none());
        // Bare: ID 1, method 2, path 3. Within another request: field 2 has the request.
        let bare = [&[8, 1, 0x12, 3][..], b"PUT", &[0x1a, 2], b"/0", &[0x20, 0]].concat();
        let within = [&[8, 1, 0x12, 7][..], b"\x08\x01\x12\x03PUT"].concat();
        for data in [bare, within, Vec::new()] {
            assert!(request_of(&entry(data)).expect("it is known").is_none());
        }
        let change = WalEntry { kind: 2, ..entry(vec![255]) };
        assert!(request_of(&change).expect("members are not imported").is_none());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        // Field 2,000 with a message, alone or beside one that is known; and bytes that are no message.
        let newer = [0x82, 0x7d, 2, 8, 1];
        let beside = [&by_ann().encode_to_vec()[..], &newer].concat();
        for (data, why) in [(newer.to_vec(), "field 2000"), (beside, "field 2000"), (vec![0x0a, 200], "")] {
            let refused = request_of(&entry(data)).expect_err("it is not known");
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn passwords_become_hashes() {
        let add = |password: &str, hashed: &str| {
            let (password, hashed_password) = (password.to_owned(), hashed.to_owned());
            let add = pb::AuthUserAddRequest { name: "u".into(), password, hashed_password, options: None };
            match read(pb::InternalRaftRequest { auth_user_add: Some(add), ..by_ann() }) {
                Some(EntryRequest { command: Command::Auth(AuthCommand::UserAdd(add)), .. }) => add,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(add("", "JDJhJDEw").hashed_password, "$2a$10", "etcd 3.5 and later log a hash in base64");
        let old = add("secret", "");
        assert!(old.password.is_empty() && old.hashed_password.starts_with("$2a$10$"), "{old:?}");
        assert_eq!(bcrypt::verify("secret", &old.hashed_password).ok(), Some(true));
        assert_eq!(old, add("secret", ""), "members that are imported separately agree");
    }
}
