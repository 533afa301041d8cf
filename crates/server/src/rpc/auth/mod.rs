//! The Auth service.
//!
//! Changes are commands: their caller is checked where they are applied. Listings are linearizable reads, checked like
//! those of keys. Passwords are hashed here, before a command is proposed, so that none is in the log.

mod authenticate;
mod roles;
mod signed_token;
mod users;

use api::etcdserverpb as pb;
use api::validate::RaftField;
use bytes::Bytes;
use member::batch::CommandKind;
use member::{MAX_NAME_BYTES, WITH_AUTH, encode_auth};
use prost::Message;
use store::{AuthCommand, Caller, Reply};

pub(super) use authenticate::authenticate;
pub(super) use roles::{
    role_add, role_delete, role_get, role_grant_permission, role_list, role_revoke_permission,
};
pub(super) use users::{
    user_add, user_change_password, user_delete, user_get, user_grant_role, user_list, user_revoke_role,
};

use super::call::{Call, decode};
use crate::auth::PasswordError;
use crate::call_times::CallTimes;
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

/// What Go's library says of a password that bcrypt cannot hash.
const PASSWORD_TOO_LONG: &str = "bcrypt: password length exceeds 72 bytes";

pub(super) async fn auth_enable(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let bytes = body.len();
    decode::<pb::AuthEnableRequest>(body)?;
    let header = change(node, call, bytes, &AuthCommand::Enable).await?;
    tracing::info!("enabled authentication");
    Ok(EncodedMessage::message(&pb::AuthEnableResponse { header }))
}

pub(super) async fn auth_disable(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let bytes = body.len();
    decode::<pb::AuthDisableRequest>(body)?;
    let header = change(node, call, bytes, &AuthCommand::Disable).await?;
    tracing::info!("disabled authentication");
    Ok(EncodedMessage::message(&pb::AuthDisableResponse { header }))
}

pub(super) async fn auth_status(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::AuthStatusRequest>(body)?;
    node.linearize().await?;
    Ok(EncodedMessage::message(&pb::AuthStatusResponse {
        header: Some(node.header_now()),
        enabled: node.reader.is_auth_enabled(),
        auth_revision: node.reader.auth_revision(),
    }))
}

/// Replicates a change, of which etcd would propose so many bytes; returns the header of its response.
///
/// # Errors
/// Those of the rules and of the caller's permission; [`api::Error::NotCapable`] while a member of an older release
/// cannot apply it.
async fn change(
    node: &Node,
    call: &Call,
    bytes: usize,
    command: &AuthCommand,
) -> Result<Option<pb::ResponseHeader>, Failure> {
    // etcd's order.
    let caller = node.identify(&call.credentials).await?;
    node.check_size(RaftField::Auth, bytes, &caller)?;
    node.refuse_anonymous(&caller).await?;
    let (revision, _) = propose(node, &call.times, caller, command).await?;
    Ok(Some(node.header(revision)))
}

/// Replicates a command; returns the revision and the entry.
async fn propose(
    node: &Node,
    times: &CallTimes,
    caller: Caller,
    command: &AuthCommand,
) -> Result<(i64, u64), Failure> {
    if node.reader.command_set() < WITH_AUTH {
        return Err(api::Error::NotCapable.into());
    }
    let body = encode_auth(command);
    match node.propose_for(times, CommandKind::Auth, caller, body).await? {
        Reply::Auth { revision, index } => Ok((revision, index)),
        _ => Err(Failure::unexpected()),
    }
}

/// The caller of a listing, once this member has everything that was acknowledged. As in etcd, a signed token may be
/// older than the last change: roles are looked up now. The revision returned is from before that.
async fn reader_of(node: &Node, call: &Call) -> Result<Caller, Failure> {
    node.linearize().await?;
    let revision = node.reader.auth_revision();
    Ok(match node.identify(&call.credentials).await? {
        Caller::User { name, .. } => Caller::User { name, revision },
        other => other,
    })
}

/// Refuses an `Authenticate` that etcd would find too large: it proposes the name, and the letters of the token that it
/// drew.
fn check_token_size(node: &Node, name: &str, letters: &str) -> Result<(), api::Error> {
    let (name, simple_token) = (name.to_owned(), letters.to_owned());
    let request = pb::InternalAuthenticateRequest { name, simple_token, ..Default::default() };
    node.check_size(RaftField::Auth, request.encoded_len(), &Caller::Anonymous)
}

/// Refuses names that no command can carry.
fn check_name(name: &str) -> Result<(), api::Error> {
    if name.len() > MAX_NAME_BYTES { Err(api::Error::RequestTooLarge) } else { Ok(()) }
}

impl From<PasswordError> for Failure {
    fn from(error: PasswordError) -> Failure {
        match error {
            PasswordError::TooLong => Failure::new(api::Code::Unknown, PASSWORD_TOO_LONG),
            PasswordError::TooMany => api::Error::TooManyRequests.into(),
            PasswordError::Unavailable => api::Error::Stopped.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Names.
    use super::*;

    #[test]
    fn a_long_name_is_refused() {
        assert_eq!(check_name(&"n".repeat(32 << 10)), Ok(()));
        assert_eq!(check_name(&"n".repeat((32 << 10) + 1)), Err(api::Error::RequestTooLarge));
    }
}
