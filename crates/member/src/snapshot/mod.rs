//! State for peers that are too far behind for the log, and from a leader when we are.
//!
//! ```text
//! leader                                   follower
//! snapshots_wanted
//!   pin the state, offer it to consensus
//! Body::Snapshot: Output::snapshots        Input::SnapshotOffered
//!   a thread sends what Outgoing gives ->    a thread writes what arrives (Receiver): files nobody knows of yet
//! Input::SnapshotSent                      Input::SnapshotWhole: the message is stepped
//!   report_snapshot                          Write.snapshot: the installation is committed (Job::Install),
//!                                            log and store switch to it, applying goes on behind it
//! ```
//!
//! The bytes in between are described in `docs/internals/snapshot-stream.md`. Until consensus wants it, nothing of a
//! received snapshot counts: a crash leaves files without a reference, which the next open removes. After the commit
//! recovery finds the new state. While an installation is under way later writes of consensus wait for it, and no
//! checkpoint of the old state begins.

mod format;
mod install;
mod receive;
mod send;

pub use receive::Receiver;
pub use send::{MAX_RUNNING, Outgoing, RESUME_BYTES, SendError, Sent};

use std::collections::BTreeMap;

use consensus::Write;

use install::{Arrived, Installing};
use receive::Receiving;
use send::Running;

/// Snapshots under way.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// Those being sent, by peer.
    running: BTreeMap<u64, Running>,
    next_sequence: u64,
    /// Peers that got one and are not yet as far as the log is kept anyway, with the entry they are at.
    following: BTreeMap<u64, u64>,
    /// The one being received.
    receiving: Option<Receiving>,
    /// One that is here and was stepped; consensus decides before the end of this call.
    arrived: Option<Arrived>,
    installing: Option<Installing>,
    /// Writes that come after the installation.
    held: Vec<Write>,
}

/// Entries kept for a snapshot, running or just sent, beyond what is kept anyway. A transfer during which more than
/// this is written is better begun again than paid for with a log without end.
const KEEP_ENTRIES: u64 = 1_000_000;

impl Snapshots {
    /// The lowest index whose following entries a running snapshot, or a peer that has just got one, still needs.
    pub(crate) fn oldest_needed(&self, applied: u64) -> u64 {
        let indexes = self.running.values().map(|running| running.index);
        let indexes = indexes.chain(self.following.values().copied());
        indexes.filter(|index| index + KEEP_ENTRIES >= applied).min().unwrap_or(u64::MAX)
    }

    /// Whether the state is about to be replaced: writes wait, and no checkpoint begins.
    pub(crate) fn is_installing(&self) -> bool {
        self.installing.is_some()
    }
}
