//! What a member tries again and again is said once, and once a minute while it lasts.
//!
//! On a full disk the same job fails ten times a second; the first line says all there is to say.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A trouble that lasts is said again after this time.
const AGAIN: Duration = Duration::from_secs(60);

/// Different troubles remembered; more at once have never been seen, and those beyond are only said more often.
const REMEMBERED: usize = 16;

struct Said {
    text: String,
    at: Instant,
    /// How often it happened since it was said.
    since: u64,
}

/// The troubles said last, oldest first.
#[derive(Default)]
pub(super) struct RepeatedFailures(VecDeque<Said>);

impl RepeatedFailures {
    /// A trouble happened. Returns how often it did since it was last said, this time counted, if it is to be said now.
    pub(super) fn due(&mut self, text: &str, now: Instant) -> Option<u64> {
        let known = self.0.iter().position(|said| said.text == text);
        let Some(known) = known else {
            self.say(text.to_owned(), now);
            return Some(1);
        };
        let said = &mut self.0[known];
        said.since += 1;
        if now.duration_since(said.at) < AGAIN {
            return None;
        }
        let said = self.0.remove(known)?;
        self.say(said.text, now);
        Some(said.since)
    }

    fn say(&mut self, text: String, at: Instant) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Said { text, at, since: 0 });
    }
}

#[cfg(test)]
mod tests {
    //! Time is handed in.
    use super::*;

    #[test]
    fn a_trouble_that_lasts_is_said_once_a_minute_with_its_number() {
        let mut troubles = RepeatedFailures::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(troubles.due("full", start), Some(1));
        assert_eq!(troubles.due("full", after(1)), None);
        assert_eq!(troubles.due("slow", after(1)), Some(1), "another one is said at once");
        assert_eq!(troubles.due("full", after(59)), None);
        assert_eq!(troubles.due("full", after(60)), Some(3));
        assert_eq!(troubles.due("full", after(61)), None);
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut troubles = RepeatedFailures::default();
        let now = Instant::now();
        for number in 0..=REMEMBERED {
            assert_eq!(troubles.due(&number.to_string(), now), Some(1));
        }
        assert_eq!(troubles.0.len(), REMEMBERED);
        assert_eq!(troubles.due("0", now), Some(1), "the oldest was forgotten");
        assert_eq!(troubles.due("2", now), None);
    }
}
