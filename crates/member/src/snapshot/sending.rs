//! The leader's side: which snapshots are being sent, and what the log keeps for their receivers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use consensus::{Consensus, SnapshotMeta};
use log::{Log, LogId};
use store::{Store, Values};

use super::outgoing::{Outgoing, SendError, SentSnapshot};
use crate::config::MemberConfig;
use crate::io::{Notice, Output, SnapshotEvent};

/// Snapshots sent at a time: each pins files and history. Consensus asks again for the other peers.
pub const MAX_RUNNING: usize = 2;

/// Entries kept for a snapshot, running or just sent, beyond what is kept anyway. A transfer during which more is
/// written is better begun again than paid for with a log without end.
const MAX_KEPT_ENTRIES: u64 = 1_000_000;

/// A snapshot that is being sent.
struct Running {
    /// The last entry it includes.
    index: u64,
    sequence: u64,
    /// Kept from the offer until consensus lets it leave.
    outgoing: Option<Box<Outgoing>>,
}

/// The snapshots being sent.
#[derive(Default)]
pub(crate) struct SnapshotSending {
    /// By peer.
    running: BTreeMap<u64, Running>,
    last_sequence: u64,
    /// Peers that got a snapshot and still need entries beyond those kept anyway, with the last entry each has.
    catching_up: BTreeMap<u64, u64>,
}

impl SnapshotSending {
    /// The lowest index whose following entries a running snapshot, or a peer that has just got one, still needs.
    pub(crate) fn oldest_needed(&self, applied: u64) -> u64 {
        let indexes = self.running.values().map(|running| running.index);
        let indexes = indexes.chain(self.catching_up.values().copied());
        indexes.filter(|index| index + MAX_KEPT_ENTRIES >= applied).min().unwrap_or(u64::MAX)
    }

    /// Whether a snapshot for `peer` may be prepared.
    pub(crate) fn may_prepare(&self, peer: u64) -> bool {
        !self.running.contains_key(&peer) && self.running.len() < MAX_RUNNING
    }

    /// A peer needs a snapshot: pins the state as it is now and offers it to consensus.
    pub(crate) fn prepare(
        &mut self,
        peer: u64,
        applied: LogId,
        consensus: &mut Consensus,
        log: &Log,
        store: &mut Store,
        values: Arc<dyn Values>,
    ) {
        let LogId { index, term } = applied;
        let meta = SnapshotMeta { index, term, conf_state: consensus.status().conf_state };
        if !consensus.offer_snapshot(peer, &meta) {
            return;
        }
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        // The pin comes first: it keeps the files that the source will refer to.
        let pin = log.reader().pin();
        let source = store.begin_snapshot();
        let outgoing = Outgoing::new(SentSnapshot { peer, sequence }, &meta, pin, source, values);
        let running = Running { index, sequence, outgoing: Some(Box::new(outgoing)) };
        self.running.insert(peer, running);
    }

    /// Consensus lets the offered snapshot leave, with this encoded message. Returns false when there is none.
    pub(crate) fn start(
        &mut self,
        to: u64,
        meta: &SnapshotMeta,
        start: u64,
        message: &[Bytes],
        out: &mut Output,
    ) -> bool {
        let running = self.running.get_mut(&to).filter(|running| running.index == meta.index);
        let Some(mut outgoing) = running.and_then(|running| running.outgoing.take()) else { return false };
        outgoing.open(start, message);
        let event = SnapshotEvent::Sending { index: meta.index };
        out.notices.push(Notice::Snapshot { peer: to, event });
        out.snapshots.push(outgoing);
        true
    }

    /// A stream has ended. Returns its peer and what operators read, unless the snapshot was given up meanwhile.
    pub(crate) fn ended(
        &mut self,
        sent: SentSnapshot,
        result: &Result<(), SendError>,
    ) -> Option<(u64, Notice)> {
        let SentSnapshot { peer, sequence } = sent;
        let index = self.running.get(&peer).filter(|running| running.sequence == sequence)?.index;
        self.running.remove(&peer);
        let event = match result {
            Ok(()) => {
                self.catching_up.insert(peer, index);
                SnapshotEvent::Sent { index }
            }
            Err(SendError { reason, .. }) => SnapshotEvent::NotSent { index, reason: reason.clone() },
        };
        Some((peer, Notice::Snapshot { peer, event }))
    }

    /// Leadership changed: a snapshot that was offered and has not left never will.
    pub(crate) fn leadership_changed(&mut self) {
        self.running.retain(|_, running| running.outgoing.is_none());
    }

    /// Whether a peer that got a snapshot still catches up.
    pub(crate) fn has_catching_up(&self) -> bool {
        !self.catching_up.is_empty()
    }

    /// Notes how far the peers are that got a snapshot. Entries they need next must be kept, or they would need another
    /// snapshot.
    pub(crate) fn note_progress(&mut self, applied: u64, consensus: &Consensus, config: &MemberConfig) {
        let peers = consensus.status().peers;
        let kept_anyway = applied.saturating_sub(config.catchup_entries);
        self.catching_up.retain(|id, at| {
            let Some(peer) = peers.iter().find(|peer| peer.id == *id && peer.recent_active) else {
                return false;
            };
            *at = peer.matched.max(*at);
            // Within half of what is kept anyway it will not fall behind again at once.
            *at < kept_anyway + config.catchup_entries / 2
        });
    }
}
