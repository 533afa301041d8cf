//! Why a checkpoint cannot be restored.

/// The oldest format that is read, and written as long as the state has nothing that it lacks.
pub(super) const OLDEST_FORMAT: u16 = 2;
/// The first format with the command set.
pub(super) const WITH_COMMAND_SET: u16 = 3;
/// The first format with users and roles.
pub(super) const WITH_AUTH: u16 = 4;
/// The first format with a downgrade.
pub(super) const WITH_DOWNGRADE: u16 = 5;
/// The first format with a lineage. A cluster that was never forced does not need it.
pub(super) const WITH_LINEAGE: u16 = 6;
/// The newest format.
pub(super) const NEWEST_FORMAT: u16 = WITH_LINEAGE;

/// A checkpoint cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A checksum does not match.
    #[error("the checkpoint is damaged: a checksum does not match")]
    Damaged,
    /// The end is missing.
    #[error("the checkpoint is cut off")]
    Truncated,
    /// Another format version than this one.
    #[error("the checkpoint has format version {found}, this Stele reads {OLDEST_FORMAT} to {NEWEST_FORMAT}")]
    Version {
        /// The version found.
        found: u16,
    },
    /// A delta that does not follow the checkpoint before it, or a second base.
    #[error("a delta follows entry {follows}, but what is before it ends with entry {after}")]
    OutOfOrder {
        /// The entry that the delta follows.
        follows: u64,
        /// The entry restored so far, 0 for none.
        after: u64,
    },
    /// The checksums match, but the content is inconsistent.
    #[error("the checkpoint is malformed: {0}")]
    Malformed(&'static str),
    /// The restored state is not the one that was written.
    #[error("the restored state has hash {found:#x}, the checkpoint says {expected:#x}")]
    HashMismatch {
        /// Hash of the restored state.
        found: u64,
        /// Hash in the header.
        expected: u64,
    },
}
