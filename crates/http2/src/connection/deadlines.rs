//! What happens by time: greeting, pings, the two steps of a graceful end, deadlines, messages that do not go on.
//!
//! The owner asks for [`Connection::deadline`] when it has nothing else to do, and calls [`Connection::on_time`] then;
//! earlier calls do nothing. Example, with an interval of 2 h and a time-out of 20 s: a client that was heard at 0:10
//! is pinged at 2:00:10, and the connection is closed at 2:00:30 if nothing has come from it.

use std::time::Duration;

use super::state::{Connection, Ending};
use super::timers::TimerAction;
use crate::frame::{ErrorCode, FrameType};
use crate::limits::{MAX_GREETING_TIME, MAX_HEADER_BLOCK_TIME};

/// What the pings of a silent client carry.
const PING: [u8; 8] = *b"stele...";

impl<T: Default> Connection<T> {
    /// When [`Connection::on_time`] has something to do, if nothing comes before; `None`: never.
    pub fn deadline(&self) -> Option<Duration> {
        let own = self.timers.next(&self.settings.keepalive).map(|(at, _)| at);
        let greeting = (!self.has_settings).then_some(MAX_GREETING_TIME);
        let block = self.block.as_ref().map(|block| block.began + MAX_HEADER_BLOCK_TIME);
        let drain = if let Ending::Announced(until) = self.ending { Some(until) } else { None };
        let stream = self.deadlines.first().map(|(at, _)| *at);
        let silence = self.receiving.silence_ends();
        [own, greeting, block, drain, stream, silence].into_iter().flatten().min()
    }

    /// Does what is due at a time since the connection began.
    pub fn on_time(&mut self, now: Duration) {
        while let Some((_, stream)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.push_reset(stream, ErrorCode::Cancel);
            self.forget(stream);
        }
        self.refuse_silent(now);
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
                self.timers.pinged(now, action);
                self.push_control(FrameType::Ping, 0, 0, &PING);
            }
        }
    }
}
