//! What others may look at while the member decides: a handful of numbers, each true on its own.
//!
//! Readers on other threads see each number at some recent moment, not all at the same one. What must be consistent
//! goes through the member.

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
    /// Requests that wait for an answer.
    pending, set_pending;
    /// Requests that failed for lack of agreement since the process started.
    failed, set_failed;
    /// Leader changes seen since the process started.
    leader_changes, set_leader_changes;
    /// Snapshots being installed: 1 or 0.
    snapshots_installing, set_snapshots_installing;
    /// Whether this member is a learner: 1 or 0.
    learner, set_learner;
    /// Bytes written in the files of the data directory: log, data segments and checkpoints, without preallocation.
    file_bytes, set_file_bytes;
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

    /// Whether the member is shutting down.
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}
