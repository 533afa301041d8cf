//! Deliberate defects. Each stands for a mistake that could be made in the product, and the simulator must notice every
//! one of them: this shows that the checks can fail.
//!
//! A defect is no code of the product. It changes what passes between its parts: writes to the disk (`world/disk.rs`),
//! frames to peers (`simulation/members/links.rs`), answers to clients (`simulation/clients`), files before a restart
//! (`simulation/members/lifecycle.rs`). The files here read and change the formats that this takes.

pub(crate) mod checkpoints;
pub(crate) mod frames;
pub(crate) mod ranges;
pub(crate) mod records;

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Defect {
    /// Writes are reported as durable one sync too early.
    ReplyBeforeSync,
    /// One member never syncs its log.
    SyncSkipped,
    /// Directories are never synced, so names of files are not durable.
    DirectoryNotSynced,
    /// A leader completes ReadIndex rounds without a quorum.
    ReadIndexWithoutQuorum,
    /// Linearizable reads are answered from the local state without a ReadIndex round.
    ReadWithoutIndex,
    /// Hard states are written without their vote.
    VoteNotPersisted,
    /// The first record of a segment lacks the vote, which is lost when older segments are recycled.
    HardStateRecycled,
    /// A torn record at the end of the log is accepted.
    TornTailAccepted,
    /// Checksums of the log are not checked.
    ChecksumNotChecked,
    /// A restart replays one entry too few: the checkpoint lacks the last batch of its index.
    CheckpointMissesBatch,
    /// A watch that catches up skips an event.
    WatchSkipsEvent,
    /// A new leader's lease clock does not start again: leases that it takes over expire early.
    LeaseClockReset,
    /// Lease clocks run at less than half of the correct speed.
    LeaseClockSlow,
    /// Forwarded commands are sent again after a reconnect.
    ForwardedTwice,
    /// A member that lost its directory takes part as before.
    WipedMemberVotes,
    /// A member without data begins by the word of one other.
    OneAnswerSuffices,
    /// An append is changed on its way, and its checksum is not checked.
    FrameNotChecked,
    /// Serializable reads of one client are answered by different members.
    ReadsHopMembers,
    /// A follower accepts entries when they arrive, before they are on its disk.
    AcceptedOnArrival,
    /// Relocation leaves out versions that are still referenced.
    RelocationDropsVersion,
    /// Checkpoints lack the small state: members, alarms, leases.
    CheckpointWithoutSmallState,
    /// A record that a recycled segment held before is accepted as one of the new segment.
    StaleRecordAccepted,
    /// A candidate becomes leader without waiting for votes.
    VotesNotAwaited,
    /// A running member goes back to the state on its disk.
    StateFallsBack,
    /// Appends are sent many times, whatever is in flight.
    AppendsRepeated,
    /// A link that was lost is not dialled again.
    LinkNotRedialled,
    /// A member always asks for its next step at once.
    MemberSpins,
    /// Some requests are answered twice.
    AnsweredTwice,
    /// A range leaves out values that it cannot read.
    RangeSkipsDamaged,
    /// The value cache finds values by key, and returns old ones.
    CacheServesOther,
    /// Requests for the copy of a damaged value are not answered.
    RepairUnanswered,
    /// A read is checked by the first key of its range alone.
    RangeCheckedByFirstKey,
    /// A read is answered without a second look at the auth revision.
    ReadNotRechecked,
    /// Watches are checked when they begin, and never again.
    WatchNotRechecked,
    /// What is nested in a transaction is not checked.
    NestedTxnUnchecked,
    /// Each response of a streamed range is of the newest revision.
    StreamUnpinned,
    /// A streamed range is checked when it begins, and never again.
    StreamNotRechecked,
    /// Leases are listed whatever keys they have.
    LeasesListedUnchecked,
    /// A list of leases leaves one out.
    LeaseListSkips,
    /// A token is refused where its entry is not applied yet.
    TokenNotAwaited,
    /// A member remembers whose token it was after the token has ended.
    TokenOutlivesUser,
    /// A token that was not used for longer than its TTL is good.
    TokenNeverExpires,
    /// A revision is shown before its last slice is applied.
    RevisionShownEarly,
    /// A count includes changes that are in progress.
    CountIncludesUnfinished,
    /// A merge of checkpoints loses the keys of those that it merges.
    MergeLosesKeys,
    /// What is committed is applied in one step, however much it is.
    ApplyUnsliced,
    /// Commands wait, and are proposed together, whatever the limits say.
    QueuesUnlimited,
    /// A hash leaves out the newest revision.
    HashMissesNewest,
    /// A member moves to another URL than was asked for.
    MovedElsewhere,
    /// A learner is added as a voter.
    LearnerAddedAsVoter,
    /// Renewals of a stream are answered as their answers come.
    RenewalsUnordered,
    /// However many renewals of a stream wait, it takes more.
    RenewalsUnlimited,
    /// Requests of a watch stream wait until it has no events to send.
    WatchRequestsWait,
    /// A watch stream takes all requests that have arrived before it sends events.
    WatchRequestsUnlimited,
}

