//! What a client may do in a second, and how often it may ping.

use std::time::Duration;

use crate::limits::{MAX_PING_STRIKES, MIN_IDLE_PING_INTERVAL};

/// Counts something within each second of a connection's life.
#[derive(Debug, Default)]
pub(crate) struct SecondCounter {
    second: u64,
    count: u32,
}

impl SecondCounter {
    /// Counts one more; whether it is still within `max` of them in this second.
    pub(crate) fn admit(&mut self, now: Duration, max: u32) -> bool {
        if now.as_secs() != self.second {
            *self = SecondCounter { second: now.as_secs(), count: 0 };
        }
        self.count += 1;
        self.count <= max
    }
}

/// Enforces the rate of a client's pings, as grpc-go does: two that come too soon are forgiven, and whenever the client
/// was sent headers or data the count begins again, because it may measure its round trip with them.
#[derive(Debug, Default)]
pub(crate) struct PingPolicy {
    strikes: u32,
    last: Option<Duration>,
    has_sent: bool,
}

impl PingPolicy {
    /// Headers or data were sent.
    pub(crate) fn sent(&mut self) {
        self.has_sent = true;
    }

    /// A ping came; whether it is tolerated.
    pub(crate) fn admit(&mut self, now: Duration, has_streams: bool, min_interval: Duration) -> bool {
        let last = self.last.replace(now);
        if std::mem::take(&mut self.has_sent) {
            self.strikes = 0;
            return true;
        }
        let min_interval = if has_streams { min_interval } else { MIN_IDLE_PING_INTERVAL };
        if last.is_some_and(|last| last + min_interval > now) {
            self.strikes += 1;
        }
        self.strikes <= MAX_PING_STRIKES
    }
}

#[cfg(test)]
mod tests {
    //! grpc-go's rules for pings.
    use super::*;

    const MIN: Duration = Duration::from_secs(5);

    /// Whether pings at these seconds are tolerated.
    fn pings(seconds: &[u64], has_streams: bool) -> Vec<bool> {
        let mut policy = PingPolicy::default();
        seconds.iter().map(|at| policy.admit(Duration::from_secs(*at), has_streams, MIN)).collect()
    }

    #[test]
    fn pings_that_come_too_soon_are_forgiven_twice() {
        assert_eq!(pings(&[0, 5, 10, 15, 20], true), [true; 5]);
        assert_eq!(pings(&[0, 1, 2, 3], true), [true, true, true, false]);
        assert_eq!(pings(&[0, 5, 10, 15], false), [true, true, true, false], "no stream is open");
        assert_eq!(pings(&[0, 7_200, 14_400, 21_600], false), [true; 4]);
    }

    #[test]
    fn what_is_sent_forgives() {
        let mut policy = PingPolicy::default();
        for at in 0..100 {
            policy.sent();
            assert!(policy.admit(Duration::from_secs(at), true, MIN));
        }
    }

    #[test]
    fn a_second_begins_with_nothing_counted() {
        let mut counter = SecondCounter::default();
        let at = Duration::from_millis;
        assert!(counter.admit(at(999), 1));
        assert!(!counter.admit(at(999), 1));
        assert!(counter.admit(at(1_000), 1));
    }
}
