//! Sealing an idle log: a seal record proves that nothing was lost behind it, so that recovery need not guess.

use log::{Log, WriteJob};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    wrote_at_ns: u64,
    is_pending: bool,
}

const SEAL_AFTER_NS: u64 = log::SEAL_AFTER.as_nanos() as u64;

impl Sealing {
    /// Something was written to the log.
    pub(crate) fn wrote(&mut self, now_ns: u64) {
        self.wrote_at_ns = now_ns;
        self.is_pending = true;
    }

    /// When the log has been idle for long enough.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.is_pending.then_some(self.wrote_at_ns + SEAL_AFTER_NS)
    }

    /// Seals the log if all of it is durable; otherwise waits again.
    pub(crate) fn seal(&mut self, now_ns: u64, log: &mut Log) -> Option<WriteJob> {
        if log.durable_position() == log.position() {
            self.is_pending = false;
            if log.is_seal_due() { log.seal() } else { None }
        } else {
            self.wrote_at_ns = now_ns;
            None
        }
    }
}
