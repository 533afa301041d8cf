//! What others may look at while the member decides: a handful of numbers, each true on its own.
//!
//! Readers on other threads see each number at some recent moment, not all at the same one. What must be consistent
//! goes through the member. What a step has done leaves it otherwise: `step_counts`.

pub(crate) mod step_counts;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::maintenance::memory::{MEMORY_PARTS, MemoryUse};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident, $set:ident;)*) => {
        /// The shared numbers; see the module.
        #[derive(Debug, Default)]
        pub struct MemberStatus {
            $($name: AtomicU64,)*
            stopping: AtomicBool,
            memory: [AtomicU64; MEMORY_PARTS],
            client_memory: Arc<AtomicU64>,
        }

        impl MemberStatus {
            $(
                $(#[$doc])*
                pub fn $name(&self) -> u64 {
                    self.$name.load(Ordering::Relaxed)
                }

                pub(crate) fn $set(&self, value: u64) {
                    self.$name.store(value, Ordering::Relaxed);
                }
            )*
        }
    };
}

numbers! {
    /// The member's term.
    term, set_term;
    /// The leader's id, 0 for none.
    leader, set_leader;
    /// Highest committed entry known here.
    committed_index, set_committed_index;
    /// Highest entry applied here.
    applied_index, set_applied_index;
    /// Commands applied since the process started.
    commands_applied, set_commands_applied;
    /// Commands of callers that wait for their answers.
    pending, set_pending;
    /// Linearizable reads of callers that wait for their answers.
    pending_reads, set_pending_reads;
    /// Commands of callers that got no agreement in time since the process started.
    failed, set_failed;
    /// Linearizable reads that could not be answered in time since the process started.
    late_reads, set_late_reads;
    /// Leader changes seen since the process started.
    leader_changes, set_leader_changes;
    /// Commands that wait to be proposed or forwarded.
    waiting_commands, set_waiting_commands;
    /// Linearizable reads and lease questions that wait for a ReadIndex round to begin.
    waiting_reads, set_waiting_reads;
    /// ReadIndex rounds and questions that a change of leadership has ended since the process started.
    failed_rounds, set_failed_rounds;
    /// Damaged values and entries that are being repaired.
    repairs, set_repairs;
    /// Renewals of leases acknowledged as leader since the process started.
    leases_renewed, set_leases_renewed;
    /// Leases expired as leader since the process started.
    leases_expired, set_leases_expired;
    /// When the last compaction was purged, in seconds since 1970; 0 before the first since the process started.
    compacted_at_s, set_compacted_at_s;
    /// Snapshots being installed: 1 or 0.
    snapshots_installing, set_snapshots_installing;
    /// Whether this member is a learner: 1 or 0.
    learner, set_learner;
    /// Bytes written in the files of the data directory: log, data segments and checkpoints, without preallocation.
    file_bytes, set_file_bytes;
    /// Bytes of entries and values read again since the process started, to find damage.
    scrubbed_bytes, set_scrubbed_bytes;
    /// Times that all entries and values were read again since the process started.
    scrub_rounds, set_scrub_rounds;
    /// Accounted bytes of memory past which commands that grow the store are refused; 0 for no such limit.
    memory_limit_bytes, set_memory_limit_bytes;
}

impl MemberStatus {
    /// The parts of [`MemoryUse`] and their accounted bytes, as of the last tick or applied batch.
    pub fn memory(&self) -> [(&'static str, u64); MEMORY_PARTS] {
        let mut parts = MemoryUse::default().parts();
        for ((_, bytes), shared) in parts.iter_mut().zip(&self.memory) {
            *bytes = shared.load(Ordering::Relaxed);
        }
        parts
    }

    pub(crate) fn set_memory(&self, memory: &MemoryUse) {
        for ((_, bytes), shared) in memory.parts().into_iter().zip(&self.memory) {
            shared.store(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes that connections hold for their clients: answers that wait, and requests that are not complete. Who serves
    /// connections keeps it up to date.
    pub fn client_memory(&self) -> &Arc<AtomicU64> {
        &self.client_memory
    }

    /// Whether the member is shutting down.
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}
