//! The control and the bulk stream of a link fail apart: each is lost, and dialled again, while the other goes on.

use member::{Input, MessageClass};

use crate::simulation::state::Simulation;
use crate::world::machine::id_of;

const MS: u64 = 1_000_000;

/// How soon a sender notices that a stream is gone, at the latest.
pub(in crate::simulation) const STREAM_NOTICED_NS: u64 = 500 * MS;

impl Simulation {
    /// In runs whose streams fail apart, one of the two may be connected some time after the other. Returns whether it
    /// is so for this connection of a link.
    pub(super) fn connects_apart(&mut self, from: usize, to: usize) -> bool {
        if !self.plan.streams_fail_apart || self.network.rng.percent(50) {
            return false;
        }
        let class = self.draw_class();
        let stream = self.network.link(from, to).stream(class);
        (stream.is_broken, stream.is_down) = (true, true);
        self.network.dial_stream_later(self.now_ns, (from, to), class, &mut self.queue);
        self.coverage.event("streams connected apart");
        true
    }

    /// Any of the two streams.
    fn draw_class(&mut self) -> MessageClass {
        if self.network.rng.percent(50) { MessageClass::Control } else { MessageClass::Bulk }
    }

    /// Breaks a stream of a link; the sender notices within `noticed_ns`.
    pub(in crate::simulation) fn break_stream(&mut self, from: usize, to: usize, noticed_ns: u64) {
        let class = self.draw_class();
        let noticed_ns = self.now_ns + self.network.rng.below(noticed_ns);
        self.network.sever_stream(noticed_ns, (from, to), class, &mut self.queue);
    }

    /// Holds up the frames of a stream, while those of the other arrive.
    pub(in crate::simulation) fn hold_up_stream(&mut self, from: usize, to: usize, for_ns: u64) {
        let class = self.draw_class();
        // What is held up stays late, so nothing may be held up longer than the faults last.
        let until_ns = (self.now_ns + for_ns).min(self.plan.fault_phase_ns);
        self.network.link(from, to).stream(class).hold_up(until_ns);
    }

    /// The sender notices that a stream is gone: the peer is not connected any more, if it was.
    pub(in crate::simulation) fn stream_lost(
        &mut self,
        (from, to): (usize, usize),
        class: MessageClass,
        epoch: u64,
    ) {
        let link = self.network.link(from, to);
        if link.epoch_of(class) != epoch || !link.up || !self.machines[from].is_up() {
            return;
        }
        let was_whole = link.is_whole();
        link.stream(class).is_down = true;
        if was_whole {
            self.give(from, Input::PeerDown(id_of(to)));
        }
        self.coverage.event("streams lost alone");
        self.network.dial_stream_later(self.now_ns, (from, to), class, &mut self.queue);
    }

    /// A stream is dialled: when both are connected, the peer is.
    pub(in crate::simulation) fn dial_stream(
        &mut self,
        (from, to): (usize, usize),
        class: MessageClass,
        epoch: u64,
    ) {
        let link = self.network.link(from, to);
        if link.epoch_of(class) != epoch || !link.up || !self.keeps_link(from, to) {
            return;
        }
        let link = self.network.link(from, to);
        let is_cut = link.cuts > 0 || !link.alive || self.network.link(to, from).cuts > 0;
        if is_cut || !self.machines[to].is_up() || !self.knows_url(from, to) {
            self.network.dial_stream_later(self.now_ns, (from, to), class, &mut self.queue);
            return;
        }
        let link = self.network.link(from, to);
        link.stream(class).connect();
        let is_whole = link.is_whole();
        self.trace.mix(&[4, self.now_ns, from as u64, to as u64, class as u64]);
        if is_whole {
            self.give(from, Input::PeerUp(id_of(to)));
        }
        self.deliver_again((from, to), Some(class));
    }
}
