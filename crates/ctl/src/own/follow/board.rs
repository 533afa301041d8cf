//! What a copy says about itself while it runs: figures, and lines for its operator.
//!
//! Its parts run beside each other in one thread. They write here, and `report.rs` shows it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Samples of the source's revision that are kept: ten minutes of one a second. Beyond that every second one is left
/// out.
const MAX_SAMPLES: usize = 600;

/// What a copy is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FollowPhase {
    #[default]
    Beginning,
    /// Keys at one revision.
    Copying,
    /// Changes as they come.
    Following,
    Verifying,
}

/// Figures of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FollowFigures {
    pub(super) phase: FollowPhase,
    /// Keys handled in this phase, and keys there were when it began.
    pub(super) keys: u64,
    pub(super) all_keys: u64,
    /// Keys put and deleted in the destination by this process.
    pub(super) written: u64,
    /// The revision of the source up to which the destination has everything.
    pub(super) applied: i64,
    /// The newest revision of the source that was seen.
    pub(super) source: i64,
}

/// Figures, and lines that were not shown yet.
#[derive(Default)]
pub(super) struct FollowBoard {
    figures: Cell<FollowFigures>,
    notes: RefCell<Vec<String>>,
    changed: Notify,
}

impl FollowBoard {
    pub(super) fn figures(&self) -> FollowFigures {
        self.figures.get()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut FollowFigures)) {
        let mut figures = self.figures.get();
        change(&mut figures);
        self.figures.set(figures);
    }

    /// Notes that the destination has everything up to this revision.
    pub(super) fn applied(&self, revision: i64) {
        self.update(|figures| {
            figures.applied = figures.applied.max(revision);
            figures.source = figures.source.max(revision);
        });
    }

    /// Says something to the operator.
    pub(super) fn note(&self, line: impl Into<String>) {
        self.notes.borrow_mut().push(line.into());
        self.changed.notify_one();
    }

    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.borrow_mut())
    }

    /// Waits for a line.
    pub(super) async fn noted(&self) {
        self.changed.notified().await;
    }
}

/// How long the destination has been behind: since the source was first seen at a revision that it does not have.
#[derive(Default)]
pub(super) struct SourceLag {
    /// When the source was first seen at which revision, in the order of both.
    samples: VecDeque<(Instant, i64)>,
}

impl SourceLag {
    /// Takes a sample, and returns by how many revisions and how long the destination is behind.
    pub(super) fn sample(&mut self, now: Instant, source: i64, applied: i64) -> (i64, Duration) {
        if self.samples.back().is_none_or(|(_, newest)| *newest < source) {
            self.samples.push_back((now, source));
        }
        while self.samples.front().is_some_and(|(_, revision)| *revision <= applied) {
            self.samples.pop_front();
        }
        if self.samples.len() > MAX_SAMPLES {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        let since = self.samples.front().map_or(now, |(at, _)| *at);
        ((source - applied).max(0), now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_counts_from_the_first_revision_that_is_missing() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut lag = SourceLag::default();
        assert_eq!(lag.sample(after(0), 10, 10), (0, Duration::ZERO));
        assert_eq!(lag.sample(after(1), 15, 10), (5, Duration::ZERO));
        assert_eq!(lag.sample(after(4), 20, 10), (10, Duration::from_secs(3)));
        assert_eq!(lag.sample(after(5), 20, 15), (5, Duration::from_secs(1)));
        assert_eq!(lag.sample(after(6), 20, 20), (0, Duration::ZERO));
        assert_eq!(lag.sample(after(7), 20, 25), (0, Duration::ZERO));
    }

    #[test]
    fn a_long_lag_keeps_few_samples_and_its_beginning() {
        let start = Instant::now();
        let mut lag = SourceLag::default();
        for number in 1..5000u64 {
            let now = start + Duration::from_secs(number);
            let (_, behind) = lag.sample(now, number as i64, 0);
            assert_eq!(behind, Duration::from_secs(number - 1));
            assert!(lag.samples.len() <= MAX_SAMPLES);
        }
    }
}
