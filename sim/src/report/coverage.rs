//! Counts how often each fault struck a member while each operation was under way there.
//!
//! A pair that never happened was not tested: a campaign in which one is missing fails.

use std::collections::BTreeMap;

use crate::plan::operation::MemberOperation;

/// Pairs that cannot occur, and why. A campaign in which one occurs fails: its reason is wrong.
pub(crate) const IMPOSSIBLE: [(&str, MemberOperation, &str); 1] = [(
    "leader transfer",
    MemberOperation::Election,
    "only the leader can be asked to transfer leadership, and it knows a leader: itself",
)];

/// Counts of faults, of events, and of the pairs of faults and operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    faults: BTreeMap<&'static str, u64>,
    events: BTreeMap<&'static str, u64>,
    met: BTreeMap<(&'static str, MemberOperation), u64>,
}

impl Coverage {
    /// A fault struck a member on which these operations were under way.
    pub(crate) fn fault(&mut self, fault: &'static str, under_way: &[MemberOperation]) {
        *self.faults.entry(fault).or_default() += 1;
        for operation in under_way {
            *self.met.entry((fault, *operation)).or_default() += 1;
        }
    }

    /// Something else happened that is counted.
    pub(crate) fn event(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
    }

    /// How often each fault struck.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.faults.iter().map(|(name, count)| (*name, *count))
    }

    /// How often everything else happened.
    pub(crate) fn events(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.events.iter().map(|(name, count)| (*name, *count))
    }

    /// How often each fault struck during each operation.
    pub(crate) fn met(&self) -> impl Iterator<Item = ((&'static str, MemberOperation), u64)> {
        self.met.iter().map(|(pair, count)| (*pair, *count))
    }
}
