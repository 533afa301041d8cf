//! The leader's side: which snapshots are being sent, and what the log keeps for their receivers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use consensus::{Consensus, PeerStatus, SnapshotMeta};
use log::{Log, LogId};
use store::{Store, Values};

use super::outgoing::{Outgoing, SendError, SentSnapshot};
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
        if consensus.offer_snapshot(peer, &meta) {
            self.pin_state(peer, &meta, log, store, values);
        }
    }

    /// Pins the state as it is now, which `meta` names, until its stream has ended.
    fn pin_state(
        &mut self,
        peer: u64,
        meta: &SnapshotMeta,
        log: &Log,
        store: &mut Store,
        values: Arc<dyn Values>,
    ) {
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        // The pin comes first: it keeps the files that the source will refer to.
        let pin = log.reader().pin();
        let source = store.begin_snapshot();
        let outgoing = Outgoing::new(SentSnapshot { peer, sequence }, meta, pin, source, values);
        let running = Running { index: meta.index, sequence, outgoing: Some(Box::new(outgoing)) };
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
    /// snapshot. `catchup_entries` are kept in any case.
    pub(crate) fn note_progress(&mut self, applied: u64, peers: &[PeerStatus], catchup_entries: u64) {
        let kept_anyway = applied.saturating_sub(catchup_entries);
        self.catching_up.retain(|id, at| {
            let Some(peer) = peers.iter().find(|peer| peer.id == *id && peer.recent_active) else {
                return false;
            };
            *at = peer.matched.max(*at);
            // Within half of what is kept anyway it will not fall behind again at once.
            *at < kept_anyway + catchup_entries / 2
        });
    }
}

#[cfg(test)]
mod tests {
    //! How many snapshots run, and which entries are kept for their receivers and for how long.
    use consensus::{ConfState, PeerState};

    use super::*;
    use crate::tests::LogAndStore;

    /// Snapshots of the state at these indexes for these peers.
    fn running(peers: &[(u64, u64)]) -> SnapshotSending {
        let mut state = LogAndStore::new(&[1, 2, 3]);
        let mut sending = SnapshotSending::default();
        for &(peer, index) in peers {
            let meta = meta(index);
            sending.pin_state(peer, &meta, &state.log, &mut state.store, state.values.clone());
        }
        sending
    }

    fn meta(index: u64) -> SnapshotMeta {
        SnapshotMeta { index, term: 1, conf_state: ConfState::of_voters([1, 2, 3]) }
    }

    /// Starts the snapshot of a peer. Returns its name.
    fn start(sending: &mut SnapshotSending, peer: u64, index: u64) -> Option<SentSnapshot> {
        let mut out = Output::default();
        let started = sending.start(peer, &meta(index), 9, &[], &mut out);
        assert_eq!(started, out.snapshots.len() == 1);
        out.snapshots.first().map(|outgoing| outgoing.sent())
    }

    fn follower(id: u64, matched: u64) -> PeerStatus {
        PeerStatus { id, matched, next: matched + 1, state: PeerState::Replicate, recent_active: true }
    }

    #[test]
    fn each_peer_gets_one_at_a_time_and_only_so_many_run() {
        let sending = running(&[(2, 50)]);
        assert!(!sending.may_prepare(2));
        assert!(sending.may_prepare(3));
        let sending = running(&[(2, 50), (3, 50)]);
        assert_eq!(sending.running.len(), MAX_RUNNING);
        assert!(!sending.may_prepare(4));
    }

    #[test]
    fn the_entries_after_a_running_snapshot_are_kept_but_not_without_end() {
        let sending = running(&[(2, 60), (3, 50)]);
        assert_eq!(sending.oldest_needed(100), 50);
        assert_eq!(sending.oldest_needed(50 + MAX_KEPT_ENTRIES), 50);
        assert_eq!(sending.oldest_needed(51 + MAX_KEPT_ENTRIES), 60);
        assert_eq!(running(&[]).oldest_needed(100), u64::MAX);
    }

    #[test]
    fn only_what_was_offered_leaves_and_it_leaves_once() {
        let mut sending = running(&[(2, 50)]);
        assert_eq!(start(&mut sending, 2, 51), None);
        assert!(start(&mut sending, 2, 50).is_some());
        assert_eq!(start(&mut sending, 2, 50), None);
    }

    #[test]
    fn a_new_leadership_drops_what_has_not_left() {
        let mut sending = running(&[(2, 50), (3, 60)]);
        start(&mut sending, 3, 60);
        sending.leadership_changed();
        assert_eq!(sending.oldest_needed(100), 60);
    }

    #[test]
    fn a_peer_that_got_one_is_waited_for_until_it_is_near() {
        let mut sending = running(&[(2, 50)]);
        let sent = start(&mut sending, 2, 50).expect("it leaves");
        let of_another = SentSnapshot { sequence: sent.sequence + 1, ..sent };
        assert_eq!(sending.ended(of_another, &Ok(())), None);
        let notice = Notice::Snapshot { peer: 2, event: SnapshotEvent::Sent { index: 50 } };
        assert_eq!(sending.ended(sent, &Ok(())), Some((2, notice)));
        assert!(sending.may_prepare(2) && sending.has_catching_up());
        // 200 applied, 100 kept anyway: 150 is near enough.
        for (matched, needed) in [(0, 50), (80, 80), (149, 149), (150, u64::MAX)] {
            sending.note_progress(200, &[follower(2, matched)], 100);
            assert_eq!(sending.oldest_needed(200), needed, "the peer has {matched}");
        }
    }

    #[test]
    fn no_peer_is_waited_for_that_got_none_or_is_gone() {
        let mut sending = running(&[(2, 50), (3, 50)]);
        let failed = start(&mut sending, 2, 50).expect("it leaves");
        let error = SendError { reason: "broken".to_owned(), damaged: None };
        let (_, notice) = sending.ended(failed, &Err(error)).expect("it ran");
        let event = SnapshotEvent::NotSent { index: 50, reason: "broken".to_owned() };
        assert_eq!(notice, Notice::Snapshot { peer: 2, event });
        assert!(!sending.has_catching_up());
        let sent = start(&mut sending, 3, 50).expect("it leaves");
        sending.ended(sent, &Ok(()));
        sending.note_progress(200, &[PeerStatus { recent_active: false, ..follower(3, 50) }], 100);
        assert_eq!(sending.oldest_needed(200), u64::MAX);
    }
}
