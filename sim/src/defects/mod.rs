//! Deliberate defects. Each stands for a mistake that could be made in the product; the simulator must
//! notice every one of
//! them. None is code of the product: the product's parts are wrapped, on their way to the disk, to the
//! peers and to the
//! clients, or at a restart.

pub(crate) mod checkpoints;
pub(crate) mod frames;
pub(crate) mod lists;
pub(crate) mod records;

/// A mistake, made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Defect {
    /// Writes count as durable one sync too early.
    ReplyBeforeSync,
    /// One member never syncs its log.
    SyncSkipped,
    /// Names of files are never made durable.
    DirectoryNotSynced,
    /// A leader answers its confirm rounds itself.
    ReadIndexWithoutQuorum,
    /// Linearizable reads are served from the local state at once.
    ReadWithoutIndex,
    /// The vote in a hard state is forgotten.
    VoteNotPersisted,
    /// The hard state at the head of a segment is empty: what was voted is recycled away with older segments.
    HardStateRecycled,
    /// A torn record at the end of the log is taken for whole.
    TornTailAccepted,
    /// Damage in the log is not noticed.
    ChecksumNotChecked,
    /// A restart replays the log from one entry too far: the checkpoint lacked the last batch it names.
    CheckpointMissesBatch,
    /// A watch that catches up skips an event.
    WatchSkipsEvent,
    /// A new leader's lease clock does not begin anew.
    LeaseClockReset,
    /// The clocks that leases live by run at less than half their speed.
    LeaseClockSlow,
    /// A forwarded command is sent again when the link to the leader comes back.
    ForwardedTwice,
    /// A member that lost its directory takes part as if it remembered.
    WipedMemberVotes,
    /// An append is altered on its way and nobody checks.
    FrameNotChecked,
    /// Serializable reads go to whichever member is nearest.
    ReadsHopMembers,
    /// A follower accepts entries when they arrive, not when they are on its disk.
    AcceptedOnArrival,
    /// What is relocated leaves out versions that are still referenced.
    RelocationDropsVersion,
    /// Checkpoints lack the small state: members, alarms, leases.
    CheckpointWithoutSmallState,
    /// A record that a recycled segment held before is taken for one of the new segment.
    StaleRecordAccepted,
    /// A candidate leads without waiting for votes.
    VotesNotAwaited,
    /// A member falls back to what its disk holds while it runs.
    StateFallsBack,
    /// Appends are sent again and again, whatever is in flight.
    AppendsRepeated,
    /// A link that broke is not dialled again.
    LinkNotRedialled,
    /// A member always wants to be woken at once.
    MemberNeverRests,
    /// Now and then a request is answered twice.
    AnsweredTwice,
    /// A list leaves out what it cannot read.
    ListSkipsDamaged,
    /// Values kept in memory are found by their keys, whatever was written since.
    CacheServesOther,
    /// Who asks for a value that is damaged here gets no answer.
    RepairUnanswered,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 30] = [
        Defect::ReplyBeforeSync,
        Defect::SyncSkipped,
        Defect::DirectoryNotSynced,
        Defect::ReadIndexWithoutQuorum,
        Defect::ReadWithoutIndex,
        Defect::VoteNotPersisted,
        Defect::HardStateRecycled,
        Defect::TornTailAccepted,
        Defect::ChecksumNotChecked,
        Defect::CheckpointMissesBatch,
        Defect::WatchSkipsEvent,
        Defect::LeaseClockReset,
        Defect::LeaseClockSlow,
        Defect::ForwardedTwice,
        Defect::WipedMemberVotes,
        Defect::FrameNotChecked,
        Defect::ReadsHopMembers,
        Defect::AcceptedOnArrival,
        Defect::RelocationDropsVersion,
        Defect::CheckpointWithoutSmallState,
        Defect::StaleRecordAccepted,
        Defect::VotesNotAwaited,
        Defect::StateFallsBack,
        Defect::AppendsRepeated,
        Defect::LinkNotRedialled,
        Defect::MemberNeverRests,
        Defect::AnsweredTwice,
        Defect::ListSkipsDamaged,
        Defect::CacheServesOther,
        Defect::RepairUnanswered,
    ];
}
