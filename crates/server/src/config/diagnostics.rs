//! What the configuration reports: errors, which end the process, and notes for the log.

/// What is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UsageError {
    pub(super) message: String,
    /// Exit code of the process, as etcd's: 2 for a malformed command line, 1 for a bad value.
    pub exit_code: u8,
}

impl UsageError {
    pub(super) fn usage(message: String) -> UsageError {
        UsageError { message, exit_code: 2 }
    }

    pub(super) fn config(message: String) -> UsageError {
        UsageError { message, exit_code: 1 }
    }
}

/// A message for the operator, logged once logging is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether it is logged as a warning.
    pub warning: bool,
    /// What happened.
    pub message: &'static str,
    /// Details, by name.
    pub fields: Vec<(&'static str, String)>,
}

impl Note {
    fn new<const N: usize>(warning: bool, message: &'static str, fields: [(&'static str, &str); N]) -> Note {
        let fields = fields.map(|(name, value)| (name, value.to_owned())).to_vec();
        Note { warning, message, fields }
    }

    pub(super) fn warning<const N: usize>(message: &'static str, fields: [(&'static str, &str); N]) -> Note {
        Note::new(true, message, fields)
    }

    pub(super) fn info<const N: usize>(message: &'static str, fields: [(&'static str, &str); N]) -> Note {
        Note::new(false, message, fields)
    }
}
