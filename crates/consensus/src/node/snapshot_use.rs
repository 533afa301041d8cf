//! What a snapshot that a peer offers would do to this node: asked before gigabytes are received that nothing comes of.
//!
//! | the message | use |
//! |---|---|
//! | of an earlier term than ours; from a member that our configuration does not name, while our leader is heard; during an installation | ignored: stepping it does nothing |
//! | its last entry is committed here, or in our log | known: stepping it answers how far this node is, and commits what the leader has |
//! | else | wanted: a ready asks for its installation |

use crate::error::Rejected;
use crate::message::{Body, Message};
use crate::node::consensus::Consensus;
use crate::node::guard::{self, Verdict};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotUse {
    /// It would be installed.
    Wanted,
    /// Its entries are here. To be stepped at once, without the state that belongs to it.
    Known,
    /// It would change nothing.
    Ignored,
}

impl Consensus {
    /// What stepping this message, which came over the connection to `from`, would do now.
    ///
    /// # Errors
    /// As [`Consensus::step`]; also for a message that is not of a snapshot.
    pub fn snapshot_use(&self, from: u64, message: &Message) -> Result<SnapshotUse, Rejected> {
        let Body::Snapshot(meta) = &message.body else {
            return Err(Rejected::Malformed("the message is not of a snapshot"));
        };
        let verdict = guard::check(&self.node, from, message, self.writes.changes_log())?;
        let (raft, log) = (&self.node.raft, &self.node.raft.raft_log);
        if verdict == Verdict::Ignore || message.term < raft.term {
            return Ok(SnapshotUse::Ignored);
        }
        match meta.index < log.committed || log.match_term(meta.index, meta.term) {
            true => Ok(SnapshotUse::Known),
            false => Ok(SnapshotUse::Wanted),
        }
    }
}
