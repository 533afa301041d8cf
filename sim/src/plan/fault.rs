//! What can go wrong, as data: a schedule of faults is drawn before the run, so that a failing run can be repeated with
//! a part of it. How each fault is carried out stands in `simulation/faults/strike.rs`.

use super::operation::MemberOperation;

/// The member that a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultTarget {
    /// This member.
    Member(usize),
    /// The member that leads at that moment.
    Leader,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimFault {
    /// The machine loses power after this many more changes of its disk.
    PowerLoss { target: FaultTarget, after_changes: u64, down_ns: u64 },
    /// All machines lose power at once.
    PowerLossAll { down_ns: u64 },
    /// The process is killed; the machine stays up.
    Kill { target: FaultTarget, down_ns: u64 },
    /// The process stops gracefully.
    Stop { target: FaultTarget, down_ns: u64 },
    /// The process does not run for a time.
    Pause { target: FaultTarget, for_ns: u64 },
    /// A connection breaks and is dialled again at once.
    BreakLink { from: usize, to: usize },
    /// Frames do not get through in one direction.
    Cut { from: usize, to: usize, for_ns: u64 },
    /// Members of different groups cannot reach each other; bit `m` of `groups` is the group of member `m`.
    Partition { groups: u64, for_ns: u64 },
    /// A machine freezes and is cut off from all others when it resumes: a leader does not know yet that another one
    /// was elected.
    Isolate { target: FaultTarget, pause_ns: u64, for_ns: u64 },
    /// One of the two connections of a link breaks, and is dialled again at once.
    BreakStream { from: usize, to: usize },
    /// Frames of one of the two connections of a link are held up.
    HoldUpStream { from: usize, to: usize, for_ns: u64 },
    /// A link becomes slow.
    SlowLink { from: usize, to: usize, by_ns: u64, for_ns: u64 },
    /// A sync fails.
    SyncFails { target: FaultTarget, after: u64 },
    /// A write fails.
    WriteFails { target: FaultTarget, after: u64 },
    /// A read fails.
    ReadFails { target: FaultTarget, after: u64 },
    /// The disk is full.
    DiskFull { target: FaultTarget, for_ns: u64 },
    /// Syncs take seconds.
    SyncStalls { target: FaultTarget, for_ns: u64 },
    /// Bits flip in files of a victim.
    BitFlip { victim: usize, addresses: u64 },
    /// The wall clock is set.
    WallJump { target: FaultTarget, by_ms: i64 },
    /// A victim loses its data directory and starts again.
    Wipe { victim: usize },
    /// A bit flips at the end of a victim's log, in bytes that are synced but not yet covered by a `synced` mark: its
    /// copy may be lost.
    TailFlip { victim: usize },
    /// An operator transfers leadership.
    MoveLeader { to: usize },
    /// An operator defragments a member.
    Defragment { target: FaultTarget },
}

impl SimFault {
    /// Its row in the table.
    pub(crate) fn name(&self) -> &'static str {
        NAMES[self.number()]
    }

    fn number(&self) -> usize {
        match self {
            SimFault::PowerLoss { .. } => 0,
            SimFault::PowerLossAll { .. } => 1,
            SimFault::Kill { .. } => 2,
            SimFault::Stop { .. } => 3,
            SimFault::Pause { .. } => 4,
            SimFault::BreakLink { .. } => 5,
            SimFault::Cut { .. } => 6,
            SimFault::Partition { .. } => 7,
            SimFault::SlowLink { .. } => 8,
            SimFault::SyncFails { .. } => 9,
            SimFault::WriteFails { .. } => 10,
            SimFault::ReadFails { .. } => 11,
            SimFault::DiskFull { .. } => 12,
            SimFault::SyncStalls { .. } => 13,
            SimFault::BitFlip { .. } => 14,
            SimFault::WallJump { .. } => 15,
            SimFault::Wipe { .. } => 16,
            SimFault::MoveLeader { .. } => 17,
            SimFault::Defragment { .. } => 18,
            SimFault::Isolate { .. } => 19,
            SimFault::TailFlip { .. } => 20,
            SimFault::BreakStream { .. } => 21,
            SimFault::HoldUpStream { .. } => 22,
        }
    }
}

/// The names of all faults.
pub(crate) const NAMES: [&str; 23] = [
    "power loss",
    "power loss of all",
    "kill",
    "graceful stop",
    "pause",
    "broken link",
    "cut",
    "partition",
    "slow link",
    "sync fails",
    "write fails",
    "read fails",
    "disk full",
    "sync stalls",
    "bit flip",
    "wall clock jump",
    "wipe",
    "leader transfer",
    "defragment",
    "isolation",
    "tail flip",
    "broken stream",
    "held-up stream",
];

/// Numbers of faults that plans refer to: positions in [`NAMES`].
pub(super) const KILL: usize = 2;
/// See [`KILL`].
pub(super) const WIPE: usize = 16;
/// See [`KILL`].
pub(super) const MOVE_LEADER: usize = 17;
/// See [`KILL`].
pub(super) const DEFRAGMENT: usize = 18;
/// See [`KILL`].
pub(super) const TAIL_FLIP: usize = 20;

/// A fault and when it strikes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedFault {
    /// When it strikes, or begins to wait.
    pub(crate) at_ns: u64,
    /// The fault.
    pub(crate) fault: SimFault,
    /// The operation that it waits for, for a limited time.
    pub(crate) during: Option<MemberOperation>,
}
