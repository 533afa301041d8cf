//! A leader with a stalled disk (etcd#16291).
//!
//! The followers can commit without the leader's disk, so the cluster seems to work. But clients get their replies from
//! the leader's own apply, and the leader applies nothing that it has not persisted: every client waits. So the leader
//! gives up its leadership:
//!
//! ```text
//! tick  0   write 7 is handed to the log
//! tick 10   (one election timeout) a quorum has the entries of write 7 without us: transfer to the most advanced voter
//! tick 20   (another one) still leading: step down
//! ```
//!
//! It cannot win the next election: its vote requests wait for the same disk.
//!
//! A slow disk is not a stalled one: time counts from the end of the sync before, if that came later, be it of another
//! write or of a seal of the log. So a leader whose disk syncs one thing after the other keeps its leadership, however
//! long each waits for those before it.

use raft::RawNode;

use crate::log_view::LogView;
use crate::replication::progress::{has_quorum, peers};
use crate::replication::unsynced_writes::UnsyncedWrites;

/// The oldest write that is not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StalledWrite {
    /// The number of the write.
    pub number: u64,
    /// For how many ticks the disk has had nothing else to sync.
    pub ticks: u64,
    /// Whether a quorum has all its entries without counting us.
    pub replicated: bool,
}

/// What a leader with a stalled disk does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StalledDiskAction {
    /// The disk is not stalled, or a transfer is under way.
    Wait,
    /// Transfer the leadership to the best target, if there is one.
    Transfer,
    /// The transfer took too long: step down.
    StepDown,
}

/// Watches the disk of a leader.
#[derive(Default)]
pub(crate) struct StalledDisk {
    /// The tick at which a stalled disk made us transfer the leadership.
    transfer_since: Option<u64>,
}

impl StalledDisk {
    /// What a leader does at this tick about its `oldest` unsynced write. `timeout` is an election timeout in ticks.
    pub(crate) fn tick(
        &mut self,
        oldest: Option<StalledWrite>,
        tick: u64,
        timeout: u64,
    ) -> StalledDiskAction {
        let is_stalled = oldest.is_some_and(|write| write.ticks >= timeout && write.replicated);
        match self.transfer_since {
            _ if !is_stalled => {
                self.transfer_since = None;
                StalledDiskAction::Wait
            }
            None => {
                self.transfer_since = Some(tick);
                StalledDiskAction::Transfer
            }
            Some(since) if tick - since >= timeout => StalledDiskAction::StepDown,
            Some(_) => StalledDiskAction::Wait,
        }
    }
}

/// The oldest unsynced write at `tick`, however young.
pub(crate) fn stalled_write(
    node: &RawNode<LogView>,
    writes: &UnsyncedWrites,
    tick: u64,
) -> Option<StalledWrite> {
    let (number, last, since) = writes.oldest()?;
    let me = node.raft.id;
    let replicated = node.raft.state == raft::StateRole::Leader
        && last.is_some_and(|last| has_quorum(node, |peer| peer.id != me && peer.matched >= last));
    Some(StalledWrite { number, ticks: tick - since, replicated })
}

/// The best transfer target that `is_reachable`: the voter with the longest log, among those that were heard of lately
/// if there are any.
pub(crate) fn transfer_target(node: &RawNode<LogView>, is_reachable: impl Fn(u64) -> bool) -> Option<u64> {
    let raft = &node.raft;
    let voters = raft.prs().conf().to_conf_state().voters;
    let mut peers = peers(node);
    peers.retain(|peer| peer.id != raft.id && voters.contains(&peer.id) && is_reachable(peer.id));
    peers.iter().max_by_key(|peer| (peer.recent_active, peer.matched)).map(|peer| peer.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_disk_causes_a_transfer_and_then_a_step_down() {
        let mut disk = StalledDisk::default();
        let write = |ticks, replicated| Some(StalledWrite { number: 7, ticks, replicated });
        assert_eq!(disk.tick(write(9, true), 9, 10), StalledDiskAction::Wait, "too young");
        assert_eq!(disk.tick(write(10, false), 10, 10), StalledDiskAction::Wait, "no quorum has it");
        assert_eq!(disk.tick(write(10, true), 10, 10), StalledDiskAction::Transfer);
        assert_eq!(disk.tick(write(19, true), 19, 10), StalledDiskAction::Wait, "the transfer is under way");
        assert_eq!(disk.tick(write(20, true), 20, 10), StalledDiskAction::StepDown);
        assert_eq!(disk.tick(None, 21, 10), StalledDiskAction::Wait);
        assert_eq!(disk.tick(write(30, true), 30, 10), StalledDiskAction::Transfer, "it stalls again");
    }
}
