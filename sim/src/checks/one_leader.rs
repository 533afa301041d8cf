//! Invariant: a term has at most one leader.
//!
//! Two leaders at the same time are allowed, in different terms: the older one does not know yet that it was replaced.

use std::collections::BTreeMap;

use crate::report::trace::Violation;

/// The leader of each term, once it is known.
#[derive(Default)]
pub(crate) struct OneLeader {
    leaders: BTreeMap<u64, usize>,
}

impl OneLeader {
    /// A member reports that it leads a term.
    pub(crate) fn leads(&mut self, member: usize, term: u64) -> Result<(), Violation> {
        let leader = *self.leaders.entry(term).or_insert(member);
        if leader != member {
            let text = format!("members {leader} and {member} both led term {term}");
            return Violation::err("one leader a term", text);
        }
        Ok(())
    }

    /// The terms that had a leader, in order.
    pub(crate) fn terms(&self) -> Vec<u64> {
        self.leaders.keys().copied().collect()
    }
}
