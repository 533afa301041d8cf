//! Users: changes and listings.

use api::etcdserverpb as pb;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use prost::Message;
use store::AuthCommand;

use super::{change, check_name, reader_of};
use crate::auth::Passwords;
use crate::auth::passwords::{MAX_COST, cost_of};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::rpc::call::{Call, decode};

/// Bytes of a hash of bcrypt.
const HASH_BYTES: usize = 60;

pub(in crate::rpc) async fn user_add(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let mut bytes = body.len();
    let mut request: pb::AuthUserAddRequest = decode(body)?;
    check_name(&request.name)?;
    let password = std::mem::take(&mut request.password);
    request.hashed_password.clear();
    if !request.options.as_ref().is_some_and(|options| options.no_password) {
        Passwords::check_new(&password)?;
        may_hash(node, call).await?;
        request.hashed_password = node.passwords.hash(call.credentials.source(), password).await?;
        bytes = with_encoded_hash(request.encoded_len());
    }
    let header = change(node, call, bytes, &AuthCommand::UserAdd(request)).await?;
    Ok(EncodedMessage::message(&pb::AuthUserAddResponse { header }))
}

pub(in crate::rpc) async fn user_change_password(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let mut bytes = body.len();
    let mut request: pb::AuthUserChangePasswordRequest = decode(body)?;
    let password = std::mem::take(&mut request.password);
    Passwords::check_new(&password)?;
    may_hash(node, call).await?;
    if password.is_empty() {
        request.hashed_password = given_hash(&request.hashed_password)?;
    } else {
        request.hashed_password = node.passwords.hash(call.credentials.source(), password).await?;
        bytes = with_encoded_hash(request.encoded_len());
    }
    let header = change(node, call, bytes, &AuthCommand::UserChangePassword(request)).await?;
    Ok(EncodedMessage::message(&pb::AuthUserChangePasswordResponse { header }))
}

/// What etcd would propose of a request with a hash that this member made: it encodes the hash in base64.
const fn with_encoded_hash(bytes: usize) -> usize {
    bytes + HASH_BYTES.div_ceil(3) * 4 - HASH_BYTES
}

/// A hash that the client made itself: base64, as in etcd. It must be one of bcrypt, and its cost one that members
/// bear; or empty, which no password has.
fn given_hash(encoded: &str) -> Result<String, api::Error> {
    let hash = STANDARD.decode(encoded).ok().filter(|hash| is_bearable(hash));
    hash.and_then(|hash| String::from_utf8(hash).ok()).ok_or(api::Error::NoPasswordUser)
}

fn is_bearable(hash: &[u8]) -> bool {
    hash.is_empty() || cost_of(hash).is_some_and(|cost| cost <= MAX_COST)
}

/// Whether the caller may make this member hash a password, which takes long: only who may change users.
async fn may_hash(node: &Node, call: &Call) -> Result<(), Failure> {
    if node.reader.is_auth_enabled() {
        let caller = reader_of(node, call).await?;
        node.reader.check_root(&caller)?;
    }
    Ok(())
}

pub(in crate::rpc) async fn user_delete(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let header = change(node, call, body.len(), &AuthCommand::UserDelete(decode(body)?)).await?;
    Ok(EncodedMessage::message(&pb::AuthUserDeleteResponse { header }))
}

pub(in crate::rpc) async fn user_grant_role(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let header = change(node, call, body.len(), &AuthCommand::UserGrantRole(decode(body)?)).await?;
    Ok(EncodedMessage::message(&pb::AuthUserGrantRoleResponse { header }))
}

pub(in crate::rpc) async fn user_revoke_role(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let header = change(node, call, body.len(), &AuthCommand::UserRevokeRole(decode(body)?)).await?;
    Ok(EncodedMessage::message(&pb::AuthUserRevokeRoleResponse { header }))
}

/// The roles of a user, for root and for the user.
pub(in crate::rpc) async fn user_get(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let request: pb::AuthUserGetRequest = decode(body)?;
    let caller = reader_of(node, call).await?;
    node.reader.check_user_get(&caller, &request.name)?;
    let user = node.reader.auth_user(&request.name);
    node.reader.check_unchanged(&caller)?;
    let user = user.ok_or(api::Error::UserNotFound)?;
    let (header, roles) = (Some(node.header_now()), user.roles);
    Ok(EncodedMessage::message(&pb::AuthUserGetResponse { header, roles }))
}

pub(in crate::rpc) async fn user_list(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    decode::<pb::AuthUserListRequest>(body)?;
    let caller = reader_of(node, call).await?;
    node.reader.check_root(&caller)?;
    let (header, users) = (Some(node.header_now()), node.reader.auth_users());
    node.reader.check_unchanged(&caller)?;
    Ok(EncodedMessage::message(&pb::AuthUserListResponse { header, users }))
}

#[cfg(test)]
mod tests {
    //! Hashes that clients make.
    use super::*;

    #[test]
    fn a_given_hash_must_be_one_that_can_be_checked() {
        let given = |text: &str| given_hash(&STANDARD.encode(text));
        let digest = "N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy";
        let with_cost = |cost: u32| format!("$2a${cost:02}${digest}");
        assert_eq!(given(&with_cost(10)), Ok(with_cost(10)));
        assert_eq!(given(&with_cost(MAX_COST)), Ok(with_cost(MAX_COST)));
        for hash in [with_cost(MAX_COST + 1), with_cost(3), "secret".into()] {
            assert_eq!(given(&hash), Err(api::Error::NoPasswordUser), "{hash}");
        }
        assert_eq!(given(""), Ok(String::new()), "as in etcd");
        assert_eq!(given_hash("%"), Err(api::Error::NoPasswordUser));
    }
}
