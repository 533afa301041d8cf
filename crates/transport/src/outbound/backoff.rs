//! The delay before the next dial: it doubles with each failure, up to a limit.

use std::time::Duration;

use crate::config::Timeouts;

/// A connection must have lasted this long to reset the delay; so a peer that accepts and drops us in a loop is not
/// dialled a hundred times a second.
const STEADY: Duration = Duration::from_secs(1);

/// The delays of one outgoing stream.
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

    /// The delay after a dial that failed.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.max);
        delay
    }

    /// The delay after a refusal.
    pub(crate) fn after_refusal(&self) -> Duration {
        self.refused
    }

    /// The delay after the loss of a connection that lasted for `lasted`.
    pub(crate) fn after_loss(&mut self, lasted: Duration) -> Duration {
        if lasted >= STEADY {
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
        let delays: Vec<_> = (0..4).map(|_| backoff.after_failure()).collect();
        assert_eq!(delays, [ms(10), ms(20), ms(35), ms(35)]);
        assert_eq!(backoff.after_loss(ms(999)), ms(35));
        assert_eq!(backoff.after_loss(ms(1000)), ms(10));
        assert_eq!(backoff.after_failure(), ms(20));
    }
}
