//! What consensus wants done, as data.

use crate::entry::Entry;
use crate::log_view::Fetch;
use crate::message::Message;
use crate::node::status::Leadership;
use crate::read_index::RoundWon;
use crate::replication::Write;

/// What to do now. Each part may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ready {
    /// To be written, in the order of the readies, without waiting for earlier ones.
    pub write: Option<Write>,
    /// To be sent now; the messages that must wait for the disk are not among them (the ordering rule,
    /// `replication/unsynced_writes.rs`). [`crate::Body::Snapshot`] means: stream the snapshot that was offered, then
    /// report how it ended.
    pub messages: Vec<Message>,
    /// To be applied, in order. They are on our disk. Apply nothing after a conf change before
    /// [`crate::Consensus::apply_conf_change`].
    pub committed: Vec<Entry>,
    /// Set when role, leader or term changed.
    pub leadership: Option<Leadership>,
    /// The ReadIndex rounds that were won: serve the reads of each when its index is applied.
    pub rounds_won: Vec<RoundWon>,
    /// The owner's numbers of the rounds that were dropped with the leadership: [`Ready::leadership`] is set, too. Ask
    /// the new leader.
    pub rounds_dropped: Vec<u64>,
    /// Entries to be read from the log, for [`crate::Consensus::entries_fetched`] or
    /// [`crate::Consensus::fetch_failed`].
    pub fetches: Vec<Fetch>,
    /// Peers that need a snapshot: prepare one, then [`crate::Consensus::offer_snapshot`]. A peer is named again while
    /// it waits.
    pub snapshots_wanted: Vec<u64>,
}
