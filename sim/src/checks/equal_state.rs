//! Invariant: members that have applied the same index have the same state.
//!
//! The state is compared by its hash, at each index at which a member ends a step.

use std::collections::BTreeMap;

use store::AppliedId;

use crate::report::trace::Violation;

/// For each index: its term, the state hash, and the member that showed it first.
#[derive(Default)]
pub(crate) struct EqualState {
    hashes: BTreeMap<u64, (u64, u64, usize)>,
}

impl EqualState {
    /// A member shows its state.
    pub(crate) fn shows(&mut self, member: usize, at: AppliedId, hash: u64) -> Result<(), Violation> {
        let known = *self.hashes.entry(at.index).or_insert((at.term, hash, member));
        if (known.0, known.1) != (at.term, hash) {
            let text = format!(
                "at index {} members {} and {member} differ: terms {} and {}, hashes {:016x} and {hash:016x}",
                at.index, known.2, known.0, at.term, known.1
            );
            return Violation::err("equal index means equal state", text);
        }
        Ok(())
    }
}
