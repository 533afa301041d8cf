//! What a member has told its peers is on its disk: the vote it gave and the entries it accepted survive
//! every crash.

use consensus::{Body, Message};

use crate::report::Violation;

const CHECK: &str = "promises survive a crash";

/// What one member has promised.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Promise {
    vote: (u64, u64),
    accepted: (u64, u64),
}

/// What the disk holds after a crash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remembered {
    /// Term of the hard state.
    pub(crate) term: u64,
    /// Its vote.
    pub(crate) vote: u64,
    /// Last entry of the log.
    pub(crate) last: u64,
}

/// What all members have promised.
#[derive(Default)]
pub(crate) struct Promises {
    members: Vec<Promise>,
}

impl Promises {
    /// Nobody has promised anything.
    pub(crate) fn new(members: usize) -> Promises {
        Promises { members: vec![Promise::default(); members] }
    }

    /// A member lost its directory, and with it what it promised.
    pub(crate) fn forgotten(&mut self, member: usize) {
        self.members[member] = Promise::default();
    }

    /// The last entry that a member said it has.
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

    /// A member's disk after a crash.
    pub(crate) fn after_crash(&self, member: usize, found: Remembered) -> Result<(), Violation> {
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

impl Promise {
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
