//! The auth context of a command: who asks for it, as bytes in the log.
//!
//! ```text
//! empty                            a client that is no user, or a command of a member's own
//! 0                                the cluster itself
//! 1 | auth revision u64 | name     a user; the name is UTF-8
//! ```
//!
//! A member's own commands are recognized by their sequence numbers, so that their context is empty, as in releases
//! that know no users.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use store::Caller;

use super::batch::LogCommand;
use super::queue::OWN_COMMAND;

const INTERNAL: u8 = 0;
const USER: u8 = 1;

/// Bytes of the longest name of a user or a role. A context has less than 64 KiB.
pub const MAX_NAME_BYTES: usize = 32 << 10;

/// The context of a command.
///
/// # Errors
/// [`api::Error::RequestTooLarge`] for a name that is longer than [`MAX_NAME_BYTES`]: a client chooses the name in its
/// certificate.
pub(crate) fn context(caller: &Caller) -> Result<Bytes, api::Error> {
    Ok(match caller {
        Caller::Anonymous => Bytes::new(),
        Caller::Internal => Bytes::from_static(&[INTERNAL]),
        Caller::User { name, .. } if name.len() > MAX_NAME_BYTES => return Err(api::Error::RequestTooLarge),
        Caller::User { name, revision } => {
            let mut context = BytesMut::with_capacity(9 + name.len());
            context.put_u8(USER);
            context.put_u64_le(*revision);
            context.put_slice(name.as_bytes());
            context.freeze()
        }
    })
}

/// Who asks for a command. A context that does not decode is that of a client that is no user.
pub(crate) fn caller(command: &LogCommand) -> Caller {
    if command.sequence & OWN_COMMAND != 0 {
        return Caller::Internal;
    }
    let mut context = &command.auth[..];
    match context.try_get_u8() {
        Ok(INTERNAL) if context.is_empty() => Caller::Internal,
        Ok(USER) => user(context).unwrap_or_default(),
        _ => Caller::Anonymous,
    }
}

/// Whether a command has no context, and is not one of a member's own.
pub(crate) fn is_anonymous(command: &LogCommand) -> bool {
    command.auth.is_empty() && command.sequence & OWN_COMMAND == 0
}

fn user(mut fields: &[u8]) -> Option<Caller> {
    let revision = fields.try_get_u64_le().ok()?;
    Some(Caller::User { name: str::from_utf8(fields).ok()?.into(), revision })
}

#[cfg(test)]
mod tests {
    //! The bytes of a context, and bytes that are none.
    use super::*;
    use crate::proposals::batch::{CommandKind, Origin};

    fn command(auth: Bytes, sequence: u64) -> LogCommand {
        let origin = Origin { member: 1, run: 1 };
        LogCommand { origin, sequence, kind: CommandKind::Put, auth, body: Bytes::new() }
    }

    #[test]
    fn a_context_names_its_caller() {
        let ann = Caller::User { name: "ann".into(), revision: 0x0102 };
        let bytes = context(&ann).expect("a short name");
        assert_eq!(bytes, &[1, 2, 1, 0, 0, 0, 0, 0, 0, b'a', b'n', b'n'][..]);
        for one in [Caller::Anonymous, Caller::Internal, ann] {
            assert_eq!(caller(&command(context(&one).expect("a short name"), 1)), one);
        }
        assert_eq!(caller(&command(Bytes::new(), OWN_COMMAND | 1)), Caller::Internal);
    }

    #[test]
    fn a_name_that_does_not_fit_is_an_error() {
        let user = |bytes| Caller::User { name: "n".repeat(bytes).into(), revision: 1 };
        assert!(context(&user(MAX_NAME_BYTES)).is_ok());
        assert_eq!(context(&user(MAX_NAME_BYTES + 1)), Err(api::Error::RequestTooLarge));
    }

    #[test]
    fn other_bytes_name_none() {
        for bytes in [&[0, 0][..], &[1], &[1, 0, 0, 0, 0, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 255], &[2]] {
            assert_eq!(caller(&command(bytes.to_vec().into(), 1)), Caller::Anonymous, "{bytes:?}");
        }
    }
}
