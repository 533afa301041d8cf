//! A term has at most one leader.

use std::collections::BTreeMap;

use crate::report::Violation;

/// Who led which term.
#[derive(Default)]
pub(crate) struct OneLeader {
    leaders: BTreeMap<u64, usize>,
}

impl OneLeader {
    /// A member says that it leads a term.
    pub(crate) fn leads(&mut self, member: usize, term: u64) -> Result<(), Violation> {
        let leader = *self.leaders.entry(term).or_insert(member);
        if leader != member {
            let text = format!("members {leader} and {member} both led term {term}");
            return Violation::err("one leader a term", text);
        }
        Ok(())
    }
}
