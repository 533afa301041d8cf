//! Damaged values, fetched again from peers.

use bytes::Bytes;
use store::Damaged;

use crate::frame::{Frame, ValueName};
use crate::io::{Notice, Now, Output};
use crate::member::Member;

impl Member {
    pub(crate) fn heal_for_apply(&mut self, damaged: &Damaged, out: &mut Output) {
        out.notices.push(Notice::Damage { text: damaged.to_string() });
    }

    pub(crate) fn on_heal(&mut self, now: Now, token: u64, _place: u64) {
        self.waiting.insert(token, now.monotonic_ns + self.config.request_timeout_ns());
    }

    pub(crate) fn on_value_ask(&mut self, from: u64, name: ValueName, out: &mut Output) {
        self.send(from, &Frame::ValueAnswer(name, None), out);
    }

    pub(crate) fn on_value_answer(
        &mut self,
        _now: Now,
        _name: ValueName,
        _value: Option<Bytes>,
        _out: &mut Output,
    ) {
    }
}

impl Member {
    /// TEMP
    pub(crate) fn heal_place(&mut self, _place: u64, _out: &mut Output) {}
    pub(crate) fn forget_reclaiming(&mut self) {}
}
