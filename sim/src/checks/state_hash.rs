//! Members that applied the same index have the same state.

use std::collections::BTreeMap;

use store::Position;

use crate::report::Violation;

/// The hash at each index that somebody stopped at.
#[derive(Default)]
pub(crate) struct StateHash {
    hashes: BTreeMap<u64, (u64, u64, usize)>,
}

impl StateHash {
    /// A member's state.
    pub(crate) fn shows(&mut self, member: usize, at: Position, hash: u64) -> Result<(), Violation> {
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
