//! Invariant: in one run of its process, a member's applied index and revision never go back, nor do its serializable
//! reads.

use crate::report::trace::Violation;

/// The newest state that one member has shown in this run of its process.
#[derive(Clone, Copy, Debug, Default)]
struct HighestSeen {
    run: u64,
    applied: u64,
    revision: i64,
    served: i64,
}

/// The newest states that the members have shown.
pub(crate) struct MonotonicState {
    members: Vec<HighestSeen>,
}

impl MonotonicState {
    /// No member has shown anything.
    pub(crate) fn new(members: usize) -> MonotonicState {
        MonotonicState { members: vec![HighestSeen::default(); members] }
    }

    fn highest(&mut self, member: usize, run: u64) -> &mut HighestSeen {
        let seen = &mut self.members[member];
        if seen.run != run {
            *seen = HighestSeen { run, ..HighestSeen::default() };
        }
        seen
    }

    /// A member shows its state.
    pub(crate) fn shows(
        &mut self,
        member: usize,
        run: u64,
        applied: u64,
        revision: i64,
    ) -> Result<(), Violation> {
        let seen = self.highest(member, run);
        if applied < seen.applied || revision < seen.revision {
            let text = format!(
                "member {member} went back from index {} and revision {} to {applied} and {revision}",
                seen.applied, seen.revision
            );
            return Violation::err("applied and revision never go back", text);
        }
        (seen.applied, seen.revision) = (applied, revision);
        Ok(())
    }

    /// A member served a serializable read at a revision.
    pub(crate) fn served(&mut self, member: usize, run: u64, revision: i64) -> Result<(), Violation> {
        let seen = self.highest(member, run);
        if revision < seen.served {
            let text = format!("member {member} served revision {revision} after {}", seen.served);
            return Violation::err("serializable reads never go backwards", text);
        }
        seen.served = revision;
        Ok(())
    }
}
