//! Purging: compacted history leaves memory in small steps, so that no request waits long behind one.

use store::{Outcome, Store};

use crate::jobs::Job;

/// Changes purged in one step: some tens of microseconds.
const STEP_CHANGES: usize = 256;

/// Pause after each step, in nanoseconds. All members purge the same history at the same time; without a pause they
/// would take every core for as long as it lasts.
const PAUSE_NS: u64 = 1_000_000;

/// Versions that a compaction may have kept unchanged to be hashed. Hashing them takes one walk over all keys, about
/// 0.1 s in the background; each further million would take one more, and nothing is purged meanwhile.
const MAX_HASHED_VERSIONS: u64 = 1 << 20;

/// Physical compactions that wait for their history to be purged. A client waits for one at a time, so only many
/// clients, or one that gives up and tries again, come near it.
const MAX_WAITING: usize = 1_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Purge {
    /// Whether compacted history may be left.
    is_pending: bool,
    next_step_ns: u64,
    /// When the first step was made that removed something, while purging goes on. Not for what was compacted before
    /// this process started: it would count as a compaction of now.
    began_ns: Option<u64>,
    /// Whether a job hashes what a compaction has kept. Nothing is purged meanwhile.
    is_hashing: bool,
    /// Versions that a compaction may have kept unchanged to be hashed, unless large ones are.
    max_hashed_versions: u64,
    /// Physical compactions that wait: token, compacted revision, answer.
    waiting: Vec<(u64, i64, Outcome)>,
}

impl Default for Purge {
    fn default() -> Purge {
        Purge {
            is_pending: false,
            next_step_ns: 0,
            began_ns: None,
            is_hashing: false,
            max_hashed_versions: MAX_HASHED_VERSIONS,
            waiting: Vec::new(),
        }
    }
}

impl Purge {
    /// History was compacted, or a pin that kept compacted history is gone.
    pub(crate) fn start(&mut self) {
        self.is_pending = true;
    }

    /// The job that hashed what a compaction has kept is done.
    pub(crate) fn hashed(&mut self) {
        self.is_hashing = false;
        self.is_pending = true;
    }

    /// The job that hashes what the compaction has kept that was just purged, if one was. A compaction that kept too
    /// many versions is hashed only if `hashes_large`.
    pub(crate) fn begin_hash(&mut self, store: &mut Store, hashes_large: bool) -> Option<Job> {
        if self.is_hashing {
            return None;
        }
        let max_versions = if hashes_large { u64::MAX } else { self.max_hashed_versions };
        let scan = store.begin_compaction_hash(max_versions)?;
        self.is_hashing = true;
        Some(Job::HashCompaction(Box::new(scan)))
    }

    /// A physical compaction is answered once its history is purged, however long that takes: it has no deadline here.
    ///
    /// # Errors
    /// [`api::Error::TooManyRequests`] if too many wait. The compaction itself has been applied.
    pub(crate) fn answer_after(
        &mut self,
        token: u64,
        compacted: i64,
        outcome: Outcome,
    ) -> Result<(), api::Error> {
        if self.waiting.len() >= MAX_WAITING {
            return Err(api::Error::TooManyRequests);
        }
        self.waiting.push((token, compacted, outcome));
        Ok(())
    }

    /// Whether a physical compaction waits.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When the next step is due.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.is_pending.then_some(self.next_step_ns)
    }

    /// Whether a step is due.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.is_pending && now_ns >= self.next_step_ns
    }

    /// How long purging a compaction took, in nanoseconds, if the last step has completed it.
    pub(crate) fn take_finished(&mut self, now_ns: u64) -> Option<u64> {
        if self.is_pending {
            return None;
        }
        self.began_ns.take().map(|began_ns| now_ns.saturating_sub(began_ns))
    }

    /// Purges one step. Returns the physical compactions that are complete: token and answer.
    pub(crate) fn step(&mut self, now_ns: u64, store: &mut Store) -> Vec<(u64, Outcome)> {
        self.next_step_ns = now_ns + PAUSE_NS;
        let before = store.reader().purged();
        self.is_pending = !store.purge_step(STEP_CHANGES);
        let purged = store.reader().purged();
        if (self.is_pending || purged > before) && store.has_compacted() {
            self.began_ns.get_or_insert(now_ns);
        }
        let complete = self.waiting.extract_if(.., |(_, compacted, _)| *compacted <= purged);
        complete.map(|(token, _, outcome)| (token, outcome)).collect()
    }
}

#[cfg(test)]
mod tests;
