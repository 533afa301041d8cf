//! Within one run of its process a member's applied index and revision never go back, nor does what a
//! serializable read
//! shows.

use crate::report::Violation;

/// How far one member was seen, in this run of its process.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    run: u64,
    applied: u64,
    revision: i64,
    served: i64,
}

/// How far all members were seen.
pub(crate) struct Monotonic {
    members: Vec<Seen>,
}

impl Monotonic {
    /// Nothing was seen.
    pub(crate) fn new(members: usize) -> Monotonic {
        Monotonic { members: vec![Seen::default(); members] }
    }

    fn seen(&mut self, member: usize, run: u64) -> &mut Seen {
        let seen = &mut self.members[member];
        if seen.run != run {
            *seen = Seen { run, ..Seen::default() };
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
        let seen = self.seen(member, run);
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
        let seen = self.seen(member, run);
        if revision < seen.served {
            let text = format!("member {member} served revision {revision} after {}", seen.served);
            return Violation::err("serializable reads never go backwards", text);
        }
        seen.served = revision;
        Ok(())
    }
}
