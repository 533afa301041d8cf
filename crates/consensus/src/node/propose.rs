//! Proposals: only a leader takes them, none during a transfer, and the raft library never forwards any.
//!
//! A proposal that is taken may still be lost with the leadership. The caller learns its outcome from what comes out
//! committed at its index. A proposal that is refused is never in the log.

use bytes::Bytes;
use raft::eraftpb::{self, MessageType};

use crate::entry::MAX_ENTRY_BYTES;
use crate::error::ProposeError;
use crate::membership::{ConfChange, MAX_MEMBERS, check_applies, conf_change_proposal};
use crate::node::consensus::Consensus;

impl Consensus {
    /// Proposes a batch of commands. Returns the index and term of its entry; it is committed if and only if an entry
    /// with both comes out committed. If another entry comes out at that index, or a snapshot ends beyond it, this
    /// member does not learn the outcome.
    pub fn propose(&mut self, payload: Bytes) -> Result<(u64, u64), ProposeError> {
        if payload.is_empty() {
            return Err(ProposeError::Empty);
        }
        if payload.len() > MAX_ENTRY_BYTES {
            return Err(ProposeError::TooLarge { bytes: payload.len() });
        }
        self.propose_entry(eraftpb::Entry { data: payload, ..Default::default() })
    }

    /// Proposes a conf change. A change that cannot be applied to the configuration in force is refused.
    pub fn propose_conf_change(&mut self, change: &ConfChange) -> Result<(u64, u64), ProposeError> {
        self.check_may_propose()?;
        if self.node.raft.has_pending_conf() {
            return Err(ProposeError::ConfChangePending);
        }
        if change.changes.len() > MAX_MEMBERS || change.context.len() > MAX_ENTRY_BYTES / 2 {
            return Err(ProposeError::ConfChange("it is too large".to_owned()));
        }
        if change.changes.iter().any(|change| change.id() == 0) {
            return Err(ProposeError::ConfChange("member id 0".to_owned()));
        }
        check_applies(self.node.raft.prs(), change)
            .map_err(|error| ProposeError::ConfChange(error.to_string()))?;
        self.propose_entry(conf_change_proposal(change))
    }

    fn propose_entry(&mut self, entry: eraftpb::Entry) -> Result<(u64, u64), ProposeError> {
        self.check_may_propose()?;
        let index = self.node.raft.raft_log.last_index() + 1;
        let message = eraftpb::Message {
            msg_type: MessageType::MsgPropose,
            from: self.node.raft.id,
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
}
