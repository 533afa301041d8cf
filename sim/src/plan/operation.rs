//! The operations that a fault can interrupt: one dimension of the table of faults and operations.

/// Something that was under way on a member when a fault struck it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemberOperation {
    /// A put or a deletion of a client.
    Put,
    /// A transaction.
    Txn,
    /// A linearizable range.
    Read,
    /// A linearizable range at an old revision.
    PastRead,
    /// A lease that is granted, renewed or revoked.
    Lease,
    /// An open watch.
    Watch,
    /// A write of the log that is not synced yet.
    LogWrite,
    /// Files of the log are being prepared or removed.
    LogFiles,
    /// A checkpoint is being written.
    Checkpoint,
    /// A snapshot is being sent or received.
    Snapshot,
    /// A compaction is requested, or compacted history is being purged.
    Compaction,
    /// Values are being copied out of a file that is to be freed.
    Relocation,
    /// Leadership is being transferred, from this member or to it.
    Transfer,
    /// The quota has been reached, and the alarm is still raised.
    Quota,
    /// The member knows no leader.
    Election,
}

impl MemberOperation {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [MemberOperation; 15] = [
        MemberOperation::Put,
        MemberOperation::Txn,
        MemberOperation::Read,
        MemberOperation::PastRead,
        MemberOperation::Lease,
        MemberOperation::Watch,
        MemberOperation::LogWrite,
        MemberOperation::LogFiles,
        MemberOperation::Checkpoint,
        MemberOperation::Snapshot,
        MemberOperation::Compaction,
        MemberOperation::Relocation,
        MemberOperation::Transfer,
        MemberOperation::Quota,
        MemberOperation::Election,
    ];

    /// Its column in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MemberOperation::Put => "put",
            MemberOperation::Txn => "txn",
            MemberOperation::Read => "read",
            MemberOperation::PastRead => "past read",
            MemberOperation::Lease => "lease",
            MemberOperation::Watch => "watch",
            MemberOperation::LogWrite => "log write",
            MemberOperation::LogFiles => "log files",
            MemberOperation::Checkpoint => "checkpoint",
            MemberOperation::Snapshot => "snapshot",
            MemberOperation::Compaction => "compaction",
            MemberOperation::Relocation => "relocation",
            MemberOperation::Transfer => "transfer",
            MemberOperation::Quota => "quota",
            MemberOperation::Election => "election",
        }
    }
}
