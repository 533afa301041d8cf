//! A status that is not OK: a gRPC code and a text.

use std::borrow::Cow;

use api::Code;

/// A refused or failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The gRPC status code.
    pub(crate) code: Code,
    /// The text; for errors of the published table, exactly the table's.
    pub(crate) message: Cow<'static, str>,
}

impl Failure {
    /// A failure outside the published table.
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Failure {
        Failure { code, message: message.into() }
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
        Failure { code: error.code(), message: Cow::Borrowed(error.message()) }
    }
}
