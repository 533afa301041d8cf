//! Invariant: every vote that a member gave and every entry that it accepted is on its disk after any crash.
//!
//! ```text
//! member 1 sends VoteResponse { granted, term 4 } to 2       vote: (4, 2)
//! member 1 sends AppendAccepted { index 17 } in term 4       accepted: (4, 17)
//! power loss -> recovery finds term 4, vote 2, last 16       violation: entry 17 is missing
//! ```

use consensus::{Body, Message};

use crate::report::trace::Violation;

const CHECK: &str = "promises survive a crash";

/// The promises of one member: (term, vote) and (term, last index accepted).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemberPromises {
    vote: (u64, u64),
    accepted: (u64, u64),
}

/// What recovery finds on a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecoveredPromises {
    /// Term of the hard state.
    pub(crate) term: u64,
    /// Its vote.
    pub(crate) vote: u64,
    /// Last entry of the log.
    pub(crate) last: u64,
}

/// The promises of all members.
#[derive(Default)]
pub(crate) struct DurablePromises {
    members: Vec<MemberPromises>,
}

impl DurablePromises {
    /// No promises.
    pub(crate) fn new(members: usize) -> DurablePromises {
        DurablePromises { members: vec![MemberPromises::default(); members] }
    }

    /// A member lost its directory, and its promises with it.
    pub(crate) fn forgotten(&mut self, member: usize) {
        self.members[member] = MemberPromises::default();
    }

    /// The last entry that a member has accepted.
    pub(crate) fn accepted(&self, member: usize) -> u64 {
        self.members[member].accepted.1
    }

    /// A member sends a message.
    pub(crate) fn sent(&mut self, member: usize, message: &Message) -> Result<(), Violation> {
        let promise = &mut self.members[member];
        match message.body {
            Body::Vote { pre: false, .. } => promise.give(message.term, message.from, member)?,
            Body::VoteResponse { pre: false, granted: true, .. } => {
                promise.give(message.term, message.to, member)?;
            }
            Body::AppendAccepted { index, .. } => {
                let newer_term = message.term > promise.accepted.0;
                if newer_term || index > promise.accepted.1 {
                    promise.accepted = (message.term, index);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A disk was read after a crash.
    pub(crate) fn after_crash(&self, member: usize, found: RecoveredPromises) -> Result<(), Violation> {
        let promise = self.members[member];
        let (term, vote) = promise.vote;
        if found.term < term || (found.term == term && found.vote != vote) {
            let text = format!(
                "member {member} voted for {vote:x} in term {term}, but after a crash its disk says term {} and vote \
                 {:x}",
                found.term, found.vote
            );
            return Violation::err(CHECK, text);
        }
        let (term, accepted) = promise.accepted;
        if found.last < accepted {
            let text = format!(
                "member {member} accepted entries up to {accepted} in term {term}, but after a crash its log ends at \
                 {}",
                found.last
            );
            return Violation::err(CHECK, text);
        }
        Ok(())
    }
}

impl MemberPromises {
    fn give(&mut self, term: u64, to: u64, member: usize) -> Result<(), Violation> {
        if term == self.vote.0 && to != self.vote.1 {
            let text = format!("member {member} voted for {:x} and {to:x} in term {term}", self.vote.1);
            return Violation::err(CHECK, text);
        }
        if term > self.vote.0 {
            self.vote = (term, to);
        }
        Ok(())
    }
}
