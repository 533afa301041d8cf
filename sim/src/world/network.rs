//! The network between members, with the guarantees of `transport` and no others.
//!
//! Each member dials each other member. A dialled link carries frames in one direction, on two ordered streams: frames
//! arrive whole, in order, at most once, after any delay. When a link breaks, frames in flight are lost from some point
//! on, and only the sender notices. A cut link holds frames back until the cut ends or the sender gives the link up.
//!
//! ```text
//! connected --sever--> broken, sender does not know --LinkLost--> down --Dial--> connected (epoch + 1)
//!     |  ^
//!    cut |uncut     frames wait in `held`; after 0.2 to 6 s the sender notices as well
//! ```
//!
//! Each connection has an epoch. Frames and events of an earlier epoch are void. One of the two streams of a link can
//! also fail alone, see `stream.rs`.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use member::MessageClass;

use super::queue::{EventQueue, SimEvent};
use super::stream::SimStream;
use crate::defects::frames::is_append;
use crate::plan::run_plan::LinkDelays;
use crate::rng::Rng;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The first byte of a frame that holds a consensus message.
const CONSENSUS_KIND: u8 = 1;

/// Consensus frames that may be delivered a second time after a reconnect.
const MAX_RECENT_FRAMES: usize = 5;

/// A link from one member to another.
#[derive(Default)]
pub(crate) struct SimLink {
    /// Number of the connection.
    pub(crate) epoch: u64,
    /// Whether the sender believes that it is connected.
    pub(crate) up: bool,
    /// Whether it still carries frames; the sender may not know yet that it does not.
    pub(crate) alive: bool,
    /// Cuts that are in effect; frames get through when there are none.
    pub(crate) cuts: u32,
    /// Added to the delay of each frame.
    pub(crate) slow_ns: u64,
    /// The control and the bulk stream.
    streams: [SimStream; 2],
    /// Frames held back by a cut.
    held: Vec<(MessageClass, Bytes)>,
    /// The last consensus frames.
    pub(crate) recent: VecDeque<(MessageClass, Bytes)>,
    /// The last forwarded commands that arrived, for the defect that sends them again.
    pub(crate) forwarded: Option<Bytes>,
}

/// All links.
pub(crate) struct SimNetwork {
    links: BTreeMap<(usize, usize), SimLink>,
    delays: LinkDelays,
    pub(crate) rng: Rng,
}

impl SimNetwork {
    /// Links between all members, not connected.
    pub(crate) fn new(members: usize, delays: LinkDelays, rng: Rng) -> SimNetwork {
        let pairs = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
        let links = pairs.filter(|(from, to)| from != to).map(|pair| (pair, SimLink::default())).collect();
        SimNetwork { links, delays, rng }
    }

    /// The link from one member to another.
    pub(crate) fn link(&mut self, from: usize, to: usize) -> &mut SimLink {
        self.links.get_mut(&(from, to)).expect("two members have a link")
    }

    /// All links, as (from, to).
    pub(crate) fn pairs(&self) -> Vec<(usize, usize)> {
        self.links.keys().copied().collect()
    }

    /// Schedules the next attempt to connect.
    pub(crate) fn dial_later(&mut self, now_ns: u64, from: usize, to: usize, queue: &mut EventQueue) {
        let after_ns = self.rng.between(MS, 260 * MS);
        let link = self.link(from, to);
        link.up = false;
        link.epoch += 1;
        let epoch = link.epoch;
        queue.schedule(now_ns + after_ns, SimEvent::Dial { from, to, epoch });
    }

    /// Sends a frame, if the link is connected.
    pub(crate) fn send(
        &mut self,
        now_ns: u64,
        (from, to): (usize, usize),
        class: MessageClass,
        bytes: Bytes,
        queue: &mut EventQueue,
    ) {
        let jitter_ns = self.rng.below(self.delays.jitter_ns);
        let rare_ns = if self.rng.below(500) == 0 { self.rng.below(100 * MS) } else { 0 };
        let delay_ns = self.delays.base_ns + jitter_ns + rare_ns;
        let link = self.link(from, to);
        if !link.up || !link.alive || link.stream(class).is_broken {
            return;
        }
        link.sent(class, &bytes);
        if bytes.first() == Some(&CONSENSUS_KIND) {
            link.recent.push_back((class, bytes.clone()));
            if link.recent.len() > MAX_RECENT_FRAMES {
                link.recent.pop_front();
            }
        }
        if link.cuts > 0 {
            link.held.push((class, bytes));
            return;
        }
        let at_ns = link.arrival_ns(now_ns + delay_ns, class);
        queue.schedule(at_ns, SimEvent::Deliver { from, to, epoch: link.epoch_of(class), class, bytes });
    }

    /// Cuts a link. Its sender gives it up after some time.
    pub(crate) fn cut(&mut self, now_ns: u64, from: usize, to: usize, queue: &mut EventQueue) {
        let noticed_ns = now_ns + self.rng.between(200 * MS, 6 * SECOND);
        let link = self.link(from, to);
        link.cuts += 1;
        if link.up {
            queue.schedule(noticed_ns, SimEvent::LinkLost { from, to, epoch: link.epoch });
        }
    }

