//! Detects dead connections, as pure functions of `now`: a peer that answers no ping ([`Keepalive`]; pings also measure
//! the round trip), and a peer that takes no bytes ([`StallDetector`]).

use std::time::{Duration, Instant};

use crate::config::Timeouts;
use crate::error::Error;

/// What to do about the next ping.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeepaliveAction {
    /// Send a ping of this number.
    Ping(u64),
    /// Do nothing before this time.
    Wait(Instant),
}

/// One ping is under way at a time. The next is sent an interval after the one before, once that was answered.
pub(crate) struct Keepalive {
    interval: Duration,
    allowed: Duration,
    number: u64,
    sent: Option<Instant>,
    due: Instant,
}

impl Keepalive {
    pub(crate) fn new(timeouts: &Timeouts, now: Instant) -> Keepalive {
        Keepalive {
            interval: timeouts.ping_interval,
            allowed: timeouts.pong,
            number: 0,
            sent: None,
            due: now,
        }
    }

    /// What to do at `now`; an error when a ping is unanswered for too long.
    pub(crate) fn next_action(&mut self, now: Instant) -> Result<KeepaliveAction, Error> {
        if let Some(sent) = self.sent {
            let deadline = sent + self.allowed;
            return if now < deadline {
                Ok(KeepaliveAction::Wait(deadline))
            } else {
                Err(Error::Silent(self.allowed))
            };
        }
        if now < self.due {
            return Ok(KeepaliveAction::Wait(self.due));
        }
        self.number += 1;
        self.sent = Some(now);
        self.due = now + self.interval;
        Ok(KeepaliveAction::Ping(self.number))
    }

    /// The round trip, if this pong has the number of the ping under way.
    pub(crate) fn pong(&mut self, number: u64, now: Instant) -> Option<Duration> {
        if number != self.number {
            return None;
        }
        self.sent.take().map(|sent| now.duration_since(sent))
    }
}

/// Detects that bytes wait for the socket and none leave.
pub(crate) struct StallDetector {
    allowed: Duration,
    written: u64,
    since: Instant,
}

impl StallDetector {
    pub(crate) fn new(timeouts: &Timeouts, now: Instant) -> StallDetector {
        StallDetector { allowed: timeouts.stall, written: 0, since: now }
    }

    /// The time by which more bytes must have left, if any wait. `written` is the total that ever left.
    pub(crate) fn check(
        &mut self,
        waiting: bool,
        written: u64,
        now: Instant,
    ) -> Result<Option<Instant>, Error> {
        if !waiting || written != self.written {
            self.written = written;
            self.since = now;
        }
        match self.since + self.allowed {
            _ if !waiting => Ok(None),
            deadline if now < deadline => Ok(Some(deadline)),
            _ => Err(Error::Stalled(self.allowed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts() -> Timeouts {
        let s = Duration::from_secs;
        Timeouts { ping_interval: s(1), pong: s(5), stall: s(10), ..Timeouts::default() }
    }

    #[test]
    fn one_ping_is_under_way_at_a_time_and_silence_ends_the_connection() {
        let s = Duration::from_secs;
        let start = Instant::now();
        let mut keepalive = Keepalive::new(&timeouts(), start);
        assert_eq!(keepalive.next_action(start).unwrap(), KeepaliveAction::Ping(1));
        assert_eq!(keepalive.next_action(start + s(2)).unwrap(), KeepaliveAction::Wait(start + s(5)));
        assert_eq!(keepalive.pong(7, start + s(3)), None, "not the number of the ping");
        assert_eq!(keepalive.pong(1, start + s(3)), Some(s(3)));
        assert_eq!(keepalive.pong(1, start + s(3)), None, "answered already");
        assert_eq!(keepalive.next_action(start + s(3)).unwrap(), KeepaliveAction::Ping(2));
        assert!(matches!(keepalive.next_action(start + s(8)), Err(Error::Silent(_))));
    }

    #[test]
    fn a_stall_is_bytes_waiting_with_none_leaving() {
        let s = Duration::from_secs;
        let start = Instant::now();
        let mut detector = StallDetector::new(&timeouts(), start);
        assert_eq!(detector.check(false, 0, start + s(60)).unwrap(), None, "idle is no stall");
        assert_eq!(detector.check(true, 0, start + s(60)).unwrap(), Some(start + s(70)));
        assert_eq!(detector.check(true, 1, start + s(69)).unwrap(), Some(start + s(79)));
        assert!(matches!(detector.check(true, 1, start + s(79)), Err(Error::Stalled(_))));
    }
}
