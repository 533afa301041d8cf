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
mod tests {
    //! How fast history is purged, and which compactions are answered.
    use super::*;
    use crate::jobs::{Done, JobLane};
    use crate::tests::LogAndStore;

    /// A store with this many changes of one key below its compact revision, which is returned.
    fn compacted(changes: usize) -> (LogAndStore, i64) {
        let mut state = LogAndStore::new(&[1]);
        (0..=changes).for_each(|_| state.put("key", "value"));
        let revision = state.compact();
        (state, revision)
    }

    fn outcome() -> Outcome {
        Err(api::Error::Corrupt)
    }

    fn tokens(answers: Vec<(u64, Outcome)>) -> Vec<u64> {
        answers.into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn history_is_purged_in_steps_with_a_pause_after_each() {
        let (mut state, _) = compacted(2 * STEP_CHANGES);
        let mut purge = Purge::default();
        assert_eq!(purge.next_due_ns(), None);
        purge.start();
        for (now_ns, left) in [(0, 2 + STEP_CHANGES), (PAUSE_NS, 2)] {
            assert!(purge.is_due(now_ns));
            purge.step(now_ns, &mut state.store);
            assert_eq!(state.references().len(), left);
            assert!(!purge.is_due(now_ns + PAUSE_NS - 1));
            assert_eq!(purge.next_due_ns(), Some(now_ns + PAUSE_NS));
            assert_eq!(purge.take_finished(now_ns), None);
        }
        purge.step(2 * PAUSE_NS, &mut state.store);
        assert_eq!(state.references().len(), 1);
        assert_eq!(purge.next_due_ns(), None, "nothing is left");
        assert_eq!(purge.take_finished(2 * PAUSE_NS), Some(2 * PAUSE_NS));
        assert_eq!(purge.take_finished(3 * PAUSE_NS), None);
    }

    /// Many short jobs make one hash, and nothing is purged before the last: behind a copy or a checkpoint each they
    /// would take half a minute for a million keys.
    #[test]
    fn the_hash_of_a_compaction_does_not_wait_for_relocation_and_checkpoints() {
        let (mut state, _) = compacted(2);
        let mut purge = Purge::default();
        purge.start();
        purge.step(0, &mut state.store);
        let job = purge.begin_hash(&mut state.store, false).expect("a compaction was purged");
        assert_eq!((job.kind(), job.lane()), ("hash_compaction", JobLane::Repair));
    }

    #[test]
    fn a_large_compaction_is_hashed_only_where_it_is_wanted() {
        let mut state = LogAndStore::new(&[1]);
        (0..10).for_each(|number| state.put(&format!("key{number}"), "value"));
        state.compact();
        let mut purge = Purge { max_hashed_versions: 8, ..Purge::default() };
        purge.step(0, &mut state.store);
        let job = purge.begin_hash(&mut state.store, true).expect("a compaction was purged");
        let Done::CompactionHashed(Ok(hash)) = job.run() else { panic!("ten versions are hashed at once") };
        state.store.keep_hash(hash);
        purge.hashed();
        // All ten are kept unchanged by the next one, too many by one.
        state.put("key0", "new");
        state.compact();
        purge.step(0, &mut state.store);
        assert!(purge.begin_hash(&mut state.store, false).is_none(), "it kept nine unchanged");
        assert!(purge.begin_hash(&mut state.store, true).is_some());
        assert!(purge.begin_hash(&mut state.store, true).is_none(), "one at a time");
    }

    #[test]
    fn a_physical_compaction_is_answered_when_its_history_is_purged() {
        let (mut state, revision) = compacted(STEP_CHANGES);
        let mut purge = Purge::default();
        purge.start();
        purge.answer_after(1, revision, outcome()).expect("there is room");
        purge.answer_after(2, revision + 1, outcome()).expect("there is room");
        assert!(purge.step(0, &mut state.store).is_empty());
        assert_eq!(tokens(purge.step(0, &mut state.store)), [1]);
        state.put("key", "value");
        assert_eq!(state.compact(), revision + 1);
        assert_eq!(tokens(purge.step(0, &mut state.store)), [2]);
    }

    #[test]
    fn a_pinned_revision_holds_up_the_answer_until_purging_starts_again() {
        let mut state = LogAndStore::new(&[1]);
        state.put("key", "old");
        let pin = state.store.begin_snapshot();
        state.put("key", "new");
        let revision = state.compact();
        let mut purge = Purge::default();
        purge.start();
        purge.answer_after(1, revision, outcome()).expect("there is room");
        assert!(purge.step(0, &mut state.store).is_empty());
        assert_eq!(purge.next_due_ns(), None, "there is nothing to do while the pin lasts");
        drop(pin);
        purge.start();
        assert_eq!(tokens(purge.step(0, &mut state.store)), [1]);
    }

    #[test]
    fn a_bounded_number_of_physical_compactions_waits() {
        let mut purge = Purge::default();
        assert!(!purge.is_awaited());
        for token in 0..MAX_WAITING as u64 {
            purge.answer_after(token, 1, Err(api::Error::Compacted)).expect("there is room");
        }
        assert!(purge.is_awaited());
        let refused = purge.answer_after(u64::MAX, 1, Err(api::Error::Compacted));
        assert_eq!(refused, Err(api::Error::TooManyRequests));
    }
}
