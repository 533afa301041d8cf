//! What the node wants done, as data, and the answers to it.
//!
//! The owner's loop: give input (`tick`, `step`, `propose`, ...), then take [`Consensus::ready`] until there is none.
//! For each: send `messages`; hand `write` to the log and go on; apply `committed` in order; and when the log says
//! that write `n` is synced, send what [`Consensus::persisted`]`(n)` returns. That order (written, the library told,
//! then sent) is kept here, in one place; see `writes` for which message waits.

use raft::ProgressState;

use crate::view::ours;
use crate::{Consensus, Entry, HardState, Message, Role, SnapshotMeta, convert};

/// What to do now. Each part may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ready {
    /// To be written, in the order of the readies, without waiting for earlier ones.
    pub write: Option<Write>,
    /// To be sent now. [`crate::Body::Snapshot`] means: stream the snapshot that was offered, then report how it
    /// ended.
    pub messages: Vec<Message>,
    /// To be applied, in order. They are on our disk. Nothing after a conf change is applied before
    /// [`Consensus::apply_conf_change`].
    pub committed: Vec<Entry>,
    /// Role, leader or term are new.
    pub leadership: Option<Leadership>,
    /// Reads whose leader is confirmed: serve each when its index is applied.
    pub reads: Vec<ReadReady>,
    /// Reads that ended with the leadership: their tokens. They may be asked again of the new leader.
    pub reads_dropped: Vec<u64>,
    /// Entries to be read from the log, for [`Consensus::entries_fetched`] or [`Consensus::fetch_failed`].
    pub fetches: Vec<Fetch>,
    /// Peers that need a snapshot: prepare one, then [`Consensus::offer_snapshot`]. A peer is named again while it
    /// waits.
    pub snapshots_wanted: Vec<u64>,
}

/// What a [`Ready`] wants on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// For [`Consensus::persisted`]. Rises from write to write.
    pub number: u64,
    /// The hard state, if it is new.
    pub hard_state: Option<HardState>,
    /// A snapshot to install first: the log restarts after it. Persisted means installed.
    pub snapshot: Option<SnapshotMeta>,
    /// Consecutive entries; those the log has from the first one's index on are replaced.
    pub entries: Vec<Entry>,
    /// Whether it must be synced and reported. If not, only `commit` is new: write it whenever it suits, or never.
    pub must_sync: bool,
}

/// Who leads, as far as this node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leadership {
    /// Our own part.
    pub role: Role,
    /// The leader, 0 if none is known.
    pub leader: u64,
    /// The term.
    pub term: u64,
}

/// A read whose round was won.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadReady {
    /// What the read was asked with.
    pub token: u64,
    /// Serve it when this index is applied.
    pub index: u64,
}

/// Entries `from..to` wanted from the log; the first few that make `max_bytes` are enough, but at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    /// The first index; names the fetch.
    pub from: u64,
    /// One past the last index.
    pub to: u64,
    /// Enough bytes of payload.
    pub max_bytes: u64,
}

impl Consensus {
    /// What is to be done; `None` when nothing is.
    pub fn ready(&mut self) -> Option<Ready> {
        let leadership = self.leadership();
        let is_idle = !self.node.has_ready()
            && self.outbox.is_empty()
            && !self.rounds.has_outcome()
            && !self.node.store().wants_something()
            && leadership == self.leadership_told;
        if is_idle {
            return None;
        }
        let mut ready = Ready::default();
        let mut messages = std::mem::take(&mut self.outbox);
        if self.node.has_ready() {
            messages.append(&mut self.take_raft_ready(&mut ready));
        }
        ready.messages = self.writes.hold_back(messages);
        if leadership != self.leadership_told {
            self.leadership_told = leadership;
            ready.leadership = Some(leadership);
        }
        (ready.reads, ready.reads_dropped) = self.rounds.take();
        (ready.fetches, ready.snapshots_wanted) = self.node.mut_store().take_wanted();
        Some(ready)
    }

    fn take_raft_ready(&mut self, ready: &mut Ready) -> Vec<Message> {
        let mut raft_ready = self.node.ready();
        let mut messages = raft_ready.take_messages();
        messages.append(&mut raft_ready.take_persisted_messages());
        let entries = raft_ready.take_entries();
        let snapshot =
            (!raft_ready.snapshot().is_empty()).then(|| convert::snapshot_from_raft(raft_ready.snapshot()));
        let hard_state = raft_ready.hs().map(convert::hard_state_from_raft);
        ready.committed = ours(raft_ready.take_committed_entries());
        let (number, must_sync) = (raft_ready.number(), raft_ready.must_sync());

        // The view must hold what the library believes stored before it is told so.
        let view = self.node.mut_store();
        if let Some(meta) = &snapshot {
            view.restart_after(meta);
            self.handed_out = meta.index;
        }
        view.append(&entries);
        self.node.advance_append_async(raft_ready);

        if let Some(entry) = ready.committed.last() {
            self.handed_out = entry.index;
        }
        if hard_state.is_some() || must_sync {
            let write = Write { number, hard_state, snapshot, entries: ours(entries), must_sync };
            self.begin_write(&write);
            ready.write = Some(write);
        }
        let messages: Vec<_> = messages.into_iter().map(convert::message_from_raft).collect();
        for message in &messages {
            self.inflight.sent(&mut self.node, message);
        }
        messages
    }

