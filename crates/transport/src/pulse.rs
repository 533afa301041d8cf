//! Two small judgements about a connection, pure in `now`: does the peer answer (pings, which also measure the
//! round trip), and does it take what we send.

use std::time::{Duration, Instant};

use crate::{Error, Timeouts};

/// What a [`Pulse`] wants done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Send a ping of this number.
    Ping(u64),
    /// Nothing before this time.
    Wait(Instant),
}

/// One ping at a time: the next goes out an interval after the last, once that was answered.
pub(crate) struct Pulse {
    interval: Duration,
    patience: Duration,
    number: u64,
    sent: Option<Instant>,
    due: Instant,
}

impl Pulse {
    pub(crate) fn new(timeouts: &Timeouts, now: Instant) -> Pulse {
        Pulse { interval: timeouts.ping_interval, patience: timeouts.pong, number: 0, sent: None, due: now }
    }

    pub(crate) fn beat(&mut self, now: Instant) -> Result<Beat, Error> {
        if let Some(sent) = self.sent {
            let deadline = sent + self.patience;
            return if now < deadline { Ok(Beat::Wait(deadline)) } else { Err(Error::Silent(self.patience)) };
        }
        if now < self.due {
            return Ok(Beat::Wait(self.due));
        }
        self.number += 1;
        self.sent = Some(now);
        self.due = now + self.interval;
        Ok(Beat::Ping(self.number))
    }

    /// The round trip, if this is the number that was asked for.
    pub(crate) fn pong(&mut self, number: u64, now: Instant) -> Option<Duration> {
        if number != self.number {
            return None;
        }
        self.sent.take().map(|sent| now.duration_since(sent))
    }
}

/// Notices when bytes wait and none leave.
pub(crate) struct Progress {
    patience: Duration,
    written: u64,
    since: Instant,
}

impl Progress {
    pub(crate) fn new(timeouts: &Timeouts, now: Instant) -> Progress {
        Progress { patience: timeouts.stall, written: 0, since: now }
    }

    /// Until when more bytes must have left, if any wait. `written` is the total that ever left.
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
        match self.since + self.patience {
            _ if !waiting => Ok(None),
            deadline if now < deadline => Ok(Some(deadline)),
            _ => Err(Error::Stalled(self.patience)),
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
    fn pings_go_out_one_at_a_time_and_silence_is_death() {
        let s = Duration::from_secs;
        let start = Instant::now();
        let mut pulse = Pulse::new(&timeouts(), start);
        assert_eq!(pulse.beat(start).unwrap(), Beat::Ping(1));
        assert_eq!(pulse.beat(start + s(2)).unwrap(), Beat::Wait(start + s(5)));
        assert_eq!(pulse.pong(7, start + s(3)), None, "not the number that was asked for");
        assert_eq!(pulse.pong(1, start + s(3)), Some(s(3)));
        assert_eq!(pulse.pong(1, start + s(3)), None, "answered already");
        assert_eq!(pulse.beat(start + s(3)).unwrap(), Beat::Ping(2));
        assert!(matches!(pulse.beat(start + s(8)), Err(Error::Silent(_))));
    }

    #[test]
    fn a_stall_is_bytes_waiting_with_none_leaving() {
        let s = Duration::from_secs;
        let start = Instant::now();
        let mut progress = Progress::new(&timeouts(), start);
        assert_eq!(progress.check(false, 0, start + s(60)).unwrap(), None, "idle is no stall");
        assert_eq!(progress.check(true, 0, start + s(60)).unwrap(), Some(start + s(70)));
        assert_eq!(progress.check(true, 1, start + s(69)).unwrap(), Some(start + s(79)));
        assert!(matches!(progress.check(true, 1, start + s(79)), Err(Error::Stalled(_))));
    }
}
