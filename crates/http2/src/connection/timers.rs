//! What happens by time: greeting, pings, the two steps of a graceful end, deadlines.
//!
//! The owner asks for [`Connection::deadline`] when it has nothing else to do, and calls [`Connection::on_time`] then;
//! earlier calls do nothing. Example, with an interval of 2 h and a time-out of 20 s: a client that was heard at 0:10 is
//! pinged at 2:00:10, and the connection is closed at 2:00:30 if nothing has come from it.

use std::time::Duration;

use super::state::{Connection, Ending};
use crate::frame::{ErrorCode, FrameType};
use crate::limits::{FIRST_REQUEST_TIME, Keepalive, MAX_GREETING_TIME, MAX_HEADER_BLOCK_TIME};

/// What the pings of a silent client carry.
const PING: [u8; 8] = *b"stele...";

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
enum TimerAction {
    PingIdle,
    PingSilent,
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

    /// What comes next by itself, and when.
    fn next(&self, keepalive: &Keepalive) -> Option<(Duration, TimerAction)> {
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

impl<T: Default> Connection<T> {
    /// When [`Connection::on_time`] has something to do, if nothing comes before; `None`: never.
    pub fn deadline(&self) -> Option<Duration> {
        let own = self.timers.next(&self.settings.keepalive).map(|(at, _)| at);
        let greeting = (!self.has_settings).then_some(MAX_GREETING_TIME);
        let block = self.block.as_ref().map(|block| block.began + MAX_HEADER_BLOCK_TIME);
        let drain = if let Ending::Announced(until) = self.ending { Some(until) } else { None };
        let stream = self.deadlines.first().map(|(at, _)| *at);
        [own, greeting, block, drain, stream].into_iter().flatten().min()
    }

    /// Does what is due at a time since the connection began.
    pub fn on_time(&mut self, now: Duration) {
        while let Some((_, stream)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.push_reset(stream, ErrorCode::Cancel);
            self.forget(stream);
        }
        if matches!(self.ending, Ending::Announced(until) if until <= now) {
            self.drain();
        }
        let is_late = !self.has_settings && now >= MAX_GREETING_TIME
            || self.block.as_ref().is_some_and(|block| now >= block.began + MAX_HEADER_BLOCK_TIME);
        match self.timers.next(&self.settings.keepalive).filter(|(at, _)| *at <= now) {
            _ if is_late => self.ending = Ending::Closed,
            None => {}
            Some((_, TimerAction::GiveUp)) => self.ending = Ending::Closed,
            Some((_, action)) => {
                if action == TimerAction::PingIdle {
                    self.timers.first = FirstRequest::Pinged(now);
                }
                self.timers.pinged = Some(now);
                self.push_control(FrameType::Ping, 0, 0, &PING);
            }
        }
    }
}
