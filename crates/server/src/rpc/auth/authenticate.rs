//! `Authenticate`: a password for a token.

use api::etcdserverpb as pb;
use bytes::Bytes;
use member::MAX_NAME_BYTES;
use store::{AuthCommand, Caller};

use super::{check_token_size, propose, signed_token};
use crate::auth::passwords::GivenPassword;
use crate::auth::tokens;
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::rpc::call::{Call, decode};

/// How often a password is checked again because users or roles changed meanwhile. It is remembered after the first
/// time, so that only a change in each of these moments makes them all fail.
const MAX_CHECKS: u32 = 10;

/// The user that exists whenever auth is enabled.
const ROOT: &str = "root";

/// Bytes of a name in log lines.
const MAX_SHOWN_BYTES: usize = 64;

pub(in crate::rpc) async fn authenticate(
    node: &Node,
    call: &Call,
    body: Bytes,
) -> Result<EncodedMessage, Failure> {
    let pb::AuthenticateRequest { name, password } = decode(body)?;
    let password = GivenPassword::from(password);
    if name.len() > MAX_NAME_BYTES {
        // No user has it.
        return Err(api::Error::AuthFailed.into());
    }
    node.linearize().await?;
    let outcome = until_unchanged(|| try_once(node, call, &name, password.clone())).await;
    match &outcome {
        // Clients of a cluster without auth that have a password ask for a token whenever they connect.
        Err(failure) if *failure != api::Error::AuthNotEnabled.into() => {
            let (user, error) = (shown(&name), &failure.message);
            tracing::warn!(user, %error, "invalid authentication was requested");
        }
        _ => {}
    }
    outcome
}

/// Checks again while users or roles change meanwhile, so many times.
async fn until_unchanged<T, F: Future<Output = Result<T, Failure>>>(
    check: impl Fn() -> F,
) -> Result<T, Failure> {
    let old = Failure::from(api::Error::AuthOldRevision);
    for _ in 1..MAX_CHECKS {
        match check().await {
            Err(failure) if failure == old => {}
            outcome => return outcome,
        }
    }
    check().await
}

/// The beginning of a name, for log lines.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_SHOWN_BYTES)]
}

async fn try_once(
    node: &Node,
    call: &Call,
    name: &str,
    password: GivenPassword,
) -> Result<EncodedMessage, Failure> {
    let checked_revision = node.reader.auth_revision();
    if !node.reader.is_auth_enabled() {
        return Err(api::Error::AuthNotEnabled.into());
    }
    let user = node.reader.auth_user(name);
    let root = node.reader.auth_user(ROOT).map(|root| root.password);
    let has_no_password = user.as_ref().is_some_and(|user| user.no_password);
    let hash = user.filter(|user| !user.no_password).map(|user| user.password);
    // Also for a user that cannot have a password, or does not exist: it takes as long.
    let is_right = node.passwords.verify(call.credentials.source(), password, hash, root).await?;
    if has_no_password {
        return Err(api::Error::NoPasswordUser.into());
    }
    if !is_right {
        return Err(api::Error::AuthFailed.into());
    }
    if let Some(jwt) = &node.jwt {
        return signed_token::issue(node, jwt, &call.times, name, checked_revision).await;
    }
    let (letters, hash) = tokens::draw().map_err(|_| Failure::from(api::Error::Stopped))?;
    check_token_size(node, name, &letters)?;
    let command = AuthCommand::Authenticate { name: name.to_owned(), checked_revision, token: Some(hash) };
    let (revision, index) = propose(node, &call.times, Caller::Anonymous, &command).await?;
    let (header, token) = (Some(node.header(revision)), tokens::token(&letters, index));
    Ok(EncodedMessage::message(&pb::AuthenticateResponse { header, token }))
}

#[cfg(test)]
mod tests {
    //! Names in log lines.
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(shown("ann"), "ann");
        assert_eq!(shown(&"\u{20ac}".repeat(10_000)), "\u{20ac}".repeat(21));
    }

    #[tokio::test]
    async fn a_password_is_checked_a_bounded_number_of_times() {
        let old = || Failure::from(api::Error::AuthOldRevision);
        for changes in [0, 9, 10, 100] {
            let checks = std::cell::Cell::new(0);
            let outcome = until_unchanged(async || {
                checks.set(checks.get() + 1);
                if checks.get() > changes { Ok(()) } else { Err(old()) }
            });
            assert_eq!(outcome.await, if changes < 10 { Ok(()) } else { Err(old()) });
            assert_eq!(checks.get(), 10.min(changes + 1));
        }
        let checks = std::cell::Cell::new(0);
        let wrong = until_unchanged(|| {
            checks.set(checks.get() + 1);
            std::future::ready(Err::<(), Failure>(api::Error::AuthFailed.into()))
        });
        assert_eq!(
            (wrong.await, checks.get()),
            (Err(api::Error::AuthFailed.into()), 1),
            "a wrong one is not tried again"
        );
    }
}
