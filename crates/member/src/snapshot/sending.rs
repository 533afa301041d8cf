//! The leader's side: which snapshots are being sent, and what the log keeps for their receivers.
//!
//! A snapshot ends with an entry; its receiver needs the entries after it, and those are written while it travels. So
//! the log is kept from that entry on, until the receiver is as near as followers usually are:
//!
//! ```text
//! snapshot of entry 100, 40 GB                applied   kept for the receiver
//! offered, sent                                 9 000   100 .. 9 000
//! sent; the receiver installs it and follows   12 000   7 000 .. 12 000      its entries up to 7 000 are acknowledged
//! within half of what is kept anyway           12 500   nothing
//! ```
//!
//! What is kept may take as much space as the snapshot. A receiver that is written past that while a snapshot of this
//! size travels would not catch up with twice as much either. Then the snapshot is given up: without the entries after
//! it the receiver would need another at once, and meanwhile it pins files and history. On a nearly full disk, no more
//! than usual is kept for it, and it is given up if it pins history that was compacted: space comes first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use consensus::{Consensus, PeerStatus, SnapshotMeta};
use log::{Log, LogId};
use store::{Store, Values};

use super::outgoing::{Outgoing, SendError, SentSnapshot};
use crate::io::{Notice, Output, SnapshotEvent};

/// Snapshots sent at a time: each pins files and history. Consensus asks again for the other peers.
pub const MAX_RUNNING: usize = 2;

/// An entry that is kept counts for at least so many bytes: it takes memory, too, 12 bytes.
pub(super) const MIN_ENTRY_BYTES: u64 = 1 << 10;

/// Entries are kept no longer for a receiver that has been silent for so long, in nanoseconds. A process that starts
/// again is back within that, as a rule; one that is not must not cost space forever.
pub(super) const MAX_SILENCE_NS: u64 = 60_000_000_000;

/// After a snapshot that was not sent its peer gets no other for this long, in nanoseconds: a few heartbeats, at which
/// consensus asks again. A peer that refuses, for want of space or because another member sends to it, does so for
/// longer, so the time doubles with each failure in a row.
const MIN_PAUSE_NS: u64 = 200_000_000;

/// The longest such time.
const MAX_PAUSE_NS: u64 = 2_000_000_000;

/// What the log keeps for one receiver: the entries after an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptLog {
    pub(super) after: u64,
    /// Nothing is kept when it takes more than this.
    pub(super) max_bytes: u64,
}

impl KeptLog {
    fn fits(&self, log: &Log) -> bool {
        let entries = log.last_index().saturating_sub(self.after);
        log.bytes_after(self.after).max(entries * MIN_ENTRY_BYTES) <= self.max_bytes
    }
}

/// A snapshot that is being sent.
struct Running {
    kept: KeptLog,
    /// The newest revision in it.
    revision: i64,
    sequence: u64,
    /// Kept from the offer until consensus lets it leave.
    outgoing: Option<Box<Outgoing>>,
    /// Told to the thread that sends it.
    is_given_up: Arc<AtomicBool>,
}

/// A peer that got a snapshot and still needs entries beyond those kept anyway.
struct CatchingUp {
    kept: KeptLog,
    /// Since when nothing is heard of it.
    silent_since_ns: Option<u64>,
}

/// The snapshots being sent.
pub(crate) struct SnapshotSending {
    /// What may be kept for a receiver, however small its snapshot is.
    min_log_bytes: u64,
    /// By peer.
    running: BTreeMap<u64, Running>,
    last_sequence: u64,
    /// By peer.
    catching_up: BTreeMap<u64, CatchingUp>,
    /// By peer whose last snapshot failed: when it gets another, and the pause until then.
    paused: BTreeMap<u64, (u64, u64)>,
}

impl SnapshotSending {
    /// Keeps at least so many bytes of log for a receiver, if it needs them.
    pub(crate) fn new(min_log_bytes: u64) -> SnapshotSending {
        SnapshotSending {
            min_log_bytes,
            running: BTreeMap::new(),
            last_sequence: 0,
            catching_up: BTreeMap::new(),
            paused: BTreeMap::new(),
        }
    }

    /// The lowest index whose following entries a running snapshot, or a peer that has just got one, still needs, as
    /// far as they may be kept.
    pub(crate) fn oldest_needed(&self, log: &Log) -> u64 {
        let running = self.running.values().map(|running| running.kept);
        let kept = running.chain(self.catching_up.values().map(|peer| peer.kept));
        kept.filter(|kept| kept.fits(log)).map(|kept| kept.after).min().unwrap_or(u64::MAX)
    }

    /// Entries up to `forgotten` are not kept any more. Gives up the snapshots after which entries are missing.
    pub(crate) fn forget(&mut self, forgotten: u64) {
        self.catching_up.retain(|_, peer| peer.kept.after >= forgotten);
        self.give_up(|running| running.kept.after < forgotten);
    }

    /// The disk is nearly full, so entries up to `forgotten` are not kept. Gives up also the snapshots that pin history
    /// below the `compacted` revision, which could be freed.
    pub(crate) fn make_space(&mut self, forgotten: u64, compacted: i64) {
        self.forget(forgotten);
        self.give_up(|running| running.revision < compacted);
    }

