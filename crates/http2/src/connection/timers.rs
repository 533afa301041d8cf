//! Whether the client is there: when it was heard, and when it was pinged.

use std::time::Duration;

use crate::limits::FIRST_REQUEST_TIME;
use crate::settings::Keepalive;

/// When a client was heard, and asked whether it is there.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heard: Duration,
    /// When it was pinged, if nothing has come since.
    pinged: Option<Duration>,
    first: FirstRequest,
}

/// The client that has not asked for anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FirstRequest {
    #[default]
    Awaited,
    /// It was pinged at this time, and nothing has come since.
    Pinged(Duration),
    /// There was a request, or it has answered the ping.
    Settled,
}

/// What a time brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerAction {
    /// A ping for a client that has not asked for anything.
    PingIdle,
    /// A ping for one that was silent for an interval.
    PingSilent,
    /// The end of the connection.
    GiveUp,
}

impl Timers {
    /// Something has come.
    pub(super) fn heard(&mut self, now: Duration) {
        self.heard = now;
        self.pinged = None;
        if matches!(self.first, FirstRequest::Pinged(_)) {
            self.first = FirstRequest::Settled;
        }
    }

    /// There was a request.
    pub(super) fn requested(&mut self) {
        self.first = FirstRequest::Settled;
    }

    /// It is pinged, for this reason.
    pub(super) fn pinged(&mut self, now: Duration, action: TimerAction) {
        if action == TimerAction::PingIdle {
            self.first = FirstRequest::Pinged(now);
        }
        self.pinged = Some(now);
    }

    /// What comes next by itself, and when.
    pub(super) fn next(&self, keepalive: &Keepalive) -> Option<(Duration, TimerAction)> {
        let first = match self.first {
            FirstRequest::Awaited => Some((FIRST_REQUEST_TIME, TimerAction::PingIdle)),
            FirstRequest::Pinged(at) => Some((at + FIRST_REQUEST_TIME, TimerAction::GiveUp)),
            FirstRequest::Settled => None,
        };
        let regular = match self.pinged {
            _ if keepalive.interval.is_zero() => None,
            None => Some((self.heard + keepalive.interval, TimerAction::PingSilent)),
            Some(at) if keepalive.timeout.is_zero() => {
                Some((at + keepalive.interval, TimerAction::PingSilent))
            }
            Some(at) => Some((at + keepalive.timeout, TimerAction::GiveUp)),
        };
        first.into_iter().chain(regular).min_by_key(|(at, _)| *at)
    }
}
