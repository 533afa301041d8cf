//! Which fault met which operation, how often. A pair that never happened has not been tested, so it is a failure of
//! the simulation.

use std::collections::BTreeMap;

/// Something that was under way on a member when a fault struck it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// A put, or a deletion, of a client.
    Put,
    /// A transaction.
    Txn,
    /// A linearizable range.
    Read,
    /// A range at an old revision.
    PastRead,
    /// A lease that is granted, renewed or revoked.
    Lease,
    /// An open watch.
    Watch,
    /// A write of the log that is not synced yet.
    LogWrite,
    /// Files of the log being prepared or removed.
    Upkeep,
    /// A checkpoint being written.
    Checkpoint,
    /// A snapshot on its way here or from here.
    Snapshot,
    /// A compaction that was asked for, or history being purged.
    Compaction,
    /// Values being copied out of a file that shall go.
    Relocation,
    /// The leadership being handed over, from here or to here.
    Transfer,
    /// The quota has been reached, and nobody has lifted the alarm yet.
    Quota,
    /// No leader is known.
    Election,
}

impl Operation {
    /// All of them.
    pub(crate) const ALL: [Operation; 15] = [
        Operation::Put,
        Operation::Txn,
        Operation::Read,
        Operation::PastRead,
        Operation::Lease,
        Operation::Watch,
        Operation::LogWrite,
        Operation::Upkeep,
        Operation::Checkpoint,
        Operation::Snapshot,
        Operation::Compaction,
        Operation::Relocation,
        Operation::Transfer,
        Operation::Quota,
        Operation::Election,
    ];

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Put => "put",
            Operation::Txn => "txn",
            Operation::Read => "read",
            Operation::PastRead => "past read",
            Operation::Lease => "lease",
            Operation::Watch => "watch",
            Operation::LogWrite => "log write",
            Operation::Upkeep => "upkeep",
            Operation::Checkpoint => "checkpoint",
            Operation::Snapshot => "snapshot",
            Operation::Compaction => "compaction",
            Operation::Relocation => "relocation",
            Operation::Transfer => "transfer",
            Operation::Quota => "quota",
            Operation::Election => "election",
        }
    }
}

/// Pairs that cannot be, and why. A campaign in which one is met fails: the reason is wrong then.
pub(crate) const IMPOSSIBLE: [(&str, Operation, &str); 1] = [(
    "leader transfer",
    Operation::Election,
    "only a member that leads can be told to hand over its leadership, and it knows a leader: itself",
)];

/// Counts of faults, of events, and of the pairs of faults and operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    faults: BTreeMap<&'static str, u64>,
    events: BTreeMap<&'static str, u64>,
    met: BTreeMap<(&'static str, Operation), u64>,
}

impl Coverage {
    /// A fault struck a member on which these operations were under way.
    pub(crate) fn fault(&mut self, fault: &'static str, under_way: &[Operation]) {
        *self.faults.entry(fault).or_default() += 1;
        for operation in under_way {
            *self.met.entry((fault, *operation)).or_default() += 1;
        }
    }

    /// Something happened that is worth counting.
    pub(crate) fn event(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
    }

    /// Faults and how often they struck.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.faults.iter().map(|(name, count)| (*name, *count))
    }

    /// What else happened, and how often.
    pub(crate) fn events(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.events.iter().map(|(name, count)| (*name, *count))
    }

    /// How often a fault met an operation.
    pub(crate) fn met(&self) -> impl Iterator<Item = ((&'static str, Operation), u64)> {
        self.met.iter().map(|(pair, count)| (*pair, *count))
    }
}