    fn give_up(&mut self, which: impl Fn(&Running) -> bool) {
        self.running.retain(|_, running| {
            let is_given_up = which(running);
            if is_given_up {
                running.is_given_up.store(true, Ordering::Relaxed);
            }
            // The thread that sends it reports its end.
            !is_given_up || running.outgoing.is_none()
        });
    }

    /// Whether a snapshot for `peer` may be prepared.
    pub(crate) fn may_prepare(&self, now_ns: u64, peer: u64) -> bool {
        let is_paused = self.paused.get(&peer).is_some_and(|(until_ns, _)| now_ns < *until_ns);
        !is_paused && !self.running.contains_key(&peer) && self.running.len() < MAX_RUNNING
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
            let max_bytes = snapshot_bytes(log).max(self.min_log_bytes);
            let kept = KeptLog { after: meta.index, max_bytes };
            self.pin_state(peer, &meta, kept, log, store, values);
        }
    }

    /// Pins the state as it is now, which `meta` names, until its stream has ended.
    pub(super) fn pin_state(
        &mut self,
        peer: u64,
        meta: &SnapshotMeta,
        kept: KeptLog,
        log: &Log,
        store: &mut Store,
        values: Arc<dyn Values>,
    ) {
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        // The pin comes first: it keeps the files that the source will refer to.
        let pin = log.reader().pin();
        let source = store.begin_snapshot();
        let is_given_up = Arc::new(AtomicBool::new(false));
        let sent = SentSnapshot { peer, sequence };
        let outgoing = Outgoing::new(sent, meta, pin, source, values, is_given_up.clone());
        let outgoing = Some(Box::new(outgoing));
        let revision = store.reader().current_revision();
        self.running.insert(peer, Running { kept, revision, sequence, outgoing, is_given_up });
    }

    /// Consensus lets the offered snapshot leave, with this encoded message. Returns false when there is none.
    pub(crate) fn start(
        &mut self,
        to: u64,
        meta: &SnapshotMeta,
        run: u64,
        message: &[Bytes],
        out: &mut Output,
    ) -> bool {
        let running = self.running.get_mut(&to).filter(|running| running.kept.after == meta.index);
        let Some(mut outgoing) = running.and_then(|running| running.outgoing.take()) else { return false };
        outgoing.open(run, message);
        let event = SnapshotEvent::Sending { index: meta.index };
        out.notices.push(Notice::Snapshot { peer: to, event });
        out.snapshots.push(outgoing);
        true
    }

    /// A stream has ended. Returns its peer and what operators read, unless the snapshot was given up meanwhile.
    pub(crate) fn ended(
        &mut self,
        now_ns: u64,
        sent: SentSnapshot,
        result: &Result<(), SendError>,
    ) -> Option<(u64, Notice)> {
        let SentSnapshot { peer, sequence } = sent;
        self.running.get(&peer).filter(|running| running.sequence == sequence)?;
        let Running { kept, is_given_up, .. } = self.running.remove(&peer)?;
        let index = kept.after;
        let event = match result {
            Ok(()) => {
                self.paused.remove(&peer);
                if !is_given_up.load(Ordering::Relaxed) {
                    self.catching_up.insert(peer, CatchingUp { kept, silent_since_ns: None });
                }
                SnapshotEvent::Sent { index }
            }
            Err(SendError { reason, .. }) => {
                let (until_ns, pause_ns) = self.paused.entry(peer).or_insert((0, MIN_PAUSE_NS));
                *until_ns = now_ns + *pause_ns;
                *pause_ns = MAX_PAUSE_NS.min(2 * *pause_ns);
                SnapshotEvent::NotSent { index, reason: reason.clone() }
            }
        };
        Some((peer, Notice::Snapshot { peer, event }))
    }

    /// Leadership changed: a snapshot that was offered and has not left never will.
    pub(crate) fn leadership_changed(&mut self) {
        self.running.retain(|_, running| running.outgoing.is_none());
        self.paused.clear();
    }

    /// Whether a peer that got a snapshot still catches up.
    pub(crate) fn has_catching_up(&self) -> bool {
        !self.catching_up.is_empty()
    }

    /// Notes how far the peers are that got a snapshot. Entries they need next must be kept, or they would need another
    /// snapshot. Those after `kept_anyway`, an index up to `applied`, are kept for all followers.
    pub(crate) fn note_progress(
        &mut self,
        now_ns: u64,
        applied: u64,
        kept_anyway: u64,
        peers: &[PeerStatus],
    ) {
        // Within half of what is kept anyway it will not fall behind again at once.
        let near = kept_anyway + (applied - kept_anyway) / 2;
        self.catching_up.retain(|id, catching_up| {
            let Some(peer) = peers.iter().find(|peer| peer.id == *id) else { return false };
            let CatchingUp { kept, silent_since_ns } = catching_up;
            kept.after = peer.matched.max(kept.after);
            let is_lost = match peer.recent_active {
                true => {
                    *silent_since_ns = None;
                    false
                }
                false => now_ns - *silent_since_ns.get_or_insert(now_ns) >= MAX_SILENCE_NS,
            };
            // Until it has installed the snapshot it has acknowledged older entries, if any.
            peer.matched < near && !is_lost
        });
    }
}

/// About as many bytes as a snapshot of the present state has: values, and the index.
fn snapshot_bytes(log: &Log) -> u64 {
    let (base, deltas) = log.checkpoint_bytes();
    log.reader().live_bytes() + base + deltas
}
