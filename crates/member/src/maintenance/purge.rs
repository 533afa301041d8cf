//! Purging: compacted history leaves memory in small steps, so that no request waits long behind one.

use store::{Outcome, Store};

/// Changes purged in one step: some tens of microseconds.
const STEP_CHANGES: usize = 256;

/// Pause after each step, in nanoseconds. All members purge the same history at the same time; without a pause they
/// would take every core for as long as it lasts.
const PAUSE_NS: u64 = 1_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Purge {
    /// Whether compacted history may be left.
    is_pending: bool,
    next_step_ns: u64,
    /// Physical compactions that wait: token, compacted revision, answer.
    waiting: Vec<(u64, i64, Outcome)>,
}

impl Purge {
    /// History was compacted, or a pin that kept compacted history is gone.
    pub(crate) fn start(&mut self) {
        self.is_pending = true;
    }

    /// A physical compaction is answered once its history is purged.
    pub(crate) fn answer_after(&mut self, token: u64, compacted: i64, outcome: Outcome) {
        self.waiting.push((token, compacted, outcome));
    }

    /// When the next step is due.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.is_pending.then_some(self.next_step_ns)
    }

    /// Whether a step is due.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.is_pending && now_ns >= self.next_step_ns
    }

    /// Purges one step. Returns the physical compactions that are complete: token and answer.
    pub(crate) fn step(&mut self, now_ns: u64, store: &mut Store) -> Vec<(u64, Outcome)> {
        self.next_step_ns = now_ns + PAUSE_NS;
        self.is_pending = !store.purge_step(STEP_CHANGES);
        let purged = store.reader().purged();
        let complete = self.waiting.extract_if(.., |(_, compacted, _)| *compacted <= purged);
        complete.map(|(token, _, outcome)| (token, outcome)).collect()
    }
}
