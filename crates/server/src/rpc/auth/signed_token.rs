//! What `Authenticate` does once the password was right, if tokens are signed.

use std::sync::Arc;

use api::etcdserverpb as pb;
use store::{AuthCommand, Caller};

use super::{check_token_size, propose};
use crate::auth::{IssueError, JwtTokens};
use crate::call_times::CallTimes;
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

/// Issues a token at the auth revision at which the password was checked. The entry only finds out whether that is
/// still the newest; no token, nor its hash, is in the log.
///
/// # Errors
/// There is no key to sign with; users or roles changed meanwhile; the log cannot be written.
pub(super) async fn issue(
    node: &Node,
    jwt: &Arc<JwtTokens>,
    times: &CallTimes,
    name: &str,
    checked_revision: u64,
) -> Result<EncodedMessage, Failure> {
    if !jwt.can_issue() {
        return Err(IssueError::VerifyOnly.into());
    }
    check_token_size(node, name, "")?;
    let command = AuthCommand::Authenticate { name: name.to_owned(), checked_revision, token: None };
    let (revision, _) = propose(node, times, Caller::Anonymous, &command).await?;
    // To sign with RSA takes milliseconds.
    let (jwt, name) = (jwt.clone(), name.to_owned());
    let issued = tokio::task::spawn_blocking(move || jwt.issue(&name, checked_revision)).await;
    let token = issued.map_err(|_| Failure::from(api::Error::Stopped))??;
    let header = Some(node.header(revision));
    Ok(EncodedMessage::message(&pb::AuthenticateResponse { header, token }))
}

impl From<IssueError> for Failure {
    fn from(error: IssueError) -> Failure {
        Failure::new(api::Code::Unknown, error.to_string())
    }
}
