//! The body of a command about users and roles: one byte that says what is asked, then the request.
//!
//! | byte | request |
//! |---|---|
//! | 1 authenticate | auth revision at which the password was checked u64, 1 if a token's hash follows u8, 32 bytes, name |
//! | 2 enable, 3 disable | nothing |
//! | 4 user add, 5 change password, 6 user delete, 7 user grant role, 8 user revoke role | etcd's message |
//! | 9 role add, 10 role delete, 11 role grant permission, 12 role revoke permission | etcd's message |
//!
//! In 4 and 5 the field `hashedPassword` is the bcrypt hash, and `password` is empty: no password is in the log, and no
//! token either.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use store::{AuthCommand, TokenHash};

const AUTHENTICATE: u8 = 1;
const ENABLE: u8 = 2;
const DISABLE: u8 = 3;
const USER_ADD: u8 = 4;
const USER_CHANGE_PASSWORD: u8 = 5;
const USER_DELETE: u8 = 6;
const USER_GRANT_ROLE: u8 = 7;
const USER_REVOKE_ROLE: u8 = 8;
const ROLE_ADD: u8 = 9;
const ROLE_DELETE: u8 = 10;
const ROLE_GRANT_PERMISSION: u8 = 11;
const ROLE_REVOKE_PERMISSION: u8 = 12;

/// Whether a body asks for something that takes memory for good.
pub(crate) fn grows(body: &[u8]) -> bool {
    let grows = [USER_ADD, USER_GRANT_ROLE, ROLE_ADD, ROLE_GRANT_PERMISSION];
    body.first().is_some_and(|first| grows.contains(first))
}

/// The body of a command.
pub fn encode_auth(command: &AuthCommand) -> Bytes {
    match command {
        AuthCommand::Authenticate { name, checked_revision, token } => {
            let mut body = BytesMut::with_capacity(42 + name.len());
            body.put_u8(AUTHENTICATE);
            body.put_u64_le(*checked_revision);
            body.put_u8(u8::from(token.is_some()));
            body.put_slice(token.as_ref().map_or(&[][..], |token| &token[..]));
            body.put_slice(name.as_bytes());
            body.freeze()
        }
        AuthCommand::Enable => Bytes::from_static(&[ENABLE]),
        AuthCommand::Disable => Bytes::from_static(&[DISABLE]),
        AuthCommand::UserAdd(request) => message(USER_ADD, request),
        AuthCommand::UserChangePassword(request) => message(USER_CHANGE_PASSWORD, request),
        AuthCommand::UserDelete(request) => message(USER_DELETE, request),
        AuthCommand::UserGrantRole(request) => message(USER_GRANT_ROLE, request),
        AuthCommand::UserRevokeRole(request) => message(USER_REVOKE_ROLE, request),
        AuthCommand::RoleAdd(request) => message(ROLE_ADD, request),
        AuthCommand::RoleDelete(request) => message(ROLE_DELETE, request),
        AuthCommand::RoleGrantPermission(request) => message(ROLE_GRANT_PERMISSION, request),
        AuthCommand::RoleRevokePermission(request) => message(ROLE_REVOKE_PERMISSION, request),
    }
}

fn message(kind: u8, request: &impl Message) -> Bytes {
    let mut body = BytesMut::with_capacity(1 + request.encoded_len());
    body.put_u8(kind);
    body.put_slice(&request.encode_to_vec());
    body.freeze()
}

/// The command of a body; `None` if it is none.
pub(crate) fn decode_auth(body: &Bytes) -> Option<AuthCommand> {
    let (kind, request) = (*body.first()?, body.slice(1..));
    Some(match kind {
        AUTHENTICATE => decode_authenticate(&request)?,
        ENABLE if request.is_empty() => AuthCommand::Enable,
        DISABLE if request.is_empty() => AuthCommand::Disable,
        USER_ADD => AuthCommand::UserAdd(Message::decode(request).ok()?),
        USER_CHANGE_PASSWORD => AuthCommand::UserChangePassword(Message::decode(request).ok()?),
        USER_DELETE => AuthCommand::UserDelete(Message::decode(request).ok()?),
        USER_GRANT_ROLE => AuthCommand::UserGrantRole(Message::decode(request).ok()?),
        USER_REVOKE_ROLE => AuthCommand::UserRevokeRole(Message::decode(request).ok()?),
        ROLE_ADD => AuthCommand::RoleAdd(Message::decode(request).ok()?),
        ROLE_DELETE => AuthCommand::RoleDelete(Message::decode(request).ok()?),
        ROLE_GRANT_PERMISSION => AuthCommand::RoleGrantPermission(Message::decode(request).ok()?),
        ROLE_REVOKE_PERMISSION => AuthCommand::RoleRevokePermission(Message::decode(request).ok()?),
        _ => return None,
    })
}

fn decode_authenticate(mut fields: &[u8]) -> Option<AuthCommand> {
    let checked_revision = fields.try_get_u64_le().ok()?;
    let token = match fields.try_get_u8().ok()? {
        0 => None,
        1 => {
            let (token, name) = fields.split_first_chunk::<{ size_of::<TokenHash>() }>()?;
            fields = name;
            Some(*token)
        }
        _ => return None,
    };
    let name = str::from_utf8(fields).ok()?.to_owned();
    Some(AuthCommand::Authenticate { name, checked_revision, token })
}

#[cfg(test)]
mod tests {
    //! The bytes of the format, and bodies that are none.
    use api::etcdserverpb as pb;

    use super::*;

    #[test]
    fn the_format_is_what_the_table_says() {
        let token = Some([7; 32]);
        let authenticate = AuthCommand::Authenticate { name: "ann".into(), checked_revision: 5, token };
        let expected = [&[1, 5, 0, 0, 0, 0, 0, 0, 0, 1][..], &[7; 32], b"ann"].concat();
        assert_eq!(encode_auth(&authenticate), expected);
        assert_eq!(encode_auth(&AuthCommand::Enable), &[2][..]);
        assert_eq!(encode_auth(&AuthCommand::Disable), &[3][..]);
        let add = AuthCommand::RoleAdd(pb::AuthRoleAddRequest { name: "r".into() });
        assert_eq!(encode_auth(&add), &[9, 10, 1, b'r'][..]);
    }

    #[test]
    fn bodies_decode_to_what_they_were() {
        let name = || "n".to_owned();
        let all = [
            AuthCommand::Authenticate { name: name(), checked_revision: 1, token: None },
            AuthCommand::Enable,
            AuthCommand::Disable,
            AuthCommand::UserAdd(pb::AuthUserAddRequest { name: name(), ..Default::default() }),
            AuthCommand::UserChangePassword(Default::default()),
            AuthCommand::UserDelete(pb::AuthUserDeleteRequest { name: name() }),
            AuthCommand::UserGrantRole(Default::default()),
            AuthCommand::UserRevokeRole(Default::default()),
            AuthCommand::RoleAdd(Default::default()),
            AuthCommand::RoleDelete(Default::default()),
            AuthCommand::RoleGrantPermission(Default::default()),
            AuthCommand::RoleRevokePermission(Default::default()),
        ];
        for command in all {
            let body = encode_auth(&command);
            let decoded = decode_auth(&body).map(|decoded| encode_auth(&decoded));
            assert_eq!(decoded, Some(body), "{command:?}");
        }
    }

    #[test]
    fn other_bytes_are_no_command() {
        for bytes in [&[][..], &[0], &[1, 0], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 2], &[2, 0], &[4, 255], &[13]] {
            assert!(decode_auth(&Bytes::copy_from_slice(bytes)).is_none(), "{bytes:?}");
        }
    }
}
