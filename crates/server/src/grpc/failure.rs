//! A status that is not OK: a gRPC code and a text.

use std::borrow::Cow;
use std::time::Duration;

use api::Code;

use crate::overload::retry_after;

/// After which a client that was refused should try again if nothing better is known.
const USUAL_WAIT: Duration = Duration::from_secs(1);

/// A refused or failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The gRPC status code.
    pub(crate) code: Code,
    /// The text; for errors of the published table, exactly the table's.
    pub(crate) message: Cow<'static, str>,
    /// When the client may try again, if it was refused because there was too much to do.
    pub(crate) retry_after: Option<Duration>,
    /// Nothing was done for the request, because this member stops or was removed: another one can serve it.
    pub(crate) is_not_taken: bool,
}

impl Failure {
    /// A failure outside the published table.
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Failure {
        Failure { code, message: message.into(), retry_after: None, is_not_taken: false }
    }

    /// `too many requests`, from a caller that may be admitted after `wait`.
    pub(crate) fn too_many_requests(wait: Duration) -> Failure {
        let error = api::Error::TooManyRequests;
        Failure { retry_after: Some(retry_after(wait)), ..Failure::new(error.code(), error.message()) }
    }

    /// An answer of another kind than the request: a bug of the server, which the client gets as an error, not a panic.
    pub(crate) fn unexpected() -> Failure {
        Failure::new(Code::Unknown, "the member answered with something that was not asked")
    }

    /// A request whose bytes are not the message the method takes; code and first words are those of grpc-go.
    pub(crate) fn undecodable(error: &prost::DecodeError) -> Failure {
        Failure::new(Code::Internal, format!("grpc: error unmarshalling request: {error}"))
    }

    /// The same in a call in which either side streams, for which grpc-go has other words.
    pub(crate) fn undecodable_in_stream(error: &prost::DecodeError) -> Failure {
        Failure::new(Code::Internal, format!("grpc: failed to unmarshal the received message: {error}"))
    }
}

impl From<api::Error> for Failure {
    fn from(error: api::Error) -> Failure {
        match error {
            api::Error::TooManyRequests => Failure::too_many_requests(USUAL_WAIT),
            api::Error::NotTaken => {
                Failure { is_not_taken: true, ..Failure::new(error.code(), error.message()) }
            }
            _ => Failure::new(error.code(), error.message()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Which failures have a hint.
    use super::*;

    #[test]
    fn a_client_learns_when_to_try_again_if_there_was_too_much_to_do() {
        let refused = Failure::from(api::Error::TooManyRequests);
        assert_eq!(
            (refused.code, &*refused.message),
            (Code::ResourceExhausted, "etcdserver: too many requests")
        );
        assert!(refused.retry_after.is_some_and(|after| after >= USUAL_WAIT));
        assert_eq!(Failure::from(api::Error::NoSpace).retry_after, None, "waiting frees no space");
        let later = Failure::too_many_requests(Duration::from_secs(3)).retry_after;
        assert!(later.is_some_and(|after| after >= Duration::from_secs(3)));
    }
}
