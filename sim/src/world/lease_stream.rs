//! A keep-alive stream on a member: requests that have arrived, renewals that wait for their answers, and between them
//! the order that a server keeps (`member::lease::RenewalStream`).

use std::collections::{BTreeMap, VecDeque};
use std::task::Poll;

use api::Error;
use member::lease::{RenewalCalls, RenewalStream};
use member::peer_message::LeaseAnswer;

/// A stream. It ends with its process, or with its client's connection.
pub(crate) struct SimLeaseStream {
    /// Which of its client's streams this is.
    pub(crate) number: u64,
    renewals: RenewalStream<SimRenewal, Error>,
    calls: SimRenewalCalls,
}

/// A renewal, and its number on its stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimRenewal {
    /// From 0.
    pub(crate) number: u64,
    /// The lease.
    pub(crate) lease: i64,
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingStream {
    /// Requests that have arrived and are not submitted.
    pub(crate) arrived: usize,
    /// Renewals that were submitted and are not answered to the client.
    pub(crate) in_flight: usize,
    /// The member has answered the oldest of them.
    pub(crate) is_oldest_answered: bool,
}

/// What lies around the stream.
#[derive(Default)]
struct SimRenewalCalls {
    arrived: VecDeque<i64>,
    /// Renewals that were submitted and are not answered to the client, by number: the lease, and the member's answer.
    waiting: BTreeMap<u64, (i64, Option<Result<LeaseAnswer, Error>>)>,
    /// Those of them that are not handed to the member yet.
    submitted: Vec<SimRenewal>,
    next_number: u64,
    /// A defect: renewals are answered as the member answers them.
    has_no_order: bool,
}

impl SimLeaseStream {
    /// A stream with this limit.
    pub(crate) fn new(number: u64, max_in_flight: usize, has_no_order: bool) -> SimLeaseStream {
        let calls = SimRenewalCalls { has_no_order, ..SimRenewalCalls::default() };
        SimLeaseStream { number, renewals: RenewalStream::new(max_in_flight), calls }
    }

    /// A request arrives.
    pub(crate) fn arrive(&mut self, lease: i64) {
        self.calls.arrived.push_back(lease);
    }

    /// The next answer for the client, and what it is about.
    pub(crate) fn next(&mut self) -> Poll<Option<Result<(SimRenewal, LeaseAnswer), Error>>> {
        self.renewals.next(&mut self.calls)
    }

    /// The renewals that are to be handed to the member.
    pub(crate) fn take_submitted(&mut self) -> Vec<SimRenewal> {
        std::mem::take(&mut self.calls.submitted)
    }

    /// The member answers a renewal.
    pub(crate) fn answered(&mut self, renewal: SimRenewal, answer: Result<LeaseAnswer, Error>) {
        let waiting = &mut self.calls.waiting;
        let entry = match self.calls.has_no_order {
            true => waiting.values_mut().find(|(_, answer)| answer.is_none()),
            false => waiting.get_mut(&renewal.number),
        };
        if let Some(entry) = entry {
            *entry = (renewal.lease, Some(answer));
        }
    }

    /// Where it stands.
    pub(crate) fn waiting(&self) -> WaitingStream {
        let waiting = &self.calls.waiting;
        WaitingStream {
            arrived: self.calls.arrived.len(),
            in_flight: waiting.len(),
            is_oldest_answered: waiting.values().next().is_some_and(|(_, answer)| answer.is_some()),
        }
    }
}

impl RenewalCalls for SimRenewalCalls {
    type Renewal = SimRenewal;
    type Failure = Error;

    fn next_request(&mut self) -> Poll<Option<Result<i64, Error>>> {
        self.arrived.pop_front().map_or(Poll::Pending, |lease| Poll::Ready(Some(Ok(lease))))
    }

    fn submit(&mut self, lease: i64) -> SimRenewal {
        let renewal = SimRenewal { number: self.next_number, lease };
        self.next_number += 1;
        self.waiting.insert(renewal.number, (lease, None));
        self.submitted.push(renewal);
        renewal
    }

    fn answer(&mut self, renewal: &mut SimRenewal) -> Poll<Result<LeaseAnswer, Error>> {
        let Some((lease, Some(answer))) = self.waiting.get(&renewal.number).copied() else {
            return Poll::Pending;
        };
        renewal.lease = lease;
        self.waiting.remove(&renewal.number);
        Poll::Ready(answer)
    }
}
