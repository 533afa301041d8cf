//! The network between members, with the promises that `transport` makes and no others.
//!
//! Each member dials each other one; the dialled link carries frames in one direction, on two ordered
//! streams. Frames
//! arrive in order, whole, at most once, after any time; when a link breaks, what was on its way is lost
//! from some point
//! on, and the sender alone is told. A cut link holds frames back until it is repaired or the sender gives it
//! up. A link is
//! accepted only from the directory that is bound to the dialler's id.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use member::MessageClass;

use crate::defects::frames::is_append;
use crate::plan::LinkShape;
use crate::queue::{Event, Queue};
use crate::rng::Rng;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The kind of a frame that holds a consensus message.
const CONSENSUS: u8 = 1;

/// Consensus frames that may come again when a link does.
const RECENT_FRAMES: usize = 5;

/// A link from one member to another.
#[derive(Default)]
pub(crate) struct Link {
    /// Counts the connections; frames and news of older ones are void.
    pub(crate) epoch: u64,
    /// Whether the sender holds it for up.
    pub(crate) up: bool,
    /// Whether it still carries anything; the sender may not know yet that it does not.
    pub(crate) alive: bool,
    /// Nothing gets through until so many cuts are repaired.
    pub(crate) cuts: u32,
    /// Added to each frame's delay.
    pub(crate) slow_ns: u64,
    last_ns: [u64; 2],
    /// Frames that a cut holds back.
    held: Vec<(MessageClass, Bytes)>,
    /// Bytes sent and not delivered.
    pub(crate) in_flight_bytes: usize,
    /// Appends with entries sent and not delivered.
    pub(crate) in_flight_appends: usize,
    /// The last consensus frames: they may be seen twice when the link comes back.
    pub(crate) recent: VecDeque<(MessageClass, Bytes)>,
    /// The last forwarded commands that arrived; only a defect sends them again.
    pub(crate) forwarded: Option<Bytes>,
}

/// All links.
pub(crate) struct Network {
    links: BTreeMap<(usize, usize), Link>,
    shape: LinkShape,
    pub(crate) rng: Rng,
}

impl Network {
    /// Links between all members, all down.
    pub(crate) fn new(members: usize, shape: LinkShape, rng: Rng) -> Network {
        let pairs = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
        let links = pairs.filter(|(from, to)| from != to).map(|pair| (pair, Link::default())).collect();
        Network { links, shape, rng }
    }

    /// The link from one member to another.
    pub(crate) fn link(&mut self, from: usize, to: usize) -> &mut Link {
        self.links.get_mut(&(from, to)).expect("two members have a link")
    }

    /// Every pair of members.
    pub(crate) fn pairs(&self) -> Vec<(usize, usize)> {
        self.links.keys().copied().collect()
    }

    /// Plans the next attempt to open a link.
    pub(crate) fn dial_later(&mut self, now_ns: u64, from: usize, to: usize, queue: &mut Queue) {
        let after_ns = self.rng.between(MS, 260 * MS);
        let link = self.link(from, to);
        link.up = false;
        link.epoch += 1;
        let epoch = link.epoch;
        queue.plan(now_ns + after_ns, Event::Dial { from, to, epoch });
    }

    /// Sends a frame, if the link is up.
    pub(crate) fn send(
        &mut self,
        now_ns: u64,
        (from, to): (usize, usize),
        class: MessageClass,
        bytes: Bytes,
        queue: &mut Queue,
    ) {
        let jitter_ns = self.rng.below(self.shape.jitter_ns);
        let rare_ns = if self.rng.below(500) == 0 { self.rng.below(100 * MS) } else { 0 };
        let delay_ns = self.shape.base_ns + jitter_ns + rare_ns;
        let link = self.link(from, to);
        if !link.up || !link.alive {
            return;
        }
        link.sent(&bytes);
        if bytes.first() == Some(&CONSENSUS) {
            link.recent.push_back((class, bytes.clone()));
            if link.recent.len() > RECENT_FRAMES {
                link.recent.pop_front();
            }
        }
        if link.cuts > 0 {
            link.held.push((class, bytes));
            return;
        }
        let at_ns = link.arrival_ns(now_ns + delay_ns, class);
        queue.plan(at_ns, Event::Deliver { from, to, epoch: link.epoch, class, bytes });
    }

    /// Cuts a link. A sender that hears nothing gives it up after a while.
    pub(crate) fn cut(&mut self, now_ns: u64, from: usize, to: usize, queue: &mut Queue) {
        let noticed_ns = now_ns + self.rng.between(200 * MS, 6 * SECOND);
        let link = self.link(from, to);
        link.cuts += 1;
        if link.up {
            queue.plan(noticed_ns, Event::Broken { from, to, epoch: link.epoch });
        }
    }

    /// Mends a cut; what was held back arrives now, if nobody has given up the link.
    pub(crate) fn mend(&mut self, now_ns: u64, from: usize, to: usize, queue: &mut Queue) {
        let delay_ns = self.shape.base_ns;
        let link = self.link(from, to);
        link.cuts = link.cuts.saturating_sub(1);
        if link.cuts > 0 {
            return;
        }
        for (class, bytes) in std::mem::take(&mut link.held) {
            let at_ns = link.arrival_ns(now_ns + delay_ns, class);
            queue.plan(at_ns, Event::Deliver { from, to, epoch: link.epoch, class, bytes });
        }
    }

    /// The link carries nothing more. What is on its way is lost with it, or still arrives; the sender
    /// notices later.
    pub(crate) fn sever(&mut self, noticed_ns: u64, from: usize, to: usize, queue: &mut Queue) {
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
        queue.plan(noticed_ns, Event::Broken { from, to, epoch: link.epoch });
    }

    /// The directory at the receiving end is gone: whoever speaks from there next gets nothing of what was on its
    /// way to its predecessor.
    pub(crate) fn forget(&mut self, now_ns: u64, from: usize, to: usize, queue: &mut Queue) {
        let link = self.link(from, to);
        link.held.clear();
        link.alive = false;
        if !link.up {
            return self.dial_later(now_ns, from, to, queue);
        }
        link.epoch += 1;
        queue.plan(now_ns + MS, Event::Broken { from, to, epoch: link.epoch });
    }

    /// The link is gone, and the sender knows; frames on their way are lost.
    pub(crate) fn lose(&mut self, from: usize, to: usize) {
        let link = self.link(from, to);
        link.held.clear();
        (link.in_flight_bytes, link.in_flight_appends) = (0, 0);
        link.last_ns = [0; 2];
        link.epoch += 1;
        link.up = false;
        link.alive = false;
    }

    /// The link is up.
    pub(crate) fn connected(&mut self, from: usize, to: usize) {
        let link = self.link(from, to);
        link.up = true;
        link.alive = true;
        (link.in_flight_bytes, link.in_flight_appends) = (0, 0);
        link.last_ns = [0; 2];
    }
}

impl Link {
    fn sent(&mut self, bytes: &Bytes) {
        self.in_flight_bytes += bytes.len();
        self.in_flight_appends += usize::from(is_append(bytes));
    }

    /// A frame has arrived.
    pub(crate) fn delivered(&mut self, bytes: &Bytes) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes.len());
        self.in_flight_appends = self.in_flight_appends.saturating_sub(usize::from(is_append(bytes)));
    }

    /// Frames of one stream never overtake each other.
    fn arrival_ns(&mut self, at_ns: u64, class: MessageClass) -> u64 {
        let last = &mut self.last_ns[class as usize];
        *last = (at_ns + self.slow_ns).max(*last);
        *last
    }
}