    fn begin_write(&mut self, write: &Write) {
        let told = self.hard_state_told;
        let new = write.hard_state.unwrap_or(told);
        self.hard_state_told = new;
        if write.must_sync {
            let changes_vote = (new.term, new.vote) != (told.term, told.vote);
            self.writes.begin(write, changes_vote, self.ticks);
        }
    }

    /// Write `number`, and so every one before it, is synced. Returns the messages that waited for it: send them.
    pub fn persisted(&mut self, number: u64) -> Vec<Message> {
        let written = self.writes.complete(number);
        self.installed = written.snapshot.or(self.installed);
        if let Some(number) = written.tell {
            self.node.on_persist_ready(number);
        }
        let persisted = self.node.raft.raft_log.persisted;
        if let Some(index) = self.installed.take_if(|index| *index <= persisted) {
            self.applied(index);
        }
        self.settle();
        written.released
    }

    /// Entries up to `index` are applied. Call it after [`Consensus::apply_conf_change`] for a conf change among them.
    /// An installed snapshot is applied when it is persisted.
    pub fn applied(&mut self, index: u64) {
        if index <= self.node.raft.raft_log.applied {
            return;
        }
        assert!(index <= self.handed_out, "applied {index}, but only {} was handed out", self.handed_out);
        self.node.advance_apply_to(index);
        self.node.mut_store().applied(index);
        self.settle();
    }

    /// The entries a [`Fetch`] asked for, from its `from` on, checked by the owner against their checksums. False,
    /// and nothing happens, if they are not what the log holds there.
    pub fn entries_fetched(&mut self, from: u64, entries: Vec<Entry>) -> bool {
        self.node.mut_store().fetch_ended(from);
        let entries = entries.into_iter().map(convert::entry_to_raft).collect();
        let is_ours = self.is_leader() && self.node.mut_store().keep_chunk(from, entries);
        if is_ours {
            self.send_chunk(from);
            self.settle();
        }
        is_ours
    }

    /// The entries of a [`Fetch`] cannot be read now; they are asked for again at the next heartbeat.
    pub fn fetch_failed(&mut self, from: u64) {
        self.node.mut_store().fetch_ended(from);
    }

    /// Sends to the peers that wait for the chunk as much of it as their windows take.
    fn send_chunk(&mut self, from: u64) {
        let Some(end) = self.node.store().chunk_end(from) else { return };
        let waiting: Vec<u64> =
            self.peers().iter().filter(|peer| peer.next == from).map(|peer| peer.id).collect();
        for peer in waiting.into_iter().filter(|&peer| peer != self.id) {
            let mut next = from;
            while let Some(progress) = self.node.raft.prs().get(peer) {
                let stuck = next != from && progress.next_idx == next;
                next = progress.next_idx;
                if stuck || next >= end || progress.is_paused() {
                    break;
                }
                self.node.raft.send_append(peer);
            }
        }
    }

    /// A snapshot for `peer` is ready to be streamed. True if it leaves, as a [`crate::Body::Snapshot`] message in the
    /// next ready: then keep the log from its index on until [`Consensus::report_snapshot`]. False if it is of no use,
    /// and may be dropped: we do not lead, the peer is silent or caught up meanwhile or is already being sent one, or
    /// the snapshot ends before our log begins or is not applied here. A peer that still needs one is named again.
    pub fn offer_snapshot(&mut self, peer: u64, snapshot: &SnapshotMeta) -> bool {
        let log = &self.node.raft.raft_log;
        let is_useful = self.is_leader()
            && self.node.raft.prs().get(peer).is_some()
            && !self.awaits_snapshot(peer)
            && (log.first_index() - 1..=log.applied).contains(&snapshot.index)
            && log.match_term(snapshot.index, snapshot.term);
        if !is_useful {
            return false;
        }
        self.node.mut_store().offer(peer, snapshot);
        self.node.raft.send_append(peer);
        self.node.mut_store().withdraw_offer(peer);
        self.settle();
        self.awaits_snapshot(peer)
    }

    fn awaits_snapshot(&self, peer: u64) -> bool {
        let progress = self.node.raft.prs().get(peer);
        progress.is_some_and(|progress| progress.state == ProgressState::Snapshot)
    }
}
