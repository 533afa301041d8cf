//! What can go wrong, and when it does.
//!
//! A schedule is drawn before the run, as data: so a failing run can be repeated with a part of it.

mod aim;
mod draw;
mod flip;
mod strike;

pub(crate) use draw::{draw_long_schedule, draw_schedule};

use crate::coverage::Operation;

/// Whom a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// This member.
    Member(usize),
    /// Whoever leads then.
    Leader,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Power is lost after so many more changes of the disk.
    PowerLoss { target: Target, after_changes: u64, down_ns: u64 },
    /// Power is lost everywhere at once.
    PowerLossAll { down_ns: u64 },
    /// The process is killed; the machine stays up.
    Kill { target: Target, down_ns: u64 },
    /// The process stops in good order.
    Stop { target: Target, down_ns: u64 },
    /// The process does not run for a while.
    Pause { target: Target, for_ns: u64 },
    /// A connection breaks; it is dialled again at once.
    BreakLink { from: usize, to: usize },
    /// Nothing gets through in one direction.
    Cut { from: usize, to: usize, for_ns: u64 },
    /// Members in different groups do not hear each other; the bits are a member's group.
    Partition { groups: u64, for_ns: u64 },
    /// A machine freezes and, when it goes on, is cut off from all others: a leader does not know yet that
    /// it is none.
    Isolate { target: Target, pause_ns: u64, for_ns: u64 },
    /// A link becomes slow.
    SlowLink { from: usize, to: usize, by_ns: u64, for_ns: u64 },
    /// A sync fails.
    SyncFails { target: Target, after: u64 },
    /// A write fails.
    WriteFails { target: Target, after: u64 },
    /// A read fails.
    ReadFails { target: Target, after: u64 },
    /// The disk is full.
    DiskFull { target: Target, for_ns: u64 },
    /// Syncs take seconds.
    SyncStalls { target: Target, for_ns: u64 },
    /// A bit flips in what a victim has on its disk.
    BitFlip { victim: usize, addresses: u64 },
    /// Somebody sets the time of day.
    WallJump { target: Target, by_ms: i64 },
    /// A victim loses its directory and starts again.
    Wipe { victim: usize },
    /// A bit flips at the end of a victim's log, in what is synced but not yet known to be: its copy may be lost.
    TailFlip { victim: usize },
    /// An operator moves the leadership.
    MoveLeader { to: usize },
    /// An operator gives back space.
    Defragment { target: Target },
}

impl Fault {
    /// The name in tables.
    pub(crate) fn name(&self) -> &'static str {
        NAMES[self.number()]
    }

    fn number(&self) -> usize {
        match self {
            Fault::PowerLoss { .. } => 0,
            Fault::PowerLossAll { .. } => 1,
            Fault::Kill { .. } => 2,
            Fault::Stop { .. } => 3,
            Fault::Pause { .. } => 4,
            Fault::BreakLink { .. } => 5,
            Fault::Cut { .. } => 6,
            Fault::Partition { .. } => 7,
            Fault::SlowLink { .. } => 8,
            Fault::SyncFails { .. } => 9,
            Fault::WriteFails { .. } => 10,
            Fault::ReadFails { .. } => 11,
            Fault::DiskFull { .. } => 12,
            Fault::SyncStalls { .. } => 13,
            Fault::BitFlip { .. } => 14,
            Fault::WallJump { .. } => 15,
            Fault::Wipe { .. } => 16,
            Fault::MoveLeader { .. } => 17,
            Fault::Defragment { .. } => 18,
            Fault::Isolate { .. } => 19,
            Fault::TailFlip { .. } => 20,
        }
    }
}

/// The names of all faults.
pub(crate) const NAMES: [&str; 21] = [
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
];

/// Numbers of faults that others refer to, in the order of [`NAMES`].
pub(crate) const KILL: usize = 2;
const WIPE: usize = 16;
/// See [`KILL`].
pub(crate) const MOVE_LEADER: usize = 17;
/// See [`KILL`].
pub(crate) const DEFRAGMENT: usize = 18;

/// A fault and its moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    /// When.
    pub(crate) at_ns: u64,
    /// What.
    pub(crate) fault: Fault,
    /// What it waits for, from its moment on, for a while.
    pub(crate) during: Option<Operation>,
}
