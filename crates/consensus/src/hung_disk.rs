//! A leader with a hung disk (etcd#16291).
//!
//! The others can commit without the leader's disk, so the cluster seems to work, but the leader answers from its own
//! apply, and it applies nothing that it has not written: every client waits. So when the oldest write is an
//! election timeout old while a quorum has it without us, the leader hands over to the peer that is furthest, and
//! if nobody took it within another election timeout, it steps down. It cannot win the next election: its vote
//! requests wait for the same disk.

use crate::{Consensus, Role};

/// The oldest write that is not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StalledWrite {
    /// The number of the write.
    pub number: u64,
    /// How many ticks ago it was handed out.
    pub ticks: u64,
    /// Whether a quorum has all its entries without counting us.
    pub replicated: bool,
}

impl Consensus {
    /// The oldest write that is not synced, however young.
    pub fn stalled_write(&self) -> Option<StalledWrite> {
        let (number, last, since) = self.writes.oldest()?;
        let replicated = self.is_leader()
            && last.is_some_and(|last| self.has_quorum(|peer| peer.id != self.id && peer.matched >= last));
        Some(StalledWrite { number, ticks: self.ticks - since, replicated })
    }

    /// Hands leadership over when the disk hangs. Called each tick.
    pub(crate) fn watch_disk(&mut self) {
        let timeout = self.election_tick as u64;
        let is_hung = |write: &StalledWrite| write.ticks >= timeout && write.replicated;
        if self.role() != Role::Leader || !self.stalled_write().as_ref().is_some_and(is_hung) {
            self.handover_since = None;
            return;
        }
        match self.handover_since {
            None => {
                self.handover_since = Some(self.ticks);
                if let Some(successor) = self.successor() {
                    self.node.transfer_leader(successor);
                }
            }
            Some(since) if self.ticks - since >= timeout => self.step_down(),
            Some(_) => {}
        }
    }

    /// The voter that is furthest, of those heard of lately if there are any.
    fn successor(&self) -> Option<u64> {
        let conf = self.conf_state();
        let mut peers = self.peers();
        peers.retain(|peer| peer.id != self.id && conf.voters.contains(&peer.id));
        peers.iter().max_by_key(|peer| (peer.recent_active, peer.matched)).map(|peer| peer.id)
    }
}
