//! Why an archive cannot be used.

/// Why an archive cannot be read or written, on one line.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The address of the archive, the key, or a setting is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The store failed, or cannot be reached.
    #[error("cannot {action} {name}: {}", short(.source))]
    Store {
        /// What was tried.
        action: &'static str,
        /// The object.
        name: String,
        /// The store's answer.
        source: object_store::Error,
    },
    /// An object is not what was written.
    #[error("{name} is damaged: {reason}")]
    Damaged {
        /// The object.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The archive is another cluster's, or has another key.
    #[error("{0}")]
    Foreign(String),
    /// An object of that name exists: another process writes the same archive.
    #[error("{0} exists already")]
    Exists(String),
}

impl ArchiveError {
    pub(crate) fn damaged(name: &str, reason: impl Into<String>) -> ArchiveError {
        ArchiveError::Damaged { name: name.to_owned(), reason: reason.into() }
    }

    pub(crate) fn store<'a>(
        action: &'static str,
        name: &'a str,
    ) -> impl FnOnce(object_store::Error) -> ArchiveError + 'a {
        move |source| match source {
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. } => {
                ArchiveError::Exists(name.to_owned())
            }
            source => ArchiveError::Store { action, name: name.to_owned(), source },
        }
    }

    /// Whether the same may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, ArchiveError::Store { .. })
    }

    /// Whether the store rejects the credentials. They may be renewed while a copy runs, so a retry may succeed.
    pub(crate) fn is_denied(&self) -> bool {
        let ArchiveError::Store { source, .. } = self else { return false };
        matches!(
            source,
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }
        )
    }
}

/// An error of the store with its last cause, on one line.
fn short(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
