//! What consensus gives out, and the completions of it.
//!
//! The owner's loop: give input (`tick`, `step`, `propose`, ...), then take [`Consensus::ready`] until there is none.
//! For each ready: send `messages`; hand `write` to the log and go on; apply `committed` in order. When the log
//! reports that write `n` is synced, send what [`Consensus::synced`]`(n)` returns.
//!
//! ```text
//! input --> ready { write 7, messages, committed } --> log, peers, state machine
//!                      |
//!                      `- on disk --> synced(7) --> messages that waited for write 7
//! ```
//!
//! Which message waits for which write is the ordering rule, stated in `replication/unsynced_writes.rs`.

use crate::entry::Entry;
use crate::message::{
    Message, SnapshotMeta, entries_from_raft, entry_to_raft, hard_state_from_raft, message_from_raft,
    snapshot_from_raft,
};
use crate::node::consensus::Consensus;
use crate::node::ready::Ready;
use crate::node::status::Leadership;
use crate::replication::{Write, offer_snapshot, send_fetched};

impl Consensus {
    /// What is to be done; `None` when nothing is.
    pub fn ready(&mut self) -> Option<Ready> {
        let leadership = Leadership::of(&self.node);
        let is_idle = !self.node.has_ready()
            && self.outbox.is_empty()
            && !self.rounds.has_outcome()
            && !self.node.store().wants_something()
            && leadership == self.reported_leadership;
        if is_idle {
            self.check();
            return None;
        }
        let mut ready = Ready::default();
        let mut messages = std::mem::take(&mut self.outbox);
        if self.node.has_ready() {
            messages.append(&mut self.take_library_ready(&mut ready));
        }
        assert!(messages.iter().all(|message| message.from == self.node.raft.id), "we send as ourselves");
        ready.messages = self.writes.hold_back(messages);
        if leadership != self.reported_leadership {
            self.reported_leadership = leadership;
            ready.leadership = Some(leadership);
        }
        (ready.rounds_won, ready.rounds_dropped) = self.rounds.take_outcome();
        (ready.fetches, ready.snapshots_wanted) = self.node.mut_store().take_wanted();
        Some(ready)
    }

    /// Fills in what the raft library wants done; returns its messages, of which some must wait.
    fn take_library_ready(&mut self, ready: &mut Ready) -> Vec<Message> {
        let mut from_library = self.node.ready();
        let mut messages = from_library.take_messages();
        messages.append(&mut from_library.take_persisted_messages());
        let entries = from_library.take_entries();
        let snapshot =
            (!from_library.snapshot().is_empty()).then(|| snapshot_from_raft(from_library.snapshot()));
        let hard_state = from_library.hs().map(hard_state_from_raft);
        ready.committed = entries_from_raft(from_library.take_committed_entries());
        let (number, must_sync) = (from_library.number(), from_library.must_sync());

        // The view must hold the entries before `advance_append_async` marks them as stored.
        let view = self.node.mut_store();
        if let Some(meta) = &snapshot {
            view.restart_after(meta);
            self.handed_out = meta.index;
        }
        view.append(&entries);
        self.node.advance_append_async(from_library);

        if let (Some(first), Some(last)) = (ready.committed.first(), ready.committed.last()) {
            assert_eq!(first.index, self.handed_out + 1, "every committed entry is handed out, once");
            self.handed_out = last.index;
        }
        if hard_state.is_some() || must_sync {
            let entries = entries_from_raft(entries);
            let write = Write { number, hard_state, snapshot, entries, must_sync };
            self.writes.begin(&write, self.ticks);
            ready.write = Some(write);
        }
        let messages: Vec<_> = messages.into_iter().map(message_from_raft).collect();
        for message in &messages {
            self.windows.sent(&mut self.node, message);
        }
        messages
    }

    /// The disk ended a sync, of writes or of something that the log wrote besides: time counts from here for the write
    /// that is next (see `stalled_disk`).
    pub fn disk_synced(&mut self) {
        self.writes.disk_synced(self.ticks);
    }

    /// Write `number` is synced, and so is every write before it. Returns the messages that waited for it: send them.
    pub fn synced(&mut self, number: u64) -> Vec<Message> {
        let completed = self.writes.complete(number);
        if let Some(number) = completed.report {
            self.node.on_persist_ready(number);
        }
        if let Some(index) = self.writes.take_installed(self.node.raft.raft_log.persisted) {
            self.applied(index);
        }
        self.settle();
        completed.released
    }

    /// Entries up to `index` are applied. Call it after [`Consensus::apply_conf_change`] for a conf change among them.
    /// An installed snapshot is applied when it is persisted.
    pub fn applied(&mut self, index: u64) {
        if index > self.node.raft.raft_log.applied {
            assert!(index <= self.handed_out, "applied {index}, but only {} was handed out", self.handed_out);
            self.node.advance_apply_to(index);
            self.node.mut_store().applied(index);
            self.settle();
        }
    }

    /// The entries of a [`crate::Fetch`], from its `from` on, which the owner checked against their checksums. False,
    /// and nothing happens, if the log does not hold these entries there.
    pub fn entries_fetched(&mut self, from: u64, entries: Vec<Entry>) -> bool {
        self.node.mut_store().fetch_answered(from);
        let entries = entries.into_iter().map(entry_to_raft).collect();
        let is_ours = self.is_leader() && self.node.mut_store().keep_fetched(from, entries);
        if is_ours {
            send_fetched(&mut self.node, from);
            self.settle();
        }
        is_ours
    }

    /// The entries of a [`crate::Fetch`] cannot be read now; they are asked for again at the next heartbeat.
    pub fn fetch_failed(&mut self, from: u64) {
        self.node.mut_store().fetch_answered(from);
    }

    /// A snapshot for `peer` is ready to be streamed. True if it leaves, as a [`crate::Body::Snapshot`] message in the
    /// next ready: then keep the log from its index on until [`Consensus::report_snapshot`]. False if it is of no use
    /// and may be dropped: we do not lead, the peer is silent, has caught up or is being sent one already, or the
    /// snapshot ends before our log begins or is not applied here. A peer that still needs one is named again.
    pub fn offer_snapshot(&mut self, peer: u64, snapshot: &SnapshotMeta) -> bool {
        let leaves = offer_snapshot(&mut self.node, peer, snapshot);
        self.settle();
        leaves
    }
}