    /// Ends a cut. Frames that were held back arrive, unless the sender has given the link up.
    pub(crate) fn uncut(&mut self, now_ns: u64, from: usize, to: usize, queue: &mut EventQueue) {
        let delay_ns = self.delays.base_ns;
        let link = self.link(from, to);
        link.cuts = link.cuts.saturating_sub(1);
        if link.cuts > 0 {
            return;
        }
        for (class, bytes) in std::mem::take(&mut link.held) {
            let at_ns = link.arrival_ns(now_ns + delay_ns, class);
            queue.schedule(at_ns, SimEvent::Deliver { from, to, epoch: link.epoch_of(class), class, bytes });
        }
    }

    /// Breaks a link. Frames in flight are lost, or still arrive; the sender notices later.
    pub(crate) fn sever(&mut self, noticed_ns: u64, from: usize, to: usize, queue: &mut EventQueue) {
        let loses_all = self.rng.percent(50);
        let link = self.link(from, to);
        if !link.up || !link.alive {
            return;
        }
        link.alive = false;
        link.held.clear();
        if loses_all {
            link.epoch += 1;
        }
        queue.schedule(noticed_ns, SimEvent::LinkLost { from, to, epoch: link.epoch });
    }

    /// The receiver lost its directory: frames in flight do not reach the member that starts there next.
    pub(crate) fn forget_receiver(&mut self, now_ns: u64, from: usize, to: usize, queue: &mut EventQueue) {
        let link = self.link(from, to);
        link.held.clear();
        link.alive = false;
        if !link.up {
            return self.dial_later(now_ns, from, to, queue);
        }
        link.epoch += 1;
        queue.schedule(now_ns + MS, SimEvent::LinkLost { from, to, epoch: link.epoch });
    }

    /// Disconnects a link, with the knowledge of its sender. Frames in flight are lost.
    pub(crate) fn disconnect(&mut self, from: usize, to: usize) {
        let link = self.link(from, to);
        link.held.clear();
        link.streams.iter_mut().for_each(SimStream::reset);
        link.epoch += 1;
        link.up = false;
        link.alive = false;
    }

    /// Connects a link.
    pub(crate) fn connect(&mut self, from: usize, to: usize) {
        let link = self.link(from, to);
        link.up = true;
        link.alive = true;
        link.streams.iter_mut().for_each(SimStream::reset);
    }

    /// Breaks one stream of a link. Its frames in flight are lost, or still arrive; the sender notices later.
    pub(crate) fn sever_stream(
        &mut self,
        noticed_ns: u64,
        (from, to): (usize, usize),
        class: MessageClass,
        queue: &mut EventQueue,
    ) {
        let loses_all = self.rng.percent(50);
        let link = self.link(from, to);
        if !link.up || !link.alive || link.stream(class).is_broken {
            return;
        }
        link.held.retain(|(held, _)| *held as usize != class as usize);
        link.stream(class).is_broken = true;
        if loses_all {
            link.stream(class).lose_frames();
        }
        let epoch = link.epoch_of(class);
        queue.schedule(noticed_ns, SimEvent::StreamLost { from, to, class, epoch });
    }

    /// Schedules the next attempt to connect one stream of a link.
    pub(crate) fn dial_stream_later(
        &mut self,
        now_ns: u64,
        (from, to): (usize, usize),
        class: MessageClass,
        queue: &mut EventQueue,
    ) {
        let at_ns = now_ns + self.rng.between(MS, 260 * MS);
        let link = self.link(from, to);
        link.stream(class).lose_frames();
        let epoch = link.epoch_of(class);
        queue.schedule(at_ns, SimEvent::DialStream { from, to, class, epoch });
    }
}

impl SimLink {
    /// One of its streams.
    pub(crate) fn stream(&mut self, class: MessageClass) -> &mut SimStream {
        &mut self.streams[class as usize]
    }

    /// Number of the connection of a stream: it grows when the link is connected again, and when the stream is.
    pub(crate) fn epoch_of(&mut self, class: MessageClass) -> u64 {
        self.epoch + self.stream(class).epoch
    }

    /// Whether the sender believes that both streams are connected: then it says that the peer is.
    pub(crate) fn is_whole(&self) -> bool {
        self.up && self.streams.iter().all(|stream| !stream.is_down)
    }

    /// Bytes sent and not delivered.
    pub(crate) fn in_flight_bytes(&self) -> usize {
        self.streams.iter().map(|stream| stream.in_flight_bytes).sum()
    }

    /// Appends with entries sent and not delivered.
    pub(crate) fn in_flight_appends(&self) -> usize {
        self.streams.iter().map(|stream| stream.in_flight_appends).sum()
    }

    fn sent(&mut self, class: MessageClass, bytes: &Bytes) {
        let stream = self.stream(class);
        stream.in_flight_bytes += bytes.len();
        stream.in_flight_appends += usize::from(is_append(bytes));
    }

    /// Counts a frame that arrived.
    pub(crate) fn delivered(&mut self, class: MessageClass, bytes: &Bytes) {
        let stream = self.stream(class);
        stream.in_flight_bytes = stream.in_flight_bytes.saturating_sub(bytes.len());
        stream.in_flight_appends = stream.in_flight_appends.saturating_sub(usize::from(is_append(bytes)));
    }

    /// Arrival time of a frame: frames of one stream stay in order.
    fn arrival_ns(&mut self, at_ns: u64, class: MessageClass) -> u64 {
        let slow_ns = self.slow_ns;
        self.stream(class).arrival_ns(at_ns + slow_ns)
    }
}
