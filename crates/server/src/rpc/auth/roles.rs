//! Roles: changes and listings.

use api::authpb;
use api::etcdserverpb as pb;
use bytes::Bytes;
use store::AuthCommand;

use super::{change, check_name, reader_of};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::rpc::call::{Call, decode};

/// The role that may do everything; it has one permission, which is not stored.
const ROOT_ROLE: &str = "root";

pub(in crate::rpc) async fn role_add(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let bytes = body.len();
    let request: pb::AuthRoleAddRequest = decode(body)?;
    check_name(&request.name)?;
    let header = change(node, call, bytes, &AuthCommand::RoleAdd(request)).await?;
    Ok(EncodedMessage::message(&pb::AuthRoleAddResponse { header }))
}

pub(in crate::rpc) async fn role_delete(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let header = change(node, call, body.len(), &AuthCommand::RoleDelete(decode(body)?)).await?;
    Ok(EncodedMessage::message(&pb::AuthRoleDeleteResponse { header }))
}

pub(in crate::rpc) async fn role_grant_permission(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let header = change(node, call, body.len(), &AuthCommand::RoleGrantPermission(decode(body)?)).await?;
    Ok(EncodedMessage::message(&pb::AuthRoleGrantPermissionResponse { header }))
}

pub(in crate::rpc) async fn role_revoke_permission(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let header = change(node, call, body.len(), &AuthCommand::RoleRevokePermission(decode(body)?)).await?;
    Ok(EncodedMessage::message(&pb::AuthRoleRevokePermissionResponse { header }))
}

/// The permissions of a role, for root and for who has the role.
pub(in crate::rpc) async fn role_get(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let request: pb::AuthRoleGetRequest = decode(body)?;
    let caller = reader_of(node, call).await?;
    node.reader.check_role_get(&caller, &request.role)?;
    let role = node.reader.auth_role(&request.role);
    node.reader.check_unchanged(&caller)?;
    let role = role.ok_or(api::Error::RoleNotFound)?;
    let permission = |key, range_end, perm_type| authpb::Permission { key, range_end, perm_type };
    let perm = match &role.name[..] {
        ROOT_ROLE => {
            let kind = authpb::permission::Type::Readwrite as i32;
            vec![permission(Bytes::new(), Bytes::from_static(&[0]), kind)]
        }
        _ => role.permissions.into_iter().map(|own| permission(own.start, own.end, own.kind)).collect(),
    };
    Ok(EncodedMessage::message(&pb::AuthRoleGetResponse { header: Some(node.header_now()), perm }))
}

pub(in crate::rpc) async fn role_list(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    decode::<pb::AuthRoleListRequest>(body)?;
    let caller = reader_of(node, call).await?;
    node.reader.check_root(&caller)?;
    let (header, roles) = (Some(node.header_now()), node.reader.auth_roles());
    node.reader.check_unchanged(&caller)?;
    Ok(EncodedMessage::message(&pb::AuthRoleListResponse { header, roles }))
}
