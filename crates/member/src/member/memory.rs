//! The memory limit: what all components take together, and the alarm when it is too much.

use std::sync::atomic::Ordering;

use api::etcdserverpb::AlarmType;

use super::Member;
use crate::io::{Notice, Now, Output};
use crate::maintenance::memory::MemoryUse;

/// Bytes of the newest entries that stay in memory when idle, for a follower or a watcher that is a little behind.
const MAX_IDLE_BYTES: usize = 1 << 20;

impl Member {
    /// Compares what is accounted with the limit: after each step that applied something, and each tick, because
    /// purging, watchers and waiting commands change it, too. Returns what is accounted.
    pub(super) fn account_memory(&mut self, out: &mut Output) -> MemoryUse {
        let memory = self.memory_use();
        self.status.set_memory(&memory);
        let accounted_bytes = memory.limited();
        if self.memory_limit.accounted(accounted_bytes) {
            out.notices.push(Notice::MemoryLimit {
                exceeded: self.memory_limit.is_exceeded(),
                accounted_bytes,
                limit_bytes: self.memory_limit.bytes(),
                largest: memory.largest(),
            });
        }
        memory
    }

    /// Puts another limit in force; 0 is none.
    pub(super) fn set_memory_limit(&mut self, bytes: u64) {
        self.memory_limit.set_bytes(bytes);
        self.status.set_memory_limit_bytes(bytes);
    }

    /// The work of a tick: an excess here stops the whole cluster from growing, also while another member leads.
    pub(super) fn tick_memory(&mut self, now: Now, out: &mut Output) {
        let changes = self.account_memory(out).changes;
        if !self.checkpoints.is_running() && self.memory_limit.wants_checkpoint(now.monotonic_ns, changes) {
            self.checkpoints.want(self.apply_queue.applied());
        }
        if self.memory_limit.is_exceeded() && self.leadership.leader != 0 {
            self.raise_alarm(AlarmType::Nospace, self.config.member_id);
        }
        let applied = self.status.commands_applied();
        if self.activity.becomes_idle(now.monotonic_ns, applied) {
            self.log.release_memory(MAX_IDLE_BYTES as u64);
            self.consensus.release_memory(MAX_IDLE_BYTES);
        }
    }

    fn memory_use(&self) -> MemoryUse {
        let (store, log) = (self.reader.memory(), self.log.memory());
        MemoryUse {
            index: store.index,
            revision_log: store.revision_log,
            leases: store.leases,
            auth: store.auth,
            changes: store.changes,
            watches: self.hub.accounted_bytes(),
            // Nearly all entries that consensus holds are those of the tail, and share its bytes.
            log: log.tail.max(self.consensus.recent_bytes() as u64) + log.entry_index,
            value_cache: log.value_cache,
            commands: self.proposals.waiting_bytes() as u64,
            snapshots: self.receiving.memory_bytes(),
            clients: self.status.client_memory().load(Ordering::Relaxed),
        }
    }
}
