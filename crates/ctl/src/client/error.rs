//! Why a call failed, with the texts of etcd's client.

use std::fmt;

use api::Code;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The deadline passed.
    Deadline,
    /// The deadline passed, and no endpoint could be reached: why not.
    Unreachable(String),
    /// The server answered with an error, or the connection was lost while it had the request.
    Status {
        /// The gRPC code.
        code: i32,
        /// The server's text.
        message: String,
    },
}

impl CallError {
    /// An error with the number of a gRPC code.
    pub fn status(code: i32, message: String) -> Self {
        Self::Status { code, message }
    }

    /// A connection that could not be made.
    pub(super) fn from_io(error: std::io::Error) -> Self {
        Self::status(Code::Unavailable.number(), error.to_string())
    }

    /// A connection that was lost.
    pub(super) fn from_h2(error: h2::Error) -> Self {
        Self::status(Code::Unavailable.number(), format!("error reading from server: {error}"))
    }

    /// What went wrong, without the name of its code.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Status { message, .. } | Self::Unreachable(message) => message.clone(),
            Self::Deadline => self.to_string(),
        }
    }

    /// Whether the error is the server's, with exactly this text.
    pub fn says(&self, text: &str) -> bool {
        matches!(self, Self::Status { message, .. } if message == text)
    }

    /// Whether the error is the server's, with this code.
    pub(crate) fn is_code(&self, wanted: Code) -> bool {
        matches!(self, Self::Status { code, .. } if *code == wanted.number())
    }

    /// Whether another endpoint, or a later time, may do better.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.is_code(Code::Unavailable)
    }

    /// Whether a stream that ended so is worth no other attempt.
    pub(crate) fn is_final(&self) -> bool {
        !self.is_unavailable() && !self.is_code(Code::Internal)
    }

    /// Whether an answer had more bytes than the client accepts.
    pub(crate) fn is_too_large(&self) -> bool {
        self.is_code(Code::ResourceExhausted)
            && matches!(self, Self::Status { message, .. } if message.starts_with("grpc: received message larger"))
    }

    /// Whether the same call may succeed later, whatever is done: members change, connections are lost.
    pub(crate) fn is_passing(&self) -> bool {
        !matches!(self, Self::Status { .. }) || !self.is_final() || self.says("etcdserver: too many requests")
    }

    /// Whether the server has users, and did not when the client asked for a token.
    pub(super) fn wants_user(&self) -> bool {
        self.says("etcdserver: user name is empty")
    }

    /// Whether a revision that was asked for is gone.
    pub(crate) fn is_compacted(&self) -> bool {
        self.says("etcdserver: mvcc: required revision has been compacted")
    }

    pub(super) fn is_old_token(&self) -> bool {
        self.says("etcdserver: invalid auth token")
            || self.says("etcdserver: user name is empty")
            || self.is_old_auth_revision()
    }

    pub(super) fn is_old_auth_revision(&self) -> bool {
        self.says("etcdserver: revision of auth store is old")
    }

    pub(super) fn is_learner(&self) -> bool {
        self.says("etcdserver: rpc not supported for learner")
    }

    pub(super) fn is_auth_not_enabled(&self) -> bool {
        self.says("etcdserver: authentication is not enabled")
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline | Self::Unreachable(_) => out.write_str("context deadline exceeded"),
            // etcd's client knows these texts and shows them alone.
            Self::Status { message, .. } if message.starts_with("etcdserver: ") => out.write_str(message),
            Self::Status { code, message } => {
                write!(out, "rpc error: code = {} desc = {message}", code_name(*code))
            }
        }
    }
}

impl std::error::Error for CallError {}

/// The name of a gRPC code.
fn code_name(code: i32) -> String {
    let other = match code {
        6 => "AlreadyExists",
        10 => "Aborted",
        _ => "",
    };
    match Code::from_number(code) {
        Some(code) => format!("{code:?}"),
        None if other.is_empty() => format!("Code({code})"),
        None => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_table_stand_alone_and_others_with_their_code() {
        let known =
            CallError::status(11, "etcdserver: mvcc: required revision has been compacted".to_owned());
        assert_eq!(known.to_string(), "etcdserver: mvcc: required revision has been compacted");
        let other = CallError::status(12, "no such method".to_owned());
        assert_eq!(other.to_string(), "rpc error: code = Unimplemented desc = no such method");
        assert_eq!(CallError::Deadline.to_string(), "context deadline exceeded");
    }
}
