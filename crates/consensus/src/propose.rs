//! Proposals: only a leader takes them, none during a transfer, and the library never forwards any.
//!
//! A proposal that is taken may still be lost with the leadership; the caller learns its fate from what comes out
//! committed at its index. One that is refused is never in the log.

use bytes::Bytes;
use raft::eraftpb::{self, MessageType};

use crate::{ConfChange, Consensus, ProposeError, convert};

/// Bytes of one payload; its length travels in 32 bits, with room to spare.
pub const MAX_ENTRY_BYTES: usize = 1 << 30;

impl Consensus {
    /// Proposes a batch of commands. Returns the index and term it gets; it is committed if and only if an entry with
    /// both comes out committed. Another entry at that index, or a snapshot past it, means that its outcome is not
    /// known here.
    pub fn propose(&mut self, payload: Bytes) -> Result<(u64, u64), ProposeError> {
        if payload.is_empty() {
            return Err(ProposeError::Empty);
        }
        if payload.len() > MAX_ENTRY_BYTES {
            return Err(ProposeError::TooLarge { bytes: payload.len() });
        }
        self.propose_entry(eraftpb::Entry { data: payload, ..Default::default() })
    }

    /// Proposes a conf change. One that cannot be applied to the configuration in force is refused here.
    pub fn propose_conf_change(&mut self, change: &ConfChange) -> Result<(u64, u64), ProposeError> {
        self.check_may_propose()?;
        if self.node.raft.has_pending_conf() {
            return Err(ProposeError::ConfChangePending);
        }
        if change.changes.len() > crate::MAX_MEMBERS || change.context.len() > MAX_ENTRY_BYTES / 2 {
            return Err(ProposeError::ConfChange("it is too large".to_owned()));
        }
        if change.changes.iter().any(|change| change.id() == 0) {
            return Err(ProposeError::ConfChange("member id 0".to_owned()));
        }
        self.try_conf_change(change).map_err(|error| ProposeError::ConfChange(error.to_string()))?;
        self.propose_entry(convert::conf_change_proposal(change))
    }

    fn propose_entry(&mut self, entry: eraftpb::Entry) -> Result<(u64, u64), ProposeError> {
        self.check_may_propose()?;
        let index = self.node.raft.raft_log.last_index() + 1;
        let message = eraftpb::Message {
            msg_type: MessageType::MsgPropose,
            from: self.id,
            entries: vec![entry].into(),
            ..Default::default()
        };
        self.node.raft.step(message).map_err(|_| ProposeError::Overloaded)?;
        assert_eq!(self.node.raft.raft_log.last_index(), index, "a proposal is one entry");
        Ok((index, self.node.raft.term))
    }

    fn check_may_propose(&self) -> Result<(), ProposeError> {
        self.check_leader()?;
        match self.node.raft.lead_transferee {
            Some(to) => Err(ProposeError::Transferring { to }),
            None => Ok(()),
        }
    }

    pub(crate) fn check_leader(&self) -> Result<(), ProposeError> {
        if self.is_leader() {
            Ok(())
        } else {
            Err(ProposeError::NotLeader { leader: self.node.raft.leader_id })
        }
    }

    fn try_conf_change(&self, change: &ConfChange) -> raft::Result<()> {
        let change = convert::conf_change_to_raft(change);
        let mut changer = raft::Changer::new(self.node.raft.prs());
        if change.leave_joint() {
            changer.leave_joint()?;
        } else if let Some(auto_leave) = change.enter_joint() {
            changer.enter_joint(auto_leave, &change.changes)?;
        } else {
            changer.simple(&change.changes)?;
        }
        Ok(())
    }
}
