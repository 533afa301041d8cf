//! Invariant: the renewals of a stream are answered in the order of their requests, at most so many of them wait on a
//! member, and none waits for anything else: what may be submitted is submitted, what can be answered is answered.

use std::collections::VecDeque;

use crate::report::trace::Violation;
use crate::world::lease_stream::WaitingStream;

const CHECK: &str = "renewals of a stream keep their order";

/// The requests of one stream that are not answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwedRenewals {
    /// Their leases, and when they were sent.
    sent: VecDeque<(i64, u64)>,
    /// Most of them that may wait on the member.
    max_in_flight: usize,
}

impl OwedRenewals {
    /// Those of a stream that begins.
    pub(crate) fn new(max_in_flight: usize) -> OwedRenewals {
        OwedRenewals { sent: VecDeque::new(), max_in_flight }
    }

    /// A request is sent.
    pub(crate) fn send(&mut self, lease: i64, now_ns: u64) {
        self.sent.push_back((lease, now_ns));
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// When the oldest request was sent that is not answered.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        self.sent.front().map(|(_, sent_ns)| *sent_ns)
    }

    /// An answer has come. Returns when its request was sent.
    pub(crate) fn receive(&mut self, lease: i64) -> Result<u64, Violation> {
        match self.sent.pop_front() {
            Some((asked, sent_ns)) if asked == lease => Ok(sent_ns),
            asked => {
                let text = format!("the renewal of {lease} is answered, the next request is {asked:?}");
                Violation::err(CHECK, text)
            }
        }
    }

    /// Renewals were submitted.
    pub(crate) fn submitted(&self, in_flight: usize) -> Result<(), Violation> {
        if in_flight > self.max_in_flight {
            let text = format!("{in_flight} renewals of a stream wait, at most {} may", self.max_in_flight);
            return Violation::err(CHECK, text);
        }
        Ok(())
    }

    /// The stream has nothing to send.
    pub(crate) fn stopped(&self, waiting: WaitingStream) -> Result<(), Violation> {
        let is_held_up = waiting.arrived > 0 && waiting.in_flight < self.max_in_flight;
        if is_held_up || waiting.is_oldest_answered {
            return Violation::err(CHECK, format!("a stream stands still: {waiting:?}, {self:?}"));
        }
        Ok(())
    }
}
