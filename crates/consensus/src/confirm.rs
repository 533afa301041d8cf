//! Confirm rounds: how a leader knows, before it answers a read, that it still was the leader after the read came.
//!
//! (The library's own ReadIndex drops equal contexts, loses requests, and its heartbeat responses eat flow control:
//! etcd#20418. Hence this one.)
//!
//! A round notes the commit index, sends `Confirm { term, round }` to every voter, and is won when a quorum (both, in
//! a joint configuration) answered that this is still its term. Any leader of a later term was elected by a quorum
//! that shares a voter with this one, and that voter had not yet left the term when it answered: so when the round
//! began, nothing was committed beyond what this leader knew. A read waits for the first round that begins after
//! it came, and needs the state applied up to the index noted.
//!
//! One round is in flight at a time, so the cost of a thousand reads is that of one; the owner says when a round may
//! start (pacing) and when to ask again those who did not answer (lost messages). Numbers are never used twice by one
//! run of the process, and a restarted process leads in a new term at the earliest. A round needs a leader that has
//! committed in its own term: before, its commit index may be behind. Leadership lost drops every read.

use std::collections::BTreeSet;

use crate::ReadReady;

/// Reads waiting for a round. The owner bundles many client reads into one token, so this is far above need.
pub const MAX_READS_WAITING: usize = 1 << 16;

/// The round in flight.
struct Round {
    number: u64,
    commit: u64,
    acks: BTreeSet<u64>,
    reads: Vec<u64>,
}

/// Reads on their way through rounds.
#[derive(Default)]
pub(crate) struct Rounds {
    last_number: u64,
    waiting: Vec<u64>,
    in_flight: Option<Round>,
    released: Vec<ReadReady>,
    dropped: Vec<u64>,
}

impl Rounds {
    /// Adds a read to the next round; false if too many wait.
    pub(crate) fn join(&mut self, token: u64) -> bool {
        if self.waiting.len() >= MAX_READS_WAITING {
            return false;
        }
        self.waiting.push(token);
        true
    }

    /// Whether reads wait and no round is in flight.
    pub(crate) fn can_start(&self) -> bool {
        self.in_flight.is_none() && !self.waiting.is_empty()
    }

    /// Begins a round with all waiting reads; `me` has answered. Returns its number.
    pub(crate) fn start(&mut self, me: u64, commit: u64) -> u64 {
        assert!(self.can_start(), "one round in flight, and only for reads");
        self.last_number += 1;
        self.in_flight = Some(Round {
            number: self.last_number,
            commit,
            acks: BTreeSet::from([me]),
            reads: std::mem::take(&mut self.waiting),
        });
        self.last_number
    }

    /// The round in flight and those who answered it.
    pub(crate) fn in_flight(&self) -> Option<(u64, &BTreeSet<u64>)> {
        self.in_flight.as_ref().map(|round| (round.number, &round.acks))
    }

    /// `voter` answered `number`.
    pub(crate) fn acknowledge(&mut self, voter: u64, number: u64) {
        if let Some(round) = self.in_flight.as_mut().filter(|round| round.number == number) {
            round.acks.insert(voter);
        }
    }

    /// A quorum answered: releases the round's reads.
    pub(crate) fn win(&mut self) {
        let round = self.in_flight.take().expect("the round in flight was won");
        self.released.extend(round.reads.into_iter().map(|token| ReadReady { token, index: round.commit }));
    }

    /// The leadership is lost: no read of this leader can be answered any more.
    pub(crate) fn drop_all(&mut self) {
        self.dropped.extend(self.in_flight.take().into_iter().flat_map(|round| round.reads));
        self.dropped.append(&mut self.waiting);
    }

    /// Whether something is to be taken.
    pub(crate) fn has_outcome(&self) -> bool {
        !self.released.is_empty() || !self.dropped.is_empty()
    }

    /// Takes the released reads and the dropped ones.
    pub(crate) fn take(&mut self) -> (Vec<ReadReady>, Vec<u64>) {
        (std::mem::take(&mut self.released), std::mem::take(&mut self.dropped))
    }
}
