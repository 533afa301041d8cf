//! A failure that a member retries is logged once, and then once a minute while it lasts.
//!
//! On a full disk the same job fails ten times a second; the first line says all there is to say.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time after which a failure that lasts is logged again.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// Different failures remembered. More at once have never been seen; those beyond are only logged more often.
const MAX_REMEMBERED: usize = 16;

struct LoggedFailure {
    text: String,
    at: Instant,
    /// How often it happened since it was logged.
    since: u64,
}

/// The failures logged last, oldest first.
#[derive(Default)]
pub(crate) struct RepeatedFailures(VecDeque<LoggedFailure>);

impl RepeatedFailures {
    /// A failure happened. If it is to be logged now, returns how often it happened since the last time, with this one.
    pub(crate) fn due(&mut self, text: &str, now: Instant) -> Option<u64> {
        let known = self.0.iter().position(|logged| logged.text == text);
        let Some(known) = known else {
            self.remember(text.to_owned(), now);
            return Some(1);
        };
        let logged = &mut self.0[known];
        logged.since += 1;
        if now.duration_since(logged.at) < REPEAT_INTERVAL {
            return None;
        }
        let logged = self.0.remove(known)?;
        self.remember(logged.text, now);
        Some(logged.since)
    }

    fn remember(&mut self, text: String, at: Instant) {
        if self.0.len() == MAX_REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(LoggedFailure { text, at, since: 0 });
    }
}

#[cfg(test)]
mod tests {
    //! The clock is an argument.
    use super::*;

    #[test]
    fn a_failure_that_lasts_is_logged_once_a_minute_with_its_count() {
        let mut failures = RepeatedFailures::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(failures.due("full", start), Some(1));
        assert_eq!(failures.due("full", after(1)), None);
        assert_eq!(failures.due("slow", after(1)), Some(1), "another one is logged at once");
        assert_eq!(failures.due("full", after(59)), None);
        assert_eq!(failures.due("full", after(60)), Some(3));
        assert_eq!(failures.due("full", after(61)), None);
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut failures = RepeatedFailures::default();
        let now = Instant::now();
        for number in 0..=MAX_REMEMBERED {
            assert_eq!(failures.due(&number.to_string(), now), Some(1));
        }
        assert_eq!(failures.0.len(), MAX_REMEMBERED);
        assert_eq!(failures.due("0", now), Some(1), "the oldest was forgotten");
        assert_eq!(failures.due("2", now), None);
    }
}