/// One seed in this many has users and roles that change, and the first of them.
const PERMISSION_SEEDS: (u64, usize) = (13, 20);

/// In one seed in this many a directory is lost beside a member that lags, and the first of them.
const LAGGING_SEEDS: (u64, usize) = (4, 40);

/// One seed in this many has thousands of keys, and the first of them.
const MANY_KEYS_SEEDS: (u64, usize) = (7, 16);

/// One seed in this many changes the membership, and the first of them; there are others.
const MEMBERSHIP_SEEDS: (u64, usize) = (11, 20);

/// One seed in this many has many requests at once on a stream, and the first of them; there are others.
const PIPELINING_SEEDS: (u64, usize) = (5, 10);

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 54] = [
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
        Defect::OneAnswerSuffices,
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
        Defect::MemberSpins,
        Defect::AnsweredTwice,
        Defect::RangeSkipsDamaged,
        Defect::CacheServesOther,
        Defect::RepairUnanswered,
        Defect::RangeCheckedByFirstKey,
        Defect::ReadNotRechecked,
        Defect::WatchNotRechecked,
        Defect::NestedTxnUnchecked,
        Defect::StreamUnpinned,
        Defect::StreamNotRechecked,
        Defect::LeasesListedUnchecked,
        Defect::LeaseListSkips,
        Defect::TokenNotAwaited,
        Defect::TokenOutlivesUser,
        Defect::TokenNeverExpires,
        Defect::RevisionShownEarly,
        Defect::CountIncludesUnfinished,
        Defect::MergeLosesKeys,
        Defect::ApplyUnsliced,
        Defect::QueuesUnlimited,
        Defect::HashMissesNewest,
        Defect::MovedElsewhere,
        Defect::LearnerAddedAsVoter,
        Defect::RenewalsUnordered,
        Defect::RenewalsUnlimited,
        Defect::WatchRequestsWait,
        Defect::WatchRequestsUnlimited,
    ];

    /// The seeds in which it can be noticed, in order.
    pub(crate) fn seeds(self) -> impl Iterator<Item = u64> {
        let (first, step) = match self {
            Defect::RangeCheckedByFirstKey
            | Defect::ReadNotRechecked
            | Defect::WatchNotRechecked
            | Defect::NestedTxnUnchecked
            | Defect::StreamNotRechecked
            | Defect::LeasesListedUnchecked
            | Defect::LeaseListSkips
            | Defect::TokenNotAwaited
            | Defect::TokenOutlivesUser
            | Defect::TokenNeverExpires => PERMISSION_SEEDS,
            Defect::OneAnswerSuffices => LAGGING_SEEDS,
            Defect::ApplyUnsliced | Defect::QueuesUnlimited | Defect::HashMissesNewest => MANY_KEYS_SEEDS,
            Defect::MovedElsewhere | Defect::LearnerAddedAsVoter => MEMBERSHIP_SEEDS,
            Defect::RenewalsUnordered
            | Defect::RenewalsUnlimited
            | Defect::WatchRequestsWait
            | Defect::WatchRequestsUnlimited => PIPELINING_SEEDS,
            _ => (1, 1),
        };
        (first..).step_by(step)
    }
}
