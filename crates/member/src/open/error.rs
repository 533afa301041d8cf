//! Why a member does not start, and what to do.

use log::Identity;

/// The data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenMemberError {
    /// The log says why.
    #[error(transparent)]
    Log(#[from] log::OpenError),
    /// A first checkpoint could not be written.
    #[error("the first checkpoint could not be written: {0}")]
    Create(#[from] log::JobError),
    /// The directory was begun with other flags, and holds nothing yet.
    #[error(
        "the data directory was initialized for member {:x} of cluster {:x}, but startup did not complete; these \
             flags name member {member_id:x} of cluster {cluster_id:x}: use the original flags, or delete its contents",
        found.member_id,
        found.cluster_id
    )]
    OtherFlags {
        /// Whose directory it is.
        found: Identity,
        /// The cluster that the flags name.
        cluster_id: u64,
        /// The member that they name.
        member_id: u64,
    },
    /// The checkpoint's content is not what this release writes.
    #[error(
        "the checkpoint cannot be loaded: {0}; restore the data directory from a copy, or remove this member and \
             add it again with an empty one"
    )]
    Checkpoint(String),
    /// A state that comes from elsewhere is not one that a store has.
    #[error("the state cannot be restored: {0}")]
    State(#[from] store::RestoreError),
    /// An entry that must be replayed cannot be read.
    #[error(
        "the log cannot be replayed: {reason}; restore the data directory from a copy, or remove this member and \
             add it again with an empty one"
    )]
    Read {
        /// What was found, and where.
        reason: String,
    },
    /// An entry that must be replayed cannot be applied.
    #[error("entry {index} cannot be replayed: {reason}")]
    Replay {
        /// Its index.
        index: u64,
        /// Why.
        reason: String,
    },
    /// The member was removed from its cluster.
    #[error(
        "member {member_id:x} has been permanently removed from the cluster, and its id is never used again; to run \
             it again, add a member and start it with an empty data directory"
    )]
    Removed {
        /// Its id.
        member_id: u64,
    },
    /// `--force-new-cluster` without data.
    #[error("there is no data to force a new cluster from; start without --force-new-cluster")]
    NothingToForce,
    /// Files that do not fit together.
    #[error("the data directory is inconsistent: {0}")]
    Consensus(#[from] consensus::StartError),
}
