//! How a command ends: exit codes and messages.

pub(crate) use cli::code;

use crate::client::CallError;

/// Why a command stops before its end.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) code: u8,
    /// Printed after `Error: `, unless all has been said.
    pub(crate) message: Option<String>,
    /// The client's error behind it, from which a hint for people is made.
    pub(crate) cause: Option<CallError>,
}

impl Exit {
    /// An end with a message.
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()), cause: None }
    }

    /// Wrong arguments.
    pub(crate) fn bad_args(message: impl Into<String>) -> Self {
        Self::new(code::BAD_ARGS, message)
    }

    /// An end whose reason has been printed.
    pub(crate) fn silent(code: u8) -> Self {
        Self { code, message: None, cause: None }
    }

    /// A failed call with another exit code than usual.
    pub(crate) fn call(code: u8, error: CallError) -> Self {
        Self { code, message: Some(error.to_string()), cause: Some(error) }
    }
}

impl From<CallError> for Exit {
    fn from(error: CallError) -> Self {
        Self::call(code::ERROR, error)
    }
}

impl From<std::io::Error> for Exit {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            // The reader of our output has what it wanted (`| head`).
            std::io::ErrorKind::BrokenPipe => Self::silent(code::ERROR),
            _ => Self::new(code::ERROR, error.to_string()),
        }
    }
}

/// The end of a command.
pub(crate) type Outcome = Result<(), Exit>;
