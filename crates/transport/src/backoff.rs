//! How long to rest before the next dial.

use std::time::Duration;

use crate::Timeouts;

/// A connection must have stood this long before the rest starts over from the shortest; a peer that accepts and
/// drops us in a loop is not dialled a hundred times a second.
const STEADY: Duration = Duration::from_secs(1);

pub(crate) struct Backoff {
    next: Duration,
    min: Duration,
    max: Duration,
    refused: Duration,
}

impl Backoff {
    pub(crate) fn new(timeouts: &Timeouts) -> Backoff {
        Backoff {
            next: timeouts.min_redial,
            min: timeouts.min_redial,
            max: timeouts.max_redial,
            refused: timeouts.refused,
        }
    }

    /// The rest after a dial that failed.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let rest = self.next;
        self.next = (rest * 2).min(self.max);
        rest
    }

    /// The rest after a refusal.
    pub(crate) fn after_refusal(&self) -> Duration {
        self.refused
    }

    /// The rest after losing a connection that had stood for `stood`.
    pub(crate) fn after_loss(&mut self, stood: Duration) -> Duration {
        if stood >= STEADY {
            self.next = self.min;
        }
        self.after_failure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_cap_and_starts_over_after_a_steady_connection() {
        let ms = Duration::from_millis;
        let timeouts = Timeouts { min_redial: ms(10), max_redial: ms(35), ..Timeouts::default() };
        let mut backoff = Backoff::new(&timeouts);
        let rests: Vec<_> = (0..4).map(|_| backoff.after_failure()).collect();
        assert_eq!(rests, [ms(10), ms(20), ms(35), ms(35)]);
        assert_eq!(backoff.after_loss(ms(999)), ms(35));
        assert_eq!(backoff.after_loss(ms(1000)), ms(10));
        assert_eq!(backoff.after_failure(), ms(20));
    }
}
